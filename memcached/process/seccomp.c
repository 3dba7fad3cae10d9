/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/sockios.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Since Linux 5.17; headers may be older. */
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

/* Calls that are allowed with any arguments, by name: an architecture may lack some. */
static const char *const always[] = {
    /* connections and datagrams */
    "accept",
    "accept4",
    "close",
    "fcntl",
    "getpeername",
    "getsockname",
    "getsockopt",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "send",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "write",
    "writev",
    /* event loops */
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "eventfd",
    "eventfd2",
    "pipe",
    "pipe2",
    "poll",
    "ppoll",
    "pselect6",
    "select",
    "timerfd_create",
    "timerfd_settime",
    /* memory */
    "brk",
    "madvise",
    "mincore",
    "mlock",
    "mlock2",
    "mremap",
    "munlock",
    "munmap",
    /* threads */
    "clone",
    "clone3",
    "exit",
    "exit_group",
    "futex",
    "get_robust_list",
    "getcpu",
    "membarrier",
    "restart_syscall",
    "rseq",
    "sched_getaffinity",
    "sched_setaffinity",
    "sched_yield",
    "set_robust_list",
    "set_tid_address",
    /* signals */
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigtimedwait",
    "sigaltstack",
    /* time */
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "gettimeofday",
    "nanosleep",
    "time",
    /* the process about itself */
    "getegid",
    "geteuid",
    "getgid",
    "getpid",
    "getppid",
    "getrandom",
    "getrlimit",
    "getrusage",
    "gettid",
    "getuid",
    "sysinfo",
    "uname",
    /* files that are open, and the redirection of a daemon's output */
    "dup2",
    "dup3",
    "fadvise64",
    "fdatasync",
    "fstat",
    "fstat64",
    "fstatfs",
    "fsync",
    "lseek",
    "msync",
    "newfstatat",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "stat",
    "statx",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
};

static const char *const file_writing[] = {
    "chmod", "creat",  "fallocate", "fchmod",   "fchmodat",  "flock",  "ftruncate",
    "open",  "openat", "rename",    "renameat", "renameat2", "unlink", "unlinkat",
};

/* For sockets of AF_NETLINK, and to end a connection with other numbers than the socket's. */
static const char *const kernel_path_names[] = {"bind", "connect"};

static const char *const file_removing[] = {"unlink", "unlinkat"};

static const char *const daemon_asking[] = {"connect", "flock", "fstat", "umask"};

/* Calls that are allowed if one argument, masked, equals a value. */
struct conditional {
    const char *name;
    unsigned int argument;
    uint64_t mask, value;
};

#define WRITING (O_ACCMODE | O_CREAT | O_TRUNC)

static const struct conditional sometimes[] = {
    {"open", 1, WRITING, O_RDONLY},
    {"openat", 2, WRITING, O_RDONLY},
    {"mmap", 2, PROT_EXEC, 0},
    {"mmap2", 2, PROT_EXEC, 0},
    {"mprotect", 2, PROT_EXEC, 0},
    {"ioctl", 1, UINT32_MAX, TCGETS},
    {"ioctl", 1, UINT32_MAX, FIONREAD},
    {"ioctl", 1, UINT32_MAX, FIONBIO},
    {"prctl", 0, UINT32_MAX, PR_SET_NAME},
    {"prctl", 0, UINT32_MAX, PR_SET_VMA},
    {"prlimit64", 2, UINT64_MAX, 0},
};

