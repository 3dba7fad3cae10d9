/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/order.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

enum {
    PASSED_MOST = 16
}; /* requests without a return path before the log says that none is learned */

static const char *const hooks[LOADER_HOOKS] = {
    [LOADER_INGRESS] = "ingress", [LOADER_EGRESS] = "egress"};

/* A filter's name may have any byte. */
static void make_plain(char *name)
{
    for (; *name; name++)
        if (*name <= ' ' || *name > '~' || *name == ',')
            *name = '_';
}

/* Adds "egress:NAME(ID)" to a list, or what is known of it. */
static size_t add_hook(char *out, size_t size, const char *hook, const struct loader_before *before)
{
    char name[LOADER_NAME] = "program", id[16] = "", more[16] = "";

    if (before->unseen)
        return (size_t)snprintf(out, size, "%s:changed", hook);
    if (before->name[0])
        snprintf(name, sizeof(name), "%s", before->name);
    make_plain(name);
    if (before->program)
        snprintf(id, sizeof(id), "(%u)", before->program);
    if (before->n > 1)
        snprintf(more, sizeof(more), "+%u", before->n - 1);
    return (size_t)snprintf(out, size, "%s:%s%s%s", hook, name, id, more);
}

/*
 * Writes what is before the programs: "none", or a list. On ingress what could not be seen counts
 * only where TC answers all requests.
 */
static void describe(const struct attachment *at, char out[IFACE_BEFORE])
{
    size_t n = 0;

    for (int hook = LOADER_HOOKS - 1; hook >= 0; hook--) {
        const struct loader_before *before = &at->link.tc[hook].before;

        if (!before->n && !(before->unseen && (hook == LOADER_EGRESS || at->tc_alone)))
            continue;
        if (n)
            out[n++] = ',';
        n += add_hook(out + n, IFACE_BEFORE - n, hooks[hook], before);
    }
    if (!n)
        snprintf(out, IFACE_BEFORE, "none");
}

/* Whether what is before the programs is known, and anything at all. */
static bool is_seen(const struct attachment *at)
{
    bool seen = false;

    for (int hook = 0; hook < LOADER_HOOKS; hook++)
        seen |= at->link.tc[hook].before.n && !at->link.tc[hook].before.unseen;
    return seen;
}

void order_say(struct attachment *at)
{
    char before[IFACE_BEFORE];

    describe(at, before);
    if (strcmp(before, at->before) == 0)
        return;
    memcpy(at->before, before, sizeof(before));
    if (is_seen(at)) {
        log_write("bmc: %s: before the server's programs on TC: %s; if it ends the chain "
                  "(TC_ACT_OK) the kernel answers nothing: let it return TC_ACT_UNSPEC, or attach "
                  "it behind",
                  at->name, before);
        at->before_said = true;
    } else if (at->before_said && strcmp(before, "none") == 0) {
        log_write("bmc: %s: nothing is before the server's programs on TC any more", at->name);
        at->before_said = false;
    }
}

/*
 * Where the server cannot look: other programs have come to egress, or gone, and ours sees no reply
 * since while requests are passed for lack of them.
 */
static void say_unseen(struct loader *loader, struct attachment *at, bool was_unseen)
{
    struct mc_counts counts;

    if (!at->link.tc[LOADER_EGRESS].before.unseen || at->before_said)
        return;
    loader_counts(loader, &counts);
    if (!was_unseen)
        at->passed = counts.count[MC_COUNT_PASS_WAY];
    if (counts.count[MC_COUNT_PASS_WAY] - at->passed < PASSED_MOST)
        return;
    log_write(
        "bmc: %s: programs on TC egress have changed, and the server's sees no replies since: "
        "one before it may end the chain (TC_ACT_OK); `bpftool net show dev %s` shows their "
        "order, which the server cannot see without CAP_NET_ADMIN",
        at->name, at->name);
    at->before_said = true;
}

void order_check(struct loader *loader, struct attachment *at)
{
    const bool was_unseen = at->link.tc[LOADER_EGRESS].before.unseen;

    loader_look_before(loader, &at->link);
    order_say(at);
    say_unseen(loader, at, was_unseen);
}
