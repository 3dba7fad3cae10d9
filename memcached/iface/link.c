/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/link.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bpf/attach/netlink.h"

enum {
    ANSWER_MAX = 32768,
};

struct link_request {
    struct nlmsghdr header;
    struct ifinfomsg link;
};

/* --- one link ------------------------------------------------------------------ */

static struct netlink find_inside(struct netlink list, unsigned int nest, unsigned int type)
{
    return netlink_find(netlink_find(list, nest), type);
}

static int number_of(struct netlink list, unsigned int type)
{
    return (int)netlink_u32(netlink_find(list, type), 0);
}

static void read_link(struct netlink body, struct link_info *out)
{
    const struct netlink list = netlink_skip(body, NLMSG_ALIGN(sizeof(struct ifinfomsg)));
    struct ifinfomsg link;

    memcpy(&link, body.at, sizeof(link));
    *out = (struct link_info){
        .ifindex = link.ifi_index,
        .type = link.ifi_type,
        .flags = link.ifi_flags,
        .lower = number_of(list, IFLA_LINK),
        .lower_elsewhere = netlink_find(list, IFLA_LINK_NETNSID).at != NULL,
        .master = number_of(list, IFLA_MASTER),
        .mtu_max = (uint32_t)number_of(list, IFLA_MAX_MTU),
    };
    netlink_text(netlink_find(list, IFLA_IFNAME), out->name, sizeof(out->name));
    netlink_text(find_inside(list, IFLA_LINKINFO, IFLA_INFO_KIND), out->kind, sizeof(out->kind));
    netlink_text(netlink_find(list, IFLA_PARENT_DEV_NAME), out->device, sizeof(out->device));
}

/* --- questions ---------------------------------------------------------------- */

/* Asks for one link. 0 or -errno. */
static int ask(int ifindex, struct link_info *out)
{
    unsigned char answer[ANSWER_MAX];
    struct link_request request = {
        .header = {.nlmsg_len = sizeof(request),
                   .nlmsg_type = RTM_GETLINK,
                   .nlmsg_flags = NLM_F_REQUEST},
        .link = {.ifi_index = ifindex},
    };
    int fd = netlink_open();
    struct nlmsghdr header;
    struct netlink bytes, body;
    ssize_t n;

    if (fd < 0)
        return fd;
    n = send(fd, &request, sizeof(request), 0);
    if (n > 0)
        n = recv(fd, answer, sizeof(answer), 0);
    close(fd);
    bytes = (struct netlink){answer, n > 0 ? (size_t)n : 0};
    if (!netlink_next(&bytes, &header, &body) || header.nlmsg_type != RTM_NEWLINK ||
        body.n < sizeof(struct ifinfomsg))
        return -ENODEV;
    read_link(body, out);
    return 0;
}

bool link_ask_ethtool(const char *name, void *command)
{
    struct ifreq request = {.ifr_data = command};
    int fd = netlink_open(); /* any socket will do */
    bool answered;

    if (fd < 0)
        return false;
    memcpy(request.ifr_name, name, strnlen(name, sizeof(request.ifr_name) - 1));
    answered = ioctl(fd, SIOCETHTOOL, &request) == 0;
    close(fd);
    return answered;
}

/* Reads driver and features; an interface that does not answer has no features. */
static void read_driver(struct link_info *out)
{
    struct ethtool_value flags = {.cmd = ETHTOOL_GFLAGS};
    struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};

    if (link_ask_ethtool(out->name, &flags)) {
        out->lro = flags.data & ETH_FLAG_LRO;
        out->strips_tags = flags.data & ETH_FLAG_RXVLAN;
    }
    if (link_ask_ethtool(out->name, &driver))
        snprintf(out->driver, sizeof(out->driver), "%s", driver.driver);
}

unsigned int link_nqueues(const char *name)
{
    struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
    unsigned int n = 0;

    if (link_ask_ethtool(name, &channels))
        n = channels.rx_count + channels.combined_count;
    return n ? n : 1;
}