/* Calls of the kernel path: maps, links and rtnetlink; it loads no programs after the start. */
static const struct conditional kernel_path[] = {
    {"bpf", 0, UINT32_MAX, BPF_MAP_CREATE},
    {"bpf", 0, UINT32_MAX, BPF_MAP_LOOKUP_ELEM},
    {"bpf", 0, UINT32_MAX, BPF_MAP_LOOKUP_BATCH},
    {"bpf", 0, UINT32_MAX, BPF_MAP_UPDATE_ELEM},
    {"bpf", 0, UINT32_MAX, BPF_MAP_DELETE_ELEM},
    {"bpf", 0, UINT32_MAX, BPF_MAP_GET_NEXT_KEY},
    {"bpf", 0, UINT32_MAX, BPF_OBJ_GET_INFO_BY_FD},
    {"bpf", 0, UINT32_MAX, BPF_LINK_DETACH},
    /* The program that removes a TCP connection's entry. */
    {"bpf", 0, UINT32_MAX, BPF_PROG_TEST_RUN},
    /*
     * To attach again to an interface that is back or was detached, and to read what is attached.
     */
    {"bpf", 0, UINT32_MAX, BPF_LINK_CREATE},
    {"bpf", 0, UINT32_MAX, BPF_LINK_UPDATE},
    {"bpf", 0, UINT32_MAX, BPF_PROG_GET_FD_BY_ID},
    {"bpf", 0, UINT32_MAX, BPF_PROG_QUERY},
    /* To read addresses and interfaces, and to attach a TC filter. */
    {"socket", 0, UINT32_MAX, AF_NETLINK},
    {"ioctl", 1, UINT32_MAX, SIOCETHTOOL},
    /* To share an interface with other servers. */
    {"socket", 0, UINT32_MAX, AF_UNIX},
};

static const struct conditional local_sockets[] = {{"socket", 0, UINT32_MAX, AF_UNIX}};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int add_rule(scmp_filter_ctx filter, const char *name, unsigned int nconditions,
                    const struct scmp_arg_cmp *conditions)
{
    int number = seccomp_syscall_resolve_name(name);
    int result;

    if (number == __NR_SCMP_ERROR)
        return 0; /* a call that this libseccomp does not know */
    result = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number, nconditions, conditions);
    return result == -EEXIST ? 0 : result;
}

static int allow(scmp_filter_ctx filter, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int result = add_rule(filter, names[i], 0, NULL);

        if (result)
            return result;
    }
    return 0;
}

static int allow_if(scmp_filter_ctx filter, const struct conditional *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct conditional *row = &rows[i];
        struct scmp_arg_cmp when =
            SCMP_CMP64(row->argument, SCMP_CMP_MASKED_EQ, row->mask, row->value);
        int result = add_rule(filter, row->name, 1, &when);

        if (result)
            return result;
    }
    return 0;
}

/* abort() and assert() signal their own process; no other process may be signalled. */
static int allow_abort(scmp_filter_ctx filter)
{
    const struct scmp_arg_cmp local = SCMP_CMP64(0, SCMP_CMP_EQ, (uint64_t)getpid(), 0);

    return add_rule(filter, "tgkill", 1, &local);
}

static int add_rules(scmp_filter_ctx filter, const struct seccomp_needs *needs)
{
    int result = allow(filter, always, COUNT(always));

    if (result == 0)
        result = allow_abort(filter);
    if (result == 0 && needs->writes_files)
        result = allow(filter, file_writing, COUNT(file_writing));
    if (result == 0)
        result = allow_if(filter, sometimes, COUNT(sometimes));
    if (result == 0 && needs->removes_file)
        result = allow(filter, file_removing, COUNT(file_removing));
    if (result == 0 && needs->kernel_path)
        result = allow_if(filter, kernel_path, COUNT(kernel_path));
    if (result == 0 && needs->kernel_path)
        result = allow(filter, kernel_path_names, COUNT(kernel_path_names));
    if (result == 0 && needs->asks_daemon)
        result = allow(filter, daemon_asking, COUNT(daemon_asking));
    if (result == 0 && needs->asks_daemon)
        result = allow_if(filter, local_sockets, COUNT(local_sockets));
    return result;
}

int seccomp_install(const struct seccomp_needs *needs)
{
    scmp_filter_ctx filter =
        seccomp_init(needs->relaxed ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_KILL_PROCESS);
    int result;

    if (!filter)
        return -ENOMEM;
    result = add_rules(filter, needs);
    if (result == 0)
        result = seccomp_load(filter);
    seccomp_release(filter);
    return result;
}
