/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

/* Since Linux 5.8; headers may be older. */
#ifndef CAP_BPF
#define CAP_BPF 39
#endif

/* --- limits ------------------------------------------------------------ */

void sandbox_raise_core_limit(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

    if (setrlimit(RLIMIT_CORE, &limit) != 0) {
        /* Without the right to raise the hard limit, up to it. */
        if (getrlimit(RLIMIT_CORE, &limit) == 0) {
            limit.rlim_cur = limit.rlim_max;
            setrlimit(RLIMIT_CORE, &limit);
        }
    }
    if (getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_cur == 0) {
        fatal(EXIT_OS_ERROR, "failed to ensure corefile creation");
    }
}

void sandbox_raise_files_limit(uint64_t needed, uint64_t extra)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        fatal(EXIT_OS_ERROR, "failed to getrlimit number of files");
    }
    if (limit.rlim_cur >= needed + extra) {
        return;
    }
    limit.rlim_cur = needed + extra;
    if (limit.rlim_max < limit.rlim_cur) {
        struct rlimit higher = {limit.rlim_cur, limit.rlim_cur};

        if (setrlimit(RLIMIT_NOFILE, &higher) == 0) {
            return;
        }
        limit.rlim_cur = limit.rlim_max;
    }
    if (limit.rlim_cur < needed || setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        fatal(EXIT_OS_ERROR, "failed to set rlimit for open files. Try starting as root or "
                             "requesting smaller maxconns value.");
    }
}

void sandbox_need_large_pages(void)
{
    static const char advice[] = "Cannot enable large pages on this system";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    char modes[128] = "";

    if (!file) {
        fatal(1, "Transparent huge pages support not detected.\n%s", advice);
    }
    if (!fgets(modes, sizeof(modes), file) || strstr(modes, "[never]")) {
        fatal(1, "Transparent huge pages support disabled.\n%s", advice);
    }
    fclose(file);
}

void sandbox_raise_lock_limit(void)
{
    const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};

    if (setrlimit(RLIMIT_MEMLOCK, &unlimited) != 0) {
        log_at(1, "cannot raise the limit of locked memory: %s", strerror(errno));
    }
}

void sandbox_lock_memory(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        log_say("warning: -k invalid, mlockall() failed: %s", strerror(errno));
    }
}

void sandbox_allow_core_dumps(void)
{
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/* --- user and capabilities --------------------------------------------- */

struct sandbox_user sandbox_find_user(const char *name)
{
    const struct passwd *entry;

    if (getuid() != 0 && geteuid() != 0) {
        return (struct sandbox_user){0};
    }
    if (!name || !*name) {
        fatal(EXIT_USAGE_ERROR, "can't run as root without the -u switch");
    }
    entry = getpwnam(name);
    if (!entry) {
        fatal(EXIT_NO_USER, "can't find the user %s to switch to", name);
    }
    return (struct sandbox_user){true, entry->pw_uid, entry->pw_gid, name};
}

void sandbox_become(const struct sandbox_user *user)
{
    if (!user->given) {
        return;
    }
    if (setgroups(1, &user->gid) != 0) {
        fatal(EXIT_OS_ERROR, "failed to drop supplementary groups: %s", strerror(errno));
    }
    if (setgid(user->gid) != 0 || setuid(user->uid) != 0) {
        fatal(EXIT_OS_ERROR, "failed to assume identity of user %s", user->name);
    }
}

static uint32_t capability_bit(unsigned int capability)
{
    return UINT32_C(1) << (capability % 32);
}

static void read_capabilities(struct __user_cap_data_struct sets[2])
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};

    if (syscall(SYS_capget, &header, sets) != 0) {
        fatal(EXIT_OS_ERROR, "cannot read the capabilities: %s", strerror(errno));
    }
}

