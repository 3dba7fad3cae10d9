/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/diagnosis.h"

#include <errno.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/virtio_net.h>
#include <stdio.h>
#include <string.h>

#include "bpf/attach/attach.h"

enum { REASON_MAX = 256 };

/* Remedies, by words in drivers' messages: prints `before` NAME `after`. */
static const struct {
    const char *word; /* case-insensitive */
    const char *before, *after;
} remedies[] = {
    {"while host is implementing", "the host can switch it off, or leave it to this end, for ",
     " (qemu: `ctrl_guest_offloads=on`)"},
    {"any_header_sg", "the host has to make ",
     " a device of virtio 1.0 (qemu: `disable-modern=off`)"},
    {"mtu", "lower the MTU: `ip link set dev ", " mtu 1500`"},
    {"single page", "lower the MTU: `ip link set dev ", " mtu 1500`"},
    {"gro_hw", "`ethtool -K ", " rx-gro-hw off lro off`"},
    {"gro-hw", "`ethtool -K ", " rx-gro-hw off lro off`"},
    {"hw_gro", "`ethtool -K ", " rx-gro-hw off lro off`"},
    {"hw-gro", "`ethtool -K ", " rx-gro-hw off lro off`"},
    {"hw gro", "`ethtool -K ", " rx-gro-hw off lro off`"},
    {"lro", "`ethtool -K ", " lro off`"},
    {"csum", "`ethtool -K ", " rx off`"},
    {"data-split", "`ethtool -G ", " tcp-data-split off`"},
    {"hds", "`ethtool -G ", " tcp-data-split off`"},
    {"peer tx queues", "as many queues as on the other end: `ethtool -L ", " rx N`"},
    {"queue", "fewer channels leave queues for XDP: `ethtool -L ", " combined N`"},
    {"channel", "fewer channels leave queues for XDP: `ethtool -L ", " combined N`"},
    {"bonding mode",
     "it needs mode balance-rr, active-backup, balance-xor or 802.3ad: `ip -d link ", "`"},
    {"slave", "every port of ", " needs a driver with XDP and no program of its own"},
};

/* Appends the remedy for the reason. */
static void add_remedy(const char *name, const char *reason, char *text, size_t ntext)
{
    size_t n = strlen(text), i;

    for (i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++) {
        if (strcasestr(reason, remedies[i].word)) {
            snprintf(text + n, ntext - n, "; %s%s%s", remedies[i].before, name, remedies[i].after);
            return;
        }
    }
}

bool diagnosis_unfit(const struct link_info *link, char *text, size_t ntext)
{
    if (link->type == ARPHRD_ETHER || link->type == ARPHRD_LOOPBACK)
        return false;
    snprintf(text, ntext,
             "its packets have no Ethernet header, which the programs need; name the "
             "interface that carries it");
    return true;
}

enum { FEATURES = 64, FRAME_MTU = 1500 };

/* The negotiated features, as a text of 0 and 1; "": unknown. */
static void read_features(const char *device, char out[FEATURES + 1])
{
    char path[80];
    FILE *file;

    snprintf(path, sizeof(path), "/sys/bus/virtio/devices/%s/features", device);
    file = fopen(path, "re");
    if (!file || !fgets(out, FEATURES + 1, file))
        out[0] = '\0';
    if (file)
        fclose(file);
}

/*
 * Whether virtio_net never runs a native XDP program that it accepts. For a device that cannot
 * spread a packet over several buffers, but may deliver frames of more than 1,500 bytes, the driver
 * uses buffers of many pages, and runs none on these.
 */
static bool virtio_skips_xdp(const struct link_info *link)
{
    static const int joined[] = {VIRTIO_NET_F_GUEST_TSO4, VIRTIO_NET_F_GUEST_TSO6,
                                 VIRTIO_NET_F_GUEST_ECN, VIRTIO_NET_F_GUEST_UFO};
    char features[FEATURES + 1];
    size_t i;

    if (strcmp(link->driver, "virtio_net") != 0)
        return false;
    read_features(link->device, features);
    if (strlen(features) <= VIRTIO_NET_F_MRG_RXBUF || features[VIRTIO_NET_F_MRG_RXBUF] == '1')
        return false;
    for (i = 0; i < sizeof(joined) / sizeof(joined[0]); i++)
        if (features[joined[i]] == '1')
            return true;
    return features[VIRTIO_NET_F_MTU] == '1' && link->mtu_max > FRAME_MTU;
}

