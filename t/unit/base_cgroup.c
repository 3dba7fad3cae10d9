/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory the cgroups of versions 1 and 2 leave, read from files of the kernel's format. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "bpf/shared/layout.h"
#include "t/lib/tap.h"

#define MB (UINT64_C(1) << 20)

static char top[] = "/tmp/memcached-t-room-XXXXXX";

/* Makes the folders of a path below `top` and writes the file. */
__attribute__((format(printf, 2, 3))) static void put(const char *name, const char *format, ...)
{
    char path[512];
    va_list args;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", top, name);
    for (char *slash = strchr(path + strlen(top) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    file = fopen(path, "w");
    if (!file)
        return;
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fclose(file);
}

static struct cgroup *open_room(void)
{
    char proc[512];

    snprintf(proc, sizeof(proc), "%s/proc", top);
    return cgroup_new(proc);
}

/* One cgroup of version 2, in MB. */
static void put_second(const char *folder, const char *max, const char *high, uint64_t used,
                       uint64_t cache)
{
    char name[256];

    snprintf(name, sizeof(name), "%s/memory.max", folder);
    put(name, "%s\n", max);
    snprintf(name, sizeof(name), "%s/memory.high", folder);
    put(name, "%s\n", high);
    snprintf(name, sizeof(name), "%s/memory.current", folder);
    put(name, "%llu\n", (unsigned long long)(used * MB));
    snprintf(name, sizeof(name), "%s/memory.stat", folder);
    put(name, "anon 1\nfile %llu\ninactive_file %llu\nactive_file %llu\nunevictable 7\n",
        (unsigned long long)(cache * MB), (unsigned long long)(cache * MB / 2),
        (unsigned long long)(cache * MB / 2));
}

static void test_version_2(void)
{
    struct cgroup *cgroup;

    put("proc/cgroup", "0::/a/b\n");
    put("proc/mountinfo",
        "23 1 0:2 / /proc rw - proc proc rw\n31 23 0:28 / %s/sys rw,nosuid - "
        "cgroup2 cgroup2 rw,nsdelegate\n",
        top);
    put_second("sys/a", "max", "max", 50, 0);
    put_second("sys/a/b", "134217728", "max", 50, 0);
    cgroup = open_room();
    ok(cgroup && cgroup_is_limited(cgroup), "the limit of a version 2 cgroup is found");
    ok(cgroup_has_room(cgroup, 70 * MB) && !cgroup_has_room(cgroup, 71 * MB),
       "8 of 128 MB are kept in reserve");
    ok(cgroup_has_room_for_extent(cgroup, 1, 70 * MB - MC_EXTENT_BYTES, 0) &&
           !cgroup_has_room_for_extent(cgroup, 1, 71 * MB - MC_EXTENT_BYTES, 0),
       "memory that is mapped but not yet used counts as used");
    ok(!cgroup_has_room_for_extent(cgroup, 1, 70 * MB - MC_EXTENT_BYTES, CGROUP_EXTENT),
       "after a refusal the next extent needs a little more room");
    put_second("sys/a/b", "134217728", "max", 128, 100);
    ok(cgroup_has_room(cgroup, 70 * MB), "page cache counts as free memory");
    put_second("sys/a/b", "134217728", "67108864", 50, 0);
    ok(!cgroup_has_room(cgroup, 16 * MB), "memory.high is a limit");
    put_second("sys/a/b", "max", "max", 50, 0);
    ok(!cgroup_is_limited(cgroup) && cgroup_has_room(cgroup, 1000 * MB),
       "a limit that changes at run time is seen");
    put_second("sys/a", "134217728", "max", 50, 0);
    ok(!cgroup_has_room(cgroup, 71 * MB) && cgroup_has_room(cgroup, 70 * MB),
       "the limit of a parent cgroup applies");
    ok(cgroup_has_room_for_extent(cgroup, 0, 1000 * MB, 0), "the first extent is never refused");
    put_second("sys/a", "2147483648", "max", 1000, 0);
    ok(cgroup_has_room(cgroup, (1048 - 64) * MB) && !cgroup_has_room(cgroup, (1048 - 63) * MB),
       "of large limits 64 MB are kept in reserve");
    cgroup_free(cgroup);
}

static void test_namespace(void)
{
    struct cgroup *cgroup;

    put("proc/cgroup", "0::/\n");
    put_second("sys", "134217728", "max", 100, 0);
    cgroup = open_room();
    ok(cgroup && !cgroup_has_room(cgroup, 21 * MB) && cgroup_has_room(cgroup, 20 * MB),
       "the limit of the root of a cgroup namespace applies");
    cgroup_free(cgroup);
    put("proc/cgroup", "0::/../other\n");
    cgroup = open_room();
    ok(cgroup && !cgroup_has_room(cgroup, 21 * MB),
       "for a cgroup outside of the namespace the mount's own limit applies");
    cgroup_free(cgroup);
}

static void test_version_1(void)
{
    struct cgroup *cgroup;

    put("proc/cgroup", "5:cpu,cpuacct:/x\n4:memory,hugetlb:/docker/id\n0::/a/b\n");
    put("proc/mountinfo",
        "34 31 0:31 / %s/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 /docker %s/memory rw - cgroup cgroup rw,hugetlb,memory\n",
        top, top);
    put("memory/id/memory.limit_in_bytes", "134217728\n");
    put("memory/id/memory.usage_in_bytes", "%llu\n", (unsigned long long)(100 * MB));
    put("memory/id/memory.stat",
        "inactive_file 99000000\nactive_file 99000000\ntotal_inactive_file %llu\n"
        "total_active_file 0\n",
        (unsigned long long)(10 * MB));
    cgroup = open_room();
    ok(cgroup && cgroup_is_limited(cgroup),
       "the limit of a version 1 cgroup below a mount point is found");
    ok(cgroup && cgroup_has_room(cgroup, 30 * MB) && !cgroup_has_room(cgroup, 31 * MB),
       "its numbers");
    put("memory/id/memory.limit_in_bytes", "9223372036854771712\n");
    ok(cgroup && !cgroup_is_limited(cgroup) && cgroup_has_room(cgroup, 1000 * MB),
       "version 1's number for no limit means no limit");
    cgroup_free(cgroup);
}

static void test_none(void)
{
    put("proc/cgroup", "0::/nowhere\n");
    put("proc/mountinfo", "23 1 0:2 / /proc rw - proc proc rw\nshort\n\n - \n");
    ok(!open_room(), "without a mounted hierarchy there is no cgroup");
    put("proc/cgroup", "garbage\n1:memory\n\n");
    ok(!open_room(), "a malformed /proc/self/cgroup gives no cgroup");
    ok(cgroup_has_room(NULL, UINT64_MAX / 4) && !cgroup_is_limited(NULL),
       "without a cgroup there is always room");
}

static void test_logged_shortage(void)
{
    unsigned int refused = 0;

    ok(cgroup_shortage_begins(&refused, CGROUP_EXTENT), "the first refusal is logged");
    ok(!cgroup_shortage_begins(&refused, CGROUP_TABLE) &&
           !cgroup_shortage_begins(&refused, CGROUP_EXTENT),
       "further refusals are not logged");
    ok(!cgroup_shortage_ends(&refused, CGROUP_TABLE),
       "room for a table does not end a shortage of extents");
    ok(cgroup_shortage_ends(&refused, CGROUP_EXTENT), "room for an extent ends the shortage");
    ok(!cgroup_shortage_ends(&refused, CGROUP_EXTENT), "the end of a shortage is logged once");
    cgroup_shortage_begins(&refused, CGROUP_TABLE);
    ok(cgroup_shortage_ends(&refused, CGROUP_EXTENT),
       "room for an extent also ends a shortage of table memory");
}

int main(void)
{
    char command[512];

    if (!mkdtemp(top))
        return 1;
    test_version_2();
    test_namespace();
    test_version_1();
    test_none();
    test_logged_shortage();
    snprintf(command, sizeof(command), "rm -r %s", top);
    ok(system(command) == 0, "cleaned up");
    return done();
}