/* Permitted and effective: CAP_BPF if it is there and is to be kept, and nothing else. */
static void drop_capabilities(bool keep_bpf)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {0};
    unsigned int word = CAP_BPF / 32;
    uint32_t kept = 0;

    read_capabilities(sets);
    if (keep_bpf) {
        kept = sets[word].permitted & capability_bit(CAP_BPF);
    }
    memset(sets, 0, sizeof(sets));
    sets[word].permitted = sets[word].effective = kept;
    if (syscall(SYS_capset, &header, sets) != 0) {
        fatal(EXIT_OS_ERROR, "cannot drop capabilities: %s", strerror(errno));
    }
}

static void empty_bounding_set(void)
{
    struct __user_cap_data_struct sets[2] = {0};

    read_capabilities(sets);
    if (!(sets[0].effective & capability_bit(CAP_SETPCAP))) {
        return; /* started with file capabilities alone: no_new_privs bounds it */
    }
    for (int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++) {
        if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) != 0) {
            fatal(EXIT_OS_ERROR, "cannot empty the bounding set: %s", strerror(errno));
        }
    }
}

void sandbox_become_confined(const struct sandbox_user *user, bool keep_bpf)
{
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    empty_bounding_set();
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) {
        fatal(EXIT_OS_ERROR, "cannot keep CAP_BPF: %s", strerror(errno));
    }
    sandbox_become(user);
    drop_capabilities(keep_bpf);
    prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        fatal(EXIT_OS_ERROR, "cannot set no_new_privs: %s", strerror(errno));
    }
}

/* --- daemon ------------------------------------------------------------ */

int sandbox_daemonize(bool keep_directory)
{
    int ends[2];
    pid_t child;
    char byte;
    int status, null;

    if (pipe2(ends, O_CLOEXEC) != 0 || (child = fork()) < 0) {
        fatal(1, "failed to daemon() in order to daemonize");
    }
    if (child == 0) {
        close(ends[0]);
        setsid();
        null = open("/dev/null", O_RDWR);
        if ((!keep_directory && chdir("/") != 0) || null < 0 || dup2(null, STDIN_FILENO) < 0) {
            fatal(1, "failed to daemon() in order to daemonize");
        }
        if (null > STDERR_FILENO) {
            close(null);
        }
        return ends[1];
    }
    close(ends[1]);
    if (read(ends[0], &byte, 1) == 1) {
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

void sandbox_ready(int fd, bool keep_stderr)
{
    if (!keep_stderr) {
        dup2(STDIN_FILENO, STDOUT_FILENO);
        dup2(STDIN_FILENO, STDERR_FILENO);
    }
    if (write(fd, "", 1) != 1) {
        log_say("the process that started the daemon is gone");
    }
    close(fd);
}

/* Says so if the file that is there names a process that lives. */
static void look_for_another(const char *path)
{
    FILE *file = fopen(path, "re");
    long pid = 0;

    if (!file) {
        return;
    }
    if (fscanf(file, "%ld", &pid) == 1 && pid > 0 && pid != getpid() && pid == (pid_t)pid &&
        (kill((pid_t)pid, 0) == 0 || errno == EPERM)) {
        log_say("WARNING: The pid file contained the following (running) pid: %ld", pid);
    }
    fclose(file);
}

void sandbox_write_pid(const char *path)
{
    char *draft;
    FILE *file;

    look_for_another(path);
    if (asprintf(&draft, "%s.tmp", path) < 0) {
        return;
    }
    file = fopen(draft, "we");
    if (!file) {
        log_say("Could not open the pid file %s for writing: %s", draft, strerror(errno));
    } else {
        bool written = fprintf(file, "%ld\n", (long)getpid()) > 0;

        if (fclose(file) != 0 || !written || rename(draft, path) != 0) {
            log_say("Could not write the pid file %s: %s", path, strerror(errno));
        }
    }
    free(draft);
}

void sandbox_remove_pid(const char *path)
{
    if (unlink(path) != 0) {
        log_say("Could not remove the pid file %s: %s", path, strerror(errno));
    }
}
