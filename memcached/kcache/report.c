/* SPDX-License-Identifier: BSD-3-Clause */
/* report: the statistics of the kernel path, as rows of text. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "kcache/kcache.h"

struct report {
    kcache_row *row;
    void *context;
};

static const char *const count_names[MC_COUNTS] = {MC_COUNTERS(COUNTER_KEY)};
static const char *const tcp_names[MC_TCP_COUNTS] = {MC_TCP_COUNTERS(COUNTER_KEY)};
static const char *const undo_names[UNDO_REASONS] = {UNDO_COUNTERS(COUNTER_KEY)};
static const char *const chain_names[CHAIN_COUNTS] = {CHAIN_COUNTERS(COUNTER_KEY)};

static __attribute__((format(printf, 3, 4))) void add(const struct report *out, const char *name,
                                                      const char *format, ...)
{
    char value[IFACE_BEFORE];
    va_list args;

    va_start(args, format);
    vsnprintf(value, sizeof(value), format, args);
    va_end(args);
    out->row(out->context, name, value);
}

static void add_interface(const struct report *out, const struct iface *interface)
{
    static const char *const states[] = {
        [IFACE_UP] = "up",
        [IFACE_DOWN] = "down",
        [IFACE_GONE] = "gone",
        [IFACE_DETACHED] = "detached",
        [IFACE_GIVEN_UP] = "given_up",
    };
    char key[64];

    snprintf(key, sizeof(key), "%s:xdp", interface->name);
    add(out, key, "%s",
        interface->xdp_native    ? "native"
        : interface->xdp_generic ? "generic"
                                 : "none");
    snprintf(key, sizeof(key), "%s:tc", interface->name);
    add(out, key, "%s", interface->tc ? "yes" : interface->tc_deferred ? "waits" : "no");
    snprintf(key, sizeof(key), "%s:before", interface->name);
    add(out, key, "%s", interface->before);
    snprintf(key, sizeof(key), "%s:servers", interface->name);
    add(out, key, "%u", interface->nservers);
    snprintf(key, sizeof(key), "%s:state", interface->name);
    add(out, key, "%s", states[interface->state]);
}

/* The interfaces, the local addresses and the counts of their events. */
static void add_view(const struct report *out, const struct iface_view *view,
                     const struct iface_events *events)
{
    unsigned int i;

    add(out, "interfaces", "%u", view->ninterfaces);
    for (i = 0; i < view->ninterfaces; i++)
        add_interface(out, &view->interfaces[i]);
    add(out, "interface_events", "%" PRIu64, events->interface_events);
    add(out, "detached", "%" PRIu64, events->detached);
    add(out, "reattached", "%" PRIu64, events->reattached);
    add(out, "tx_failures", "%" PRIu64, events->tx_failures);
    add(out, "addresses_ipv4", "%u", view->n4);
    add(out, "addresses_ipv6", "%u", view->n6);
    add(out, "macs", "%u", view->nmacs);
    add(out, "vlans", "%u", view->nvlans);
    add(out, "left_out", "%zu", view->left_out);
    add(out, "resyncs", "%" PRIu64, events->dumps);
}

/* Which sources are answered. */
static void add_guard(const struct report *out, const struct kcache_stats *stats)
{
    add(out, "allow", "%s", stats->allow);
    add(out, "allow_prefixes", "%zu", stats->nallowed);
    add(out, "rate", "%u", stats->limits.rate);
    add(out, "burst", "%u", stats->limits.burst);
    add(out, "amplification", "%u", stats->limits.amplification);
}

/* The maps of the store's memory. */
static void add_memory(const struct report *out, const struct kcache_stats *stats)
{
    add(out, "extents", "%" PRIu64, stats->extents);
    add(out, "table_extents", "%" PRIu64, stats->tables);
    add(out, "maps_refused", "%" PRIu64, stats->refused_maps);
}

