/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/attach/order.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bpf/attach/filters.h"
#include "bpf/attach/share.h"
#include "bpf/load/object.h"

enum {
    BEFORE = 1 << 3,  /* BPF_F_BEFORE, */
    AFTER = 1 << 4,   /* BPF_F_AFTER */
    BY_ID = 1 << 5,   /* and BPF_F_ID of Linux 6.6 */
    MOST = 64,        /* programs on a hook of TCX */
    REVISIONS = 4096, /* that are tried */
};

/* What union bpf_attr has of TCX since Linux 6.6. */
struct tcx_query {
    uint32_t ifindex, type, flags, attach_flags;
    uint64_t ids;
    uint32_t n, padding;
    uint64_t program_flags, links, link_flags, revision;
};
struct tcx_create {
    uint32_t program, ifindex, type, flags, relative, padding;
    uint64_t revision;
};

struct tcx {
    uint32_t ids[MOST], n;
    uint64_t revision; /* changes with every program that comes or goes; 0: no TCX */
};

static int call(enum bpf_cmd command, void *attributes, size_t n)
{
    int rc = (int)syscall(SYS_bpf, command, attributes, n);

    return rc < 0 ? -errno : rc;
}

/* Reads the programs of a hook in their order. Needs CAP_NET_ADMIN. 0 or -errno. */
static int query(int ifindex, enum loader_hook at, struct tcx *out)
{
    struct tcx_query query = {.ifindex = (uint32_t)ifindex,
                              .type = (uint32_t)ORDER_TCX(at),
                              .ids = (uint64_t)(uintptr_t)out->ids,
                              .n = MOST};
    int rc = call(BPF_PROG_QUERY, &query, sizeof(query));

    out->n = rc ? 0 : query.n;
    out->revision = rc ? 0 : query.revision;
    return rc;
}

static int create(int program, int ifindex, enum loader_hook at, uint32_t flags, uint32_t relative,
                  uint64_t revision)
{
    struct tcx_create create = {.program = (uint32_t)program,
                                .ifindex = (uint32_t)ifindex,
                                .type = (uint32_t)ORDER_TCX(at),
                                .flags = flags,
                                .relative = relative,
                                .revision = revision};

    return call(BPF_LINK_CREATE, &create, sizeof(create));
}

/*
 * Whether a hook, on which the program is, has this revision. That needs no privilege: where the
 * revision is another one, the kernel refuses with ESTALE what it refuses in any case.
 */
static bool has_revision(int program, int ifindex, enum loader_hook at, uint64_t revision)
{
    return create(program, ifindex, at, BEFORE | AFTER, 0, revision) != -ESTALE;
}

/* Reads the name of a program, "" without CAP_SYS_ADMIN. */
static void read_name(uint32_t id, char name[LOADER_NAME])
{
    struct bpf_prog_info info = {0};
    uint32_t ninfo = sizeof(info);
    int fd = bpf_prog_get_fd_by_id(id);

    name[0] = '\0';
    if (fd < 0)
        return;
    if (!bpf_obj_get_info_by_fd(fd, &info, &ninfo))
        snprintf(name, LOADER_NAME, "%s", info.name);
    close(fd);
}

/*
 * Whether a program is one of a server's or of bmc's, which ends the chain for no others' packet.
 * Where its name cannot be read its server has shown its id.
 */
static bool is_of_a_server(const struct loader *loader, uint32_t id, const char *name)
{
    return strncmp(name, "mc_", 3) == 0 || (!name[0] && share_knows(loader, id));
}

int order_attach(const struct loader *loader, int program, int ifindex, enum loader_hook at)
{
    char name[LOADER_NAME];
    uint32_t behind = 0, i;
    struct tcx tcx;
    int fd = -ENOENT;

    query(ifindex, at, &tcx);
    for (i = 0; i < tcx.n; i++) {
        read_name(tcx.ids[i], name);
        if (!is_of_a_server(loader, tcx.ids[i], name))
            break;
        behind = tcx.ids[i];
    }
    if (behind)
        fd = create(program, ifindex, at, AFTER | BY_ID, behind, 0);
    return fd == -ENOENT ? create(program, ifindex, at, BEFORE, 0, 0) : fd; /* it has gone */
}

/* --- what stands before ----------------------------------------------------------------- */

static void add(const struct loader *loader, struct loader_before *before, const char *name,
                uint32_t program)
{
    if (is_of_a_server(loader, program, name))
        return;
    if (!before->n++) {
        snprintf(before->name, sizeof(before->name), "%s", name);
        before->program = program;
    }
}

static void look_at_tcx(const struct loader *loader, const struct tcx *tcx, uint32_t own,
                        struct loader_before *out)
{
    char name[LOADER_NAME];
    uint32_t i;

    for (i = 0; i < tcx->n && tcx->ids[i] != own; i++) {
        read_name(tcx->ids[i], name);
        add(loader, out, name, tcx->ids[i]);
    }
}

static void look_at_filters(const struct loader *loader, int ifindex, enum loader_hook at,
                            const struct loader_tc *tc, struct loader_before *out)
{
    struct filter_row rows[FILTERS_MOST];
    size_t n = filters_read(ifindex, at == LOADER_EGRESS, rows), i;

    for (i = 0; i < n && rows[i].program != tc->id; i++)
        add(loader, out, rows[i].name, rows[i].program);
}

/* The revision of a hook, from an older one on: a hook that was empty begins anew. */
static uint64_t find_revision(int program, int ifindex, enum loader_hook at, uint64_t from)
{
    uint64_t i;

    for (i = 1; i < REVISIONS; i++)
        if (has_revision(program, ifindex, at, from + i))
            return from + i;
    for (i = 1; i < REVISIONS && i < from; i++)
        if (has_revision(program, ifindex, at, i))
            return i;
    return 0;
}

/* Without the privilege to look. */
static void order_guess(int program, int ifindex, enum loader_hook at, uint32_t seen,
                        struct loader_tc *tc)
{
    const bool known = tc->revision != 0;

    if (known && has_revision(program, ifindex, at, tc->revision)) {
        if (tc->seen != seen)
            tc->before.unseen = false;
        return;
    }
    tc->revision = find_revision(program, ifindex, at, tc->revision);
    tc->before.unseen |= known; /* else it was attached as the first one just now */
    tc->seen = seen;
}

void order_look(const struct loader *loader, int program, int ifindex, enum loader_hook at,
                uint32_t seen, struct loader_tc *tc)
{
    struct loader_before before = {0};
    struct tcx tcx;
    int rc = query(ifindex, at, &tcx);

    if (rc == -EPERM && tc->link >= 0)
        order_guess(program, ifindex, at, seen, tc);
    if (rc == -EPERM && (tc->link >= 0 || tc->revision)) /* or a filter behind TCX */
        return;
    tc->revision = tcx.revision;
    look_at_tcx(loader, &tcx, object_program_id(program), &before);
    if (tc->filter)
        look_at_filters(loader, ifindex, at, tc, &before);
    tc->before = before;
}