int link_read(int ifindex, struct link_info *out)
{
    int rc = ask(ifindex, out);

    if (!rc)
        read_driver(out);
    return rc;
}

enum veth_peer link_veth_peer(int ifindex)
{
    struct link_info link;

    if (link_read(ifindex, &link) || strcmp(link.kind, "veth") != 0)
        return VETH_NOT;
    return link.mtu_max != ETH_MAX_MTU ? VETH_PEER_WITH_XDP : VETH_PEER_WITHOUT_XDP;
}

bool link_has_vlan(int ifindex, char name[IF_NAMESIZE])
{
    struct if_nameindex *all = if_nameindex(), *each;
    struct link_info link;
    bool found = false;

    for (each = all; each && each->if_index && !found; each++) {
        found = !ask((int)each->if_index, &link) && strcmp(link.kind, "vlan") == 0 &&
                link.lower == ifindex && !link.lower_elsewhere;
        if (found)
            memcpy(name, link.name, IF_NAMESIZE);
    }
    if (all)
        if_freenameindex(all);
    return found;
}

/* --- trying ---------------------------------------------------------------------- */

struct xdp_request {
    struct nlmsghdr header;
    struct ifinfomsg link;
    struct rtattr nest;
    struct rtattr fd_header;
    int32_t fd;
    struct rtattr flags_header;
    uint32_t flags;
    struct rtattr expected_header;
    int32_t expected;
};

/* Replaces the program `expected` by `program` (-1: none). 0 or -errno. */
static int set_xdp(int netlink, int ifindex, int program, uint32_t flags, int expected,
                   char *reason, size_t nreason)
{
    unsigned char answer[ANSWER_MAX];
    struct xdp_request request = {
        .header = {.nlmsg_len = sizeof(request),
                   .nlmsg_type = RTM_SETLINK,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
        .link = {.ifi_index = ifindex},
        .nest = {.rta_type = IFLA_XDP | NLA_F_NESTED,
                 .rta_len = sizeof(request) - offsetof(struct xdp_request, nest)},
        .fd_header = {.rta_type = IFLA_XDP_FD, .rta_len = RTA_LENGTH(sizeof(int32_t))},
        .fd = program,
        .flags_header = {.rta_type = IFLA_XDP_FLAGS, .rta_len = RTA_LENGTH(sizeof(uint32_t))},
        .flags = flags,
        .expected_header = {.rta_type = IFLA_XDP_EXPECTED_FD,
                            .rta_len = RTA_LENGTH(sizeof(int32_t))},
        .expected = expected,
    };
    ssize_t n = send(netlink, &request, sizeof(request), 0);
    struct netlink bytes, body;
    struct nlmsghdr header;
    struct nlmsgerr error;

    if (n > 0)
        n = recv(netlink, answer, sizeof(answer), 0);
    if (n < 0)
        return -errno;
    bytes = (struct netlink){answer, (size_t)n};
    if (!netlink_next(&bytes, &header, &body) || header.nlmsg_type != NLMSG_ERROR ||
        body.n < sizeof(error))
        return -EPROTO;
    memcpy(&error, body.at, sizeof(error));
    /* The extended ACK message, behind an error without a copy of the request (NETLINK_CAP_ACK). */
    if (header.nlmsg_flags & NLM_F_ACK_TLVS)
        netlink_text(netlink_find(netlink_skip(body, sizeof(error)), NLMSGERR_ATTR_MSG), reason,
                     nreason);
    return error.error;
}

int link_try_xdp(int ifindex, int program, uint32_t flags, char *reason, size_t nreason)
{
    int fd = netlink_open(), on = 1, rc;
    char ignored[8];

    reason[0] = '\0';
    if (fd < 0)
        return fd;
    setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on));
    setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
    rc = set_xdp(fd, ifindex, program, flags | XDP_FLAGS_REPLACE, -1, reason, nreason);
    if (!rc)
        set_xdp(fd, ifindex, -1, flags | XDP_FLAGS_REPLACE, program, ignored, sizeof(ignored));
    close(fd);
    return rc;
}
