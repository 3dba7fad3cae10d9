/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timedrun SECONDS PROGRAM [ARGUMENT]...: runs a program for SECONDS at most.
 *
 * SIGTERM, SIGHUP, SIGINT and SIGUSR1 go on to the program. Its exit status is this one's; 128 and
 * the signal's number if a signal ended it. When the time is over it gets SIGTERM, and SIGKILL if
 * it does not end. memcached's own tests start their servers with it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { USAGE = 64, CANNOT_RUN = 127, GRACE_SECONDS = 5 };

static double now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* The signals that wait to be taken: those to pass on, and that of the child's end. */
static sigset_t taken_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR1);
    return set;
}

/* The next signal, or 0 when the time is over. */
static int next_signal(const sigset_t *set, double until)
{
    double left = until - now();
    struct timespec wait = {0};
    int number;

    if (left > 0) {
        wait.tv_sec = (time_t)left;
        wait.tv_nsec = (long)((left - (double)wait.tv_sec) * 1e9);
    }
    do {
        number = sigtimedwait(set, NULL, &wait);
    } while (number < 0 && errno == EINTR);
    return number < 0 ? 0 : number;
}

static int status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int supervise(pid_t child, const sigset_t *set, double seconds)
{
    int last_resort = SIGTERM;
    double until = now() + seconds;
    int status;

    for (;;) {
        int number = next_signal(set, until);

        if (number == SIGCHLD) {
            if (waitpid(child, &status, WNOHANG) == child)
                return status_of(status);
        } else if (number) {
            kill(child, number);
        } else {
            kill(child, last_resort);
            last_resort = SIGKILL;
            until = now() + GRACE_SECONDS;
        }
    }
}

int main(int argc, char **argv)
{
    sigset_t set = taken_signals();
    pid_t parent = getpid();
    double seconds;
    char *end;
    pid_t child;

    seconds = argc > 2 ? strtod(argv[1], &end) : 0;
    if (!(seconds > 0) || *end) {
        fprintf(stderr, "usage: timedrun SECONDS PROGRAM [ARGUMENT]...\n");
        return USAGE;
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    child = fork();
    if (child < 0) {
        perror("timedrun: fork");
        return CANNOT_RUN;
    }
    if (child == 0) {
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it does not outlive the one that watches it */
        if (getppid() == parent) {
            execvp(argv[2], argv + 2);
            perror(argv[2]);
        }
        _exit(CANNOT_RUN);
    }
    return supervise(child, &set, seconds);
}
