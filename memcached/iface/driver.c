/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/driver.h"

#include <stdlib.h>
#include <string.h>

#include "iface/link.h"

enum {
    /* Statistics for which there is room beyond their number: that may grow while they are read. */
    MORE = 4096,
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with)
{
    size_t n = strlen(text), m = strlen(with);

    return n >= m && strcmp(text + n - m, with) == 0;
}

/* rx_queue_0_xdp_tx has frames that left; tx_queue_0_xdp_xmit those that were redirected here. */
static void add_veth(const char *name, uint64_t value, struct driver_counts *out)
{
    if (begins(name, "rx_") && ends(name, "_xdp_tx"))
        out->sent += value;
    if (begins(name, "rx_") && ends(name, "_xdp_tx_errors"))
        out->lost += value;
}

/* tx_queue_0_xdp_tx (before Linux 6.9), tx0_xdp_tx: frames that the driver tried to send. */
static void add_virtio(const char *name, uint64_t value, struct driver_counts *out)
{
    if (begins(name, "tx") && ends(name, "_xdp_tx"))
        out->sent += value;
    if (begins(name, "tx") && ends(name, "_xdp_tx_drops")) {
        out->sent -= value;
        out->lost += value;
    }
}

/* Frames that XDP_TX lost, by the names that other drivers have for it. */
static bool is_loss(const char *name)
{
    static const char *const words[] = {"err", "full", "drop"};
    const char *rest = strstr(name, "xdp_tx_");
    size_t i;

    for (i = 0; rest && i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(rest, words[i]))
            return true;
    return false;
}

void driver_sum(const char *driver, const char (*names)[ETH_GSTRING_LEN], const uint64_t *values,
                size_t n, struct driver_counts *out)
{
    const bool veth = strcmp(driver, "veth") == 0, virtio = strcmp(driver, "virtio_net") == 0;
    uint64_t whole = 0, queues = 0; /* a driver may count each frame in both */
    size_t i;

    for (i = 0; i < n; i++) {
        char name[ETH_GSTRING_LEN + 1] = "";

        memcpy(name, names[i], ETH_GSTRING_LEN);
        if (veth)
            add_veth(name, values[i], out);
        else if (virtio)
            add_virtio(name, values[i], out);
        else if (is_loss(name))
            *(strpbrk(name, "0123456789") ? &queues : &whole) += values[i];
    }
    out->lost += whole > queues ? whole : queues;
    out->counts_sent |= veth || virtio;
    out->is_veth |= veth;
}

bool driver_add_counts(const char *interface, struct driver_counts *out)
{
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO}, after = info;
    struct ethtool_gstrings *names;
    struct ethtool_stats *values;
    size_t room;
    bool known;

    if (!link_ask_ethtool(interface, &info) || !info.n_stats)
        return false;
    room = (size_t)info.n_stats + MORE;
    names = calloc(1, sizeof(*names) + room * ETH_GSTRING_LEN);
    values = calloc(1, sizeof(*values) + room * sizeof(values->data[0]));
    if (names)
        *names = (struct ethtool_gstrings){
            .cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_STATS, .len = info.n_stats};
    if (values)
        *values = (struct ethtool_stats){.cmd = ETHTOOL_GSTATS, .n_stats = info.n_stats};
    known = names && values && link_ask_ethtool(interface, names) &&
            link_ask_ethtool(interface, values) && link_ask_ethtool(interface, &after) &&
            after.n_stats == info.n_stats;
    if (known)
        driver_sum(info.driver, (const void *)names->data, (const void *)values->data, info.n_stats,
                   out);
    free(names);
    free(values);
    return known;
}
