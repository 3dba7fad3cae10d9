/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/credentials.h"
#include "base/log.h"

/* --- standard streams -------------------------------------------------- */

void process_open_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            fatal(EXIT_OS_ERROR, "cannot open /dev/null for a standard stream that is closed");
}

/* --- limits ------------------------------------------------------------ */

void process_raise_core_limit(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

    if (setrlimit(RLIMIT_CORE, &limit) != 0) {
        /* Without the privilege to raise the hard limit, raises the soft limit up to it. */
        if (getrlimit(RLIMIT_CORE, &limit) == 0) {
            limit.rlim_cur = limit.rlim_max;
            setrlimit(RLIMIT_CORE, &limit);
        }
    }
    if (getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_cur == 0)
        fatal(EXIT_OS_ERROR, "failed to ensure corefile creation");
}

void process_raise_files_limit(uint64_t needed, uint64_t extra)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        fatal(EXIT_OS_ERROR, "failed to getrlimit number of files");
    if (limit.rlim_cur >= needed + extra)
        return;
    limit.rlim_cur = needed + extra;
    if (limit.rlim_max < limit.rlim_cur) {
        struct rlimit higher = {limit.rlim_cur, limit.rlim_cur};

        if (setrlimit(RLIMIT_NOFILE, &higher) == 0)
            return;
        limit.rlim_cur = limit.rlim_max;
    }
    if (limit.rlim_cur < needed || setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        fatal(EXIT_OS_ERROR, "failed to set rlimit for open files. Try starting as root or "
                             "requesting smaller maxconns value.");
    }
}

void process_require_large_pages(void)
{
    static const char advice[] = "Cannot enable large pages on this system";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    char modes[128] = "";

    if (!file)
        fatal(1, "Transparent huge pages support not detected.\n%s", advice);
    if (!fgets(modes, sizeof(modes), file) || strstr(modes, "[never]"))
        fatal(1, "Transparent huge pages support disabled.\n%s", advice);
    fclose(file);
}

void process_raise_lock_limit(void)
{
    const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};

    if (setrlimit(RLIMIT_MEMLOCK, &unlimited) != 0)
        log_at(1, "cannot raise the limit of locked memory: %s", strerror(errno));
}

void process_lock_memory(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        log_write("warning: -k invalid, mlockall() failed: %s", strerror(errno));
}

/* Parses "START-END PERMISSIONS OFFSET DEVICE INODE PATH" of a private mapping of a file. */
static bool is_private_file(const char *line, uintptr_t *start, uintptr_t *end, char *path)
{
    char permissions[8];
    unsigned long inode;

    return sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %*s %*s %lu %4095[^\n]", start, end,
                  permissions, &inode, path) == 5 &&
           permissions[3] == 'p' && inode != 0;
}

/* Locks all of the program, and of libraries the resident pages: the memlock limit may be low. */
void process_lock_program(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    char line[4096 + 256], path[4096], program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    uintptr_t start, end;
    int error = 0;

    program[n > 0 ? n : 0] = '\0';
    while (file && fgets(line, sizeof(line), file))
        if (is_private_file(line, &start, &end, path) &&
            mlock2((void *)start, end - start, strcmp(path, program) ? MLOCK_ONFAULT : 0) != 0)
            error = errno;
    if (file)
        fclose(file);
    if (error)
        log_at(1, "cannot lock all of the program in memory: %s", strerror(error));
}

void process_allow_core_dumps(void)
{
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/* --- daemon ------------------------------------------------------------ */

int process_daemonize(bool keep_directory)
{
    int ends[2];
    pid_t child;
    char byte;
    int status, null;

    if (pipe2(ends, O_CLOEXEC) != 0 || (child = fork()) < 0)
        fatal(1, "failed to daemon() in order to daemonize");
    if (child == 0) {
        close(ends[0]);
        setsid();
        null = open("/dev/null", O_RDWR);
        if ((!keep_directory && chdir("/") != 0) || null < 0 || dup2(null, STDIN_FILENO) < 0)
            fatal(1, "failed to daemon() in order to daemonize");
        if (null > STDERR_FILENO)
            close(null);
        return ends[1];
    }
    close(ends[1]);
    if (read(ends[0], &byte, 1) == 1)
        _exit(0);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

void process_ready(int fd, bool keep_stderr)
{
    if (!keep_stderr) {
        dup2(STDIN_FILENO, STDOUT_FILENO);
        dup2(STDIN_FILENO, STDERR_FILENO);
    }
    if (write(fd, "", 1) != 1)
        log_write("the process that started the daemon has exited");
    close(fd);
}

/* Warns if the existing pid file names a running process. */
static void warn_of_another(const char *path)
{
    FILE *file = fopen(path, "re");
    long pid = 0;

    if (!file)
        return;
    if (fscanf(file, "%ld", &pid) == 1 && pid > 0 && pid != getpid() && pid == (pid_t)pid &&
        (kill((pid_t)pid, 0) == 0 || errno == EPERM))
        log_write("WARNING: The pid file contained the following (running) pid: %ld", pid);
    fclose(file);
}

void process_write_pid(const char *path)
{
    char *draft;
    FILE *file;

    warn_of_another(path);
    if (asprintf(&draft, "%s.tmp", path) < 0)
        return;
    file = credentials_create(draft, 0666);
    if (!file) {
        log_write("Could not open the pid file %s for writing: %s", draft, strerror(errno));
    } else {
        bool written = fprintf(file, "%ld\n", (long)getpid()) > 0;

        if (fclose(file) != 0 || !written || rename(draft, path) != 0)
            log_write("Could not write the pid file %s: %s", path, strerror(errno));
    }
    free(draft);
}

void process_remove_pid(const char *path)
{
    if (unlink(path) != 0)
        log_write("Could not remove the pid file %s: %s", path, strerror(errno));
}
