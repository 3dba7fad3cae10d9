/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

struct credentials_user credentials_find_user(const char *name)
{
    const struct passwd *entry;

    if (getuid() != 0 && geteuid() != 0)
        return (struct credentials_user){0};
    if (!name || !*name)
        fatal(EXIT_USAGE_ERROR, "can't run as root without the -u switch");
    entry = getpwnam(name);
    if (!entry)
        fatal(EXIT_NO_USER, "can't find the user %s to switch to", name);
    return (struct credentials_user){true, entry->pw_uid, entry->pw_gid, name};
}

gid_t credentials_group(const struct credentials_user *user)
{
    return user->given ? user->gid : getegid();
}

void credentials_become(const struct credentials_user *user)
{
    if (!user->given)
        return;
    if (setgroups(1, &user->gid) != 0)
        fatal(EXIT_OS_ERROR, "failed to drop supplementary groups: %s", strerror(errno));
    if (setgid(user->gid) != 0 || setuid(user->uid) != 0)
        fatal(EXIT_OS_ERROR, "failed to assume identity of user %s: %s", user->name,
              strerror(errno));
}

/*
 * The C library's functions would change all threads. Root's supplementary groups are not restored:
 * credentials_become drops them as well.
 */
void credentials_override(const struct credentials_user *user)
{
    if (!user->given)
        return;
    if (syscall(SYS_setgroups, 1, &user->gid) != 0)
        fatal(EXIT_OS_ERROR, "failed to drop supplementary groups: %s", strerror(errno));
    if (syscall(SYS_setresgid, -1, user->gid, -1) != 0 ||
        syscall(SYS_setresuid, -1, user->uid, -1) != 0)
        fatal(EXIT_OS_ERROR, "failed to assume identity of user %s: %s", user->name,
              strerror(errno));
}

void credentials_revert(const struct credentials_user *user)
{
    if (user->given &&
        (syscall(SYS_setresuid, -1, 0, -1) != 0 || syscall(SYS_setresgid, -1, getgid(), -1) != 0))
        fatal(EXIT_OS_ERROR, "failed to become root again: %s", strerror(errno));
}

bool credentials_trusts(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && (status.st_uid == geteuid() || status.st_uid == 0);
}

FILE *credentials_create(const char *path, mode_t mode)
{
    FILE *file;
    int fd;

    if (unlink(path) != 0 && errno != ENOENT)
        return NULL;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    file = fd < 0 ? NULL : fdopen(fd, "w");
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

static uint32_t capability_bit(unsigned int capability)
{
    return UINT32_C(1) << (capability % 32);
}

static void read_capabilities(struct __user_cap_data_struct sets[2])
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};

    if (syscall(SYS_capget, &header, sets) != 0)
        fatal(EXIT_OS_ERROR, "cannot read the capabilities: %s", strerror(errno));
}

/* Reduces the permitted and effective sets to their intersection with `kept`. */
static void drop_capabilities(uint64_t kept)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {0};

    read_capabilities(sets);
    for (unsigned int word = 0; word < 2; word++) {
        uint32_t both = sets[word].permitted & (uint32_t)(kept >> (32 * word));

        sets[word] = (struct __user_cap_data_struct){.permitted = both, .effective = both};
    }
    if (syscall(SYS_capset, &header, sets) != 0)
        fatal(EXIT_OS_ERROR, "cannot drop capabilities: %s", strerror(errno));
}

static void empty_bounding_set(void)
{
    struct __user_cap_data_struct sets[2] = {0};

    read_capabilities(sets);
    if (!(sets[0].effective & capability_bit(CAP_SETPCAP)))
        return; /* started with file capabilities alone: no_new_privs bounds them */
    for (int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
        if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) != 0)
            fatal(EXIT_OS_ERROR, "cannot empty the bounding set: %s", strerror(errno));
}

void credentials_become_keeping(const struct credentials_user *user, uint64_t kept)
{
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    empty_bounding_set();
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0)
        fatal(EXIT_OS_ERROR, "cannot keep capabilities: %s", strerror(errno));
    credentials_become(user);
    drop_capabilities(kept);
    prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        fatal(EXIT_OS_ERROR, "cannot set no_new_privs: %s", strerror(errno));
}