bool diagnosis_native_unfit(const struct link_info *link, char *text, size_t ntext)
{
    bool veth = strcmp(link->kind, "veth") == 0;
    char vlan[IF_NAMESIZE];

    if (virtio_skips_xdp(link)) {
        snprintf(text, ntext,
                 "its driver (virtio_net) takes native XDP and never runs it while the device has "
                 "no mergeable receive buffers; the host can enable them (qemu: `mrg_rxbuf=on`)");
        return true;
    }
    if ((!link->strips_tags && !veth) || !link_has_vlan(link->ifindex, vlan))
        return false;
    if (veth)
        snprintf(text, ntext,
                 "native XDP would not see the VLAN tags of %s, which a veth passes outside "
                 "the frame",
                 vlan);
    else
        snprintf(text, ntext,
                 "native XDP would not see the VLAN tags of %s, which the hardware strips; "
                 "`ethtool -K %s rxvlan off` keeps them",
                 vlan, link->name);
    return true;
}

/* A bond may have a program for all its ports. */
static bool explain_master(const struct link_info *link, char *text, size_t ntext)
{
    struct link_info master;
    char program[16];

    if (!link->master || link_read(link->master, &master) ||
        !loader_xdp_present(link->master, program))
        return false;
    snprintf(text, ntext, "%s, of which it is a port, has an XDP program; use bmc=%s", master.name,
             master.name);
    return true;
}

/* Whether the driver has no XDP: the network stack's message, not a driver's, or none. */
static bool is_without_xdp(int rc, const char *reason)
{
    return rc == -EOPNOTSUPP &&
           (!reason[0] || strcasestr(reason, "underlying driver does not support XDP"));
}

static void explain_words(const struct link_info *link, bool generic, int rc, const char *reason,
                          char *text, size_t ntext)
{
    bool named = !generic && link->driver[0];

    snprintf(text, ntext, "%s%s%s%s refuses %s XDP: %s", generic ? "the kernel" : "its driver",
             named ? " (" : "", named ? link->driver : "", named ? ")" : "",
             generic ? "generic" : "native", reason[0] ? reason : strerror(-rc));
    if (!reason[0] && link->lro)
        reason = "lro";
    if (reason[0])
        add_remedy(link->name, reason, text, ntext);
    else
        snprintf(text + strlen(text), ntext - strlen(text),
                 "; often the cause is the MTU, LRO or too many channels: see the kernel's log "
                 "(`dmesg | tail`)");
}

/* Whether the program is of a server that may share the interface. */
static bool is_servers(const char *program)
{
    return strcmp(program, "mc_xdp") == 0 || strcmp(program, "mc_share") == 0;
}

void diagnosis_unshared(int rc, char *text, size_t ntext)
{
    snprintf(text, ntext,
             "no other server can share its interfaces: no socket in " DIAGNOSIS_FOLDER ": %s%s",
             strerror(-rc),
             rc == -EROFS    ? " (a unit needs RuntimeDirectory=memcachedsr-share, a container a "
                               "volume there)"
             : rc == -EACCES ? " (start as root, or make it a folder of this user)"
             : rc == -EPERM  ? " (it must be a folder of root or this user, and only the owner "
                               "may write to it)"
             : rc == -ETIMEDOUT
                 ? " (a stuck process has the folder's lock: `fuser -v " DIAGNOSIS_FOLDER
                   "/lock` names it; end it)"
                 : "");
}

int diagnosis_explain(struct loader *loader, const struct link_info *link, bool generic, int rc,
                      char *text, size_t ntext)
{
    char program[16], reason[REASON_MAX];
    uint32_t id = loader_xdp_present(link->ifindex, program);

    if (rc == -EADDRINUSE) {
        snprintf(text, ntext,
                 "another memcached for which the kernel answers there has the same port; it "
                 "stays: give this one ports of its own (-p, -U), or another interface");
        return rc;
    }
    if (id) {
        snprintf(text, ntext,
                 "another XDP program is attached (id %u%s%s); it stays: stop its owner, detach it "
                 "(`ip link set dev %s xdp off`, or xdpgeneric; a link: `bpftool link detach`), or "
                 "use %sanother interface%s",
                 id, program[0] ? ", " : "", program, link->name,
                 loader_is_chain(loader) ? "" : "mode=tc or ",
                 is_servers(program) && !loader_is_chain(loader)
                     ? "; a memcached shares it that runs, sees this " DIAGNOSIS_FOLDER
                       ", and is of this release and mode"
                     : "");
        return rc;
    }
    if (rc == -EPERM || rc == -EACCES) {
        snprintf(text, ntext, "attaching needs CAP_NET_ADMIN and CAP_BPF");
        return rc;
    }
    if (explain_master(link, text, ntext))
        return rc;
    link_try_xdp(link->ifindex, loader_program_fd(loader, LOADER_XDP),
                 generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE, reason, sizeof(reason));
    if (!generic && is_without_xdp(rc, reason)) {
        snprintf(text, ntext,
                 "its driver%s%s%s has no XDP; leave out mode=native to use the generic one",
                 link->driver[0] ? " (" : "", link->driver, link->driver[0] ? ")" : "");
        return -EOPNOTSUPP;
    }
    explain_words(link, generic, rc, reason, text, ntext);
    return rc == -EOPNOTSUPP ? -EINVAL : rc;
}
