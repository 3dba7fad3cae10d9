/* SPDX-License-Identifier: BSD-3-Clause */
/* The filter of -o drop_privileges, loaded in a child process that then makes one system call. */
#include "process/seccomp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t/lib/tap.h"

static const struct seccomp_needs plain = {0};
static const struct seccomp_needs relaxed = {.relaxed = true};
static const struct seccomp_needs writing = {.writes_files = true};
static const struct seccomp_needs removing = {.removes_file = true};
static const struct seccomp_needs with_bpf = {.kernel_path = true};
static const struct seccomp_needs asking = {.asks_daemon = true};

/* Each returns 0 when the call had its effect, else errno. */
static int outcome(long result)
{
    return result < 0 ? errno : 0;
}

static int run_program(void)
{
    char *const none[] = {NULL};

    return outcome(execve("/bin/true", none, none));
}

static int new_socket(void)
{
    return outcome(socket(AF_INET, SOCK_STREAM, 0));
}

static int local_socket(void)
{
    return outcome(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int netlink_socket(void)
{
    return outcome(socket(AF_NETLINK, SOCK_RAW, 0));
}

static int read_file(void)
{
    return outcome(open("/etc/passwd", O_RDONLY | O_CLOEXEC));
}

static int write_file(void)
{
    return outcome(open("/dev/null", O_WRONLY | O_CLOEXEC));
}

static int remove_file(void)
{
    return unlink("/nonexistent/file") != 0 && errno == ENOENT ? 0 : errno;
}

static int executable_memory(void)
{
    void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? errno : 0;
}

static int more_memory(void)
{
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? errno : 0;
}

static int become_root(void)
{
    return outcome(setuid(0));
}

static int signal_parent(void)
{
    return outcome(kill(getppid(), 0));
}

static int raise_limit(void)
{
    struct rlimit limit = {64, 64};

    return outcome(setrlimit(RLIMIT_NOFILE, &limit));
}

static int read_limit(void)
{
    struct rlimit limit;

    return outcome(getrlimit(RLIMIT_NOFILE, &limit));
}

static int trace(void)
{
    return outcome(syscall(SYS_ptrace, 0, 0, 0, 0));
}

/* Whatever the kernel returns, the filter allowed the call. */
static int call_bpf(int command)
{
    syscall(SYS_bpf, command, NULL, 0);
    return 0;
}

static int load_program(void)
{
    return call_bpf(BPF_PROG_LOAD);
}

static int create_map(void)
{
    return call_bpf(BPF_MAP_CREATE);
}

static void *nothing(void *context)
{
    return context;
}

static int start_thread(void)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, nothing, NULL);

    return error ? error : pthread_join(thread, NULL);
}

static void *call_socket(void *context)
{
    *(int *)context = new_socket();
    return NULL;
}

static int socket_in_thread(void)
{
    pthread_t thread;
    int result = 0;
    int error = pthread_create(&thread, NULL, call_socket, &result);

    return error ? error : pthread_join(thread, NULL) ? EINVAL : result;
}

enum { KILLED = -1 };

static int nothing_at_all(void)
{
    return 0;
}

/* The result of seccomp_install, or the status of the call behind it; KILLED by SIGSYS. */
static int try_call(const struct seccomp_needs *needs, int (*call)(void))
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        int error = -seccomp_install(needs);

        _exit(error ? error : call());
    }
    if (waitpid(child, &status, 0) != child)
        return 255;
    return WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status) == SIGSYS ? KILLED : 255;
}

struct row {
    const struct seccomp_needs *needs;
    int (*call)(void);
    int status;
    const char *behaviour;
};

static const struct row rows[] = {
    {&plain, run_program, KILLED, "executing a program kills the process"},
    {&plain, new_socket, KILLED, "opening an internet socket kills the process"},
    {&plain, local_socket, KILLED, "opening a unix socket kills the process"},
    {&plain, netlink_socket, KILLED, "opening a netlink socket kills the process"},
    {&plain, write_file, KILLED, "opening a file for writing kills the process"},
    {&plain, remove_file, KILLED, "removing a file kills the process"},
    {&plain, executable_memory, KILLED, "mapping executable memory kills the process"},
    {&plain, become_root, KILLED, "changing the user kills the process"},
    {&plain, signal_parent, KILLED, "a signal to another process kills the process"},
    {&plain, raise_limit, KILLED, "changing a resource limit kills the process"},
    {&plain, trace, KILLED, "ptrace kills the process"},
    {&plain, create_map, KILLED, "bpf kills the process"},
    {&plain, socket_in_thread, KILLED, "a thread that starts later has the same filter"},
    {&plain, read_file, 0, "a file can be read"},
    {&plain, more_memory, 0, "memory can be mapped"},
    {&plain, read_limit, 0, "a resource limit can be read"},
    {&plain, start_thread, 0, "a thread can be started and joined"},
    {&relaxed, new_socket, EPERM,
     "with relaxed_privileges a socket is refused and the process lives"},
    {&relaxed, run_program, EPERM,
     "with relaxed_privileges a program is refused and the process lives"},
    {&writing, write_file, 0, "with a restart file, files can be written"},
    {&writing, new_socket, KILLED, "with a restart file, opening a socket kills the process"},
    {&removing, remove_file, 0, "with a pid file, the file can be removed"},
    {&removing, write_file, KILLED, "with a pid file, writing a file kills the process"},
    {&with_bpf, create_map, 0, "with the kernel path, maps can be created"},
    {&with_bpf, netlink_socket, 0, "with the kernel path, the network can be configured"},
    {&with_bpf, load_program, KILLED, "with the kernel path, loading a program kills the process"},
    {&with_bpf, new_socket, KILLED, "with the kernel path, opening a socket kills the process"},
    {&asking, local_socket, 0, "with SASL, a local daemon can be contacted"},
    {&asking, new_socket, KILLED, "with SASL, opening an internet socket kills the process"},
};

int main(void)
{
    if (try_call(&plain, nothing_at_all) == ENOSYS) {
        ok(true, "without libseccomp installing the filter is an error");
        return done();
    }
    for (size_t i = 0; i < COUNT(rows); i++) {
        int status = try_call(rows[i].needs, rows[i].call);

        if (!ok(status == rows[i].status, "%s", rows[i].behaviour))
            diag("status %d", status);
    }
    return done();
}
