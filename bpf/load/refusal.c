/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/load/refusal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BPF_NO_COMMAND = 0xffff, NAMES_MAX = 64 };
enum { LOG_BYTES = 16 << 20, LOG_BYTES_KEPT = 256 << 20 /* of which the kernel touches few */ };

/* What /proc/self/status says. */
struct status {
    unsigned long long effective, bounding; /* capabilities */
    unsigned int seccomp;                   /* 2: a filter */
};

static void read_status(struct status *out)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];

    *out = (struct status){UINT64_MAX, UINT64_MAX, 0};
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "CapEff: %llx", &out->effective) != 1 &&
            sscanf(line, "CapBnd: %llx", &out->bounding) != 1)
            sscanf(line, "Seccomp: %u", &out->seccomp);
    if (file)
        fclose(file);
}

/*
 * The capabilities that a load needs and the set lacks, each behind `before` and with `prefix`.
 * Whether there are any.
 */
static bool name_missing(unsigned long long set, const char *prefix, const char *before, char *out)
{
    static const struct {
        unsigned int bit;
        const char *name;
    } needed[] = {{39, "BPF"}, {12, "NET_ADMIN"}, {38, "PERFMON"}};
    size_t i, n = 0;

    out[0] = '\0';
    for (i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (!(set >> needed[i].bit & 1))
            n += (size_t)snprintf(out + n, NAMES_MAX - n, "%s%s%s", n ? before : "", prefix,
                                  needed[i].name);
    return n > 0;
}

/* Whether capabilities are the cause. */
static bool explain_capabilities(const struct status *status, char *text, size_t ntext)
{
    char lacks[NAMES_MAX], words[NAMES_MAX], names[NAMES_MAX];

    if (name_missing(status->bounding, "CAP_", ", ", lacks)) {
        name_missing(status->bounding, "CAP_", " ", words);
        name_missing(status->bounding, "--cap-add=", " ", names);
        snprintf(
            text, ntext,
            "cannot load the kernel programs: the bounding set lacks %s, so root lacks it too: "
            "in a systemd unit add CapabilityBoundingSet=%s (AmbientCapabilities= is not "
            "enough), to a container %s",
            lacks, words, names);
        return true;
    }
    if (!name_missing(status->effective, "CAP_", ", ", lacks))
        return false;
    name_missing(status->effective, "CAP_", " ", words);
    snprintf(text, ntext,
             "cannot load the kernel programs without %s: start as root (with -u USER), or grant "
             "them (in a systemd unit: AmbientCapabilities=%s)",
             lacks, words);
    return true;
}

/* Root of a user namespace has every capability there, and none that loads programs. */
static bool in_user_namespace(void)
{
    FILE *map = fopen("/proc/self/uid_map", "re");
    unsigned int inside = 0, outside = 0, length = UINT32_MAX;

    if (map) {
        if (fscanf(map, "%u %u %u", &inside, &outside, &length) != 3)
            length = UINT32_MAX;
        fclose(map);
    }
    return length != UINT32_MAX;
}

/*
 * Whether a filter of system calls refuses bpf(2) as such: to a process with CAP_BPF the kernel
 * itself says EINVAL of a command that it does not know.
 */
static bool is_filtered(const struct status *status)
{
    return status->seccomp == 2 && syscall(SYS_bpf, BPF_NO_COMMAND, NULL, 0) < 0 &&
           (errno == EPERM || errno == EACCES || errno == ENOSYS);
}

/* In that mode the kernel withholds helpers that read its memory, which the chain calls. */
static bool is_confidential(void)
{
    FILE *file = fopen("/sys/kernel/security/lockdown", "re");
    char line[128] = "";
    bool is = file && fgets(line, sizeof(line), file) && strstr(line, "[confidentiality]");

    if (file)
        fclose(file);
    return is;
}

size_t refusal_log_bytes(void)
{
    return getenv("BPF_LOG") ? LOG_BYTES_KEPT : LOG_BYTES;
}

int refusal_keep(const char *log)
{
    const char *name = getenv("BPF_LOG");
    size_t n = strlen(log), at = 0;
    ssize_t written = 0;
    int fd, rc = 0;

    if (!name || !n)
        return 0;
    fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    while (at < n && (written = write(fd, log + at, n - at)) > 0)
        at += (size_t)written;
    if (at < n)
        rc = -errno;
    close(fd);
    return rc;
}

const char *refusal_last_line(char *log)
{
    char *end = strstr(log, "processed "), *line;

    if (end)
        *end = '\0';
    while ((line = strrchr(log, '\n')) && !line[1])
        *line = '\0';
    return line ? line + 1 : log;
}

/* word: the verifier's, or empty. */
static void explain(int rc, const char *word, char *text, size_t ntext)
{
    const char *gap = word[0] ? "; " : "";
    bool forbidden = rc == -EPERM || rc == -EACCES;
    struct status status;

    read_status(&status);
    if (explain_capabilities(&status, text, ntext))
        return;
    if (forbidden && in_user_namespace())
        snprintf(text, ntext,
                 "cannot load the kernel programs in a user namespace, whose capabilities do not "
                 "suffice: start it outside, or in a privileged container");
    else if (is_filtered(&status))
        snprintf(text, ntext,
                 "a seccomp filter forbids bpf(2) (%s): start the container with --security-opt "
                 "seccomp=FILE (packaging/container/seccomp.json), in a systemd unit add "
                 "SystemCallFilter=bpf",
                 strerror(errno));
    else if (rc == -EXDEV)
        snprintf(text, ntext,
                 "cannot determine the offset of the kernel's clock in a time namespace that was "
                 "unshared without a fork: start it as a child (unshare --fork)");
    else if (rc == -EMFILE || rc == -ENFILE)
        snprintf(text, ntext,
                 "no descriptors for the kernel's maps and programs (%s): raise the limit "
                 "(LimitNOFILE= in a systemd unit, ulimit -n)",
                 strerror(-rc));
    else if (rc == -ENOMEM)
        snprintf(text, ntext, "no memory for the kernel's maps: the memory cgroup's limit");
    else if (is_confidential())
        snprintf(text, ntext,
                 "the kernel is locked down in mode confidentiality, which forbids what the "
                 "programs read (%s): start it with lockdown=integrity%s%s",
                 strerror(-rc), gap, word);
    else if (forbidden && !word[0]) /* else it was the verifier */
        snprintf(text, ntext,
                 "the kernel forbids loading BPF programs (%s): a security module such as SELinux "
                 "does; see the kernel's log (`dmesg | tail`)",
                 strerror(-rc));
    else
        snprintf(text, ntext,
                 "this kernel refuses the programs (%s): Linux 6.1 with CONFIG_BPF_SYSCALL is "
                 "needed%s%s",
                 strerror(-rc), gap, word);
}

void refusal_explain(int rc, char *log, char *text, size_t ntext)
{
    int kept = refusal_keep(log);
    size_t n;

    explain(rc, refusal_last_line(log), text, ntext);
    n = strlen(text);
    if (kept)
        snprintf(text + n, ntext - n, "; BPF_LOG=%s: %s", getenv("BPF_LOG"), strerror(-kept));
}