/* The settings of the chain. */
static void add_chain(const struct report *out, const struct kcache_stats *stats)
{
    add(out, "entries", "%u", stats->chain.entries);
    add(out, "medium_blocks", "%u", stats->chain.nmedium);
    add(out, "large_blocks", "%u", stats->chain.nlarge);
    add(out, "key_max", "%u", stats->chain.key_max);
    add(out, "value_max", "%u", stats->chain.value_max);
    add(out, "max_age_ms", "%u", stats->chain_options.max_age_ms);
    add(out, "settle_ms", "%u", stats->chain_options.settle_ms);
    add(out, "connections_max", "%u", stats->chain.nconnections);
    add(out, "chain_bytes", "%" PRIu64, stats->chain_bytes);
}

static void add_counts(const struct report *out, const char *const *names, const __u64 *counts,
                       size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        add(out, names[i], "%" PRIu64, (uint64_t)counts[i]);
}

/* Reports the counters of the rings only with xsk=on. */
static void add_udp(const struct report *out, const struct kcache_stats *stats)
{
    const __u64 *counts = stats->counts.count;
    const size_t rings = MC_COUNT_RING, behind = MC_COUNT_RING_FULL + 1;

    add_counts(out, count_names, counts, rings);
    if (stats->nrings) {
        add(out, "xsk_rings", "%zu", stats->nrings);
        add_counts(out, count_names + rings, counts + rings, behind - rings);
        add(out, "xsk_sent", "%" PRIu64, stats->rings_sent);
    }
    add_counts(out, count_names + behind, counts + behind, MC_COUNTS - behind);
}

static void add_tcp(const struct report *out, const struct kcache_stats *stats)
{
    const struct mc_tcp_counts *counts = &stats->tcp_counts;

    add(out, "tcp_guard", "%d", stats->tcp_is_guarded);
    add(out, "tcp_bypass", "%d", stats->view.tcp_open);
    add(out, "tcp_answered", "%" PRIu64,
        (uint64_t)(counts->count[MC_TCP_ANSWERED_XDP] + counts->count[MC_TCP_ANSWERED_TC]));
    add_counts(out, tcp_names, counts->count, MC_TCP_COUNTS);
    add_counts(out, undo_names, stats->tcp_server.undone, UNDO_REASONS);
    add(out, "tcp_reset", "%" PRIu64, stats->tcp_server.reset);
    add(out, "tcp_given_up", "%" PRIu64, stats->tcp_server.released);
    add(out, "tcp_refreshed", "%" PRIu64, stats->tcp_server.refreshed);
}

void kcache_report(struct kcache *kcache, kcache_row *row, void *context)
{
    const struct report out = {row, context};
    struct kcache_stats stats;
    bool chain;

    kcache_stats(kcache, &stats);
    chain = stats.chain.entries != 0;
    add(&out, "mode", "%s", chain ? "chain" : "in_place");
    add_view(&out, &stats.view, &stats.events);
    if (!chain)
        row(context, "ports_left_out", stats.others[0] ? stats.others : "none");
    add(&out, "bypass", "%u", __atomic_load_n(&kcache_control(kcache)->bypass, __ATOMIC_RELAXED));
    add(&out, "stalls", "%" PRIu64, stats.stalls);
    if (chain)
        add_chain(&out, &stats);
    else
        add_memory(&out, &stats);
    add_guard(&out, &stats);
    add_udp(&out, &stats);
    if (stats.tcp)
        add_tcp(&out, &stats);
    if (chain)
        add_counts(&out, chain_names, stats.chain_counts.count, CHAIN_COUNTS);
}

/* --- in a line ------------------------------------------------------------------ */

static const char *mode_of(const struct iface *interface)
{
    switch (interface->state) {
    case IFACE_UP:
        return interface->xdp_native ? "native XDP" : interface->xdp_generic ? "generic XDP" : "TC";
    case IFACE_DOWN:
        return "down";
    case IFACE_GONE:
        return "gone";
    case IFACE_DETACHED:
        return "detached";
    case IFACE_GIVEN_UP:
        return "given up";
    }
    return "";
}

void kcache_describe(const struct iface_view *view, char *text, size_t size)
{
    size_t len = 0;
    unsigned int i;

    text[0] = '\0';
    for (i = 0; i < view->ninterfaces && len < size; i++)
        len += (size_t)snprintf(text + len, size - len, "%s%s (%s)", i ? ", " : "",
                                view->interfaces[i].name, mode_of(&view->interfaces[i]));
}
