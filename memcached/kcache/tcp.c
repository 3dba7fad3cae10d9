/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/tcp.h"

#include <string.h>

#include "base/log.h"
#include "bpf/loader/loader.h"

/* The server serves the connection in any case: a failure is logged once. */
static void report_refusal(struct tcp *tcp, int error)
{
    if (!__atomic_exchange_n(&tcp->refused, true, __ATOMIC_RELAXED))
        log_write(
            "bmc: the kernel cannot follow a TCP connection (%s): the server answers on it, and "
            "on others like it",
            strerror(error));
}

static struct mc_tcp_slot *open_slot(struct boundaries *boundaries, int socket)
{
    struct tcp *tcp = (struct tcp *)boundaries;
    struct mc_tcp_tag tag;
    bool follows = __atomic_load_n(&tcp->follows, __ATOMIC_RELAXED);
    struct mc_tcp_slot *slot = follows ? slots_get(&tcp->slots, &tag) : NULL;
    int rc = slot ? loader_tcp_tag(tcp->loader, socket, &tag) : 0;

    if (!rc)
        return slot;
    slots_put(&tcp->slots, slot);
    report_refusal(tcp, -rc);
    return NULL;
}

static void close_slot(struct boundaries *boundaries, struct mc_tcp_slot *slot)
{
    slots_put(&((struct tcp *)boundaries)->slots, slot);
}

int tcp_init(struct tcp *tcp, struct loader *loader, uint32_t n)
{
    *tcp = (struct tcp){.boundaries = {open_slot, close_slot}, .loader = loader};
    return slots_init(&tcp->slots, loader_tcp_slots(loader), n);
}

void tcp_follow(struct tcp *tcp)
{
    __atomic_store_n(&tcp->follows, true, __ATOMIC_RELAXED);
}

bool tcp_unfollow(struct tcp *tcp)
{
    return __atomic_exchange_n(&tcp->follows, false, __ATOMIC_RELAXED);
}

void tcp_fini(struct tcp *tcp)
{
    slots_fini(&tcp->slots);
}
