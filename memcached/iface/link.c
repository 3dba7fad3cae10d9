/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/link.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

union answer {
    struct nlmsghdr header;
    char bytes[32768];
};

struct link_request {
    struct nlmsghdr header;
    struct ifinfomsg link;
    struct rtattr attribute;
    uint32_t netns;
};

/* --- attributes -------------------------------------------------------------- */

static uint32_t attribute_u32(const struct rtattr *attribute)
{
    uint32_t value = 0;

    if (attribute && RTA_PAYLOAD(attribute) >= sizeof(value))
        memcpy(&value, RTA_DATA(attribute), sizeof(value));
    return value;
}

static void attribute_text(const struct rtattr *attribute, char *out, size_t nout)
{
    out[0] = '\0';
    if (attribute)
        snprintf(out, nout, "%.*s", (int)RTA_PAYLOAD(attribute), (const char *)RTA_DATA(attribute));
}

/* The attribute `type` in a list, or NULL. The high bits of a type are flags. */
static const struct rtattr *find(const struct rtattr *list, size_t n, unsigned int type)
{
    for (; RTA_OK(list, n); list = RTA_NEXT(list, n))
        if ((list->rta_type & NLA_TYPE_MASK) == type)
            return list;
    return NULL;
}

static const struct rtattr *find_inside(const struct rtattr *nest, unsigned int type)
{
    return nest ? find(RTA_DATA(nest), RTA_PAYLOAD(nest), type) : NULL;
}

static void read_link(const struct nlmsghdr *header, struct link_info *out)
{
    const struct ifinfomsg *link = NLMSG_DATA(header);
    const struct rtattr *list = IFLA_RTA(link), *netns;
    size_t n = IFLA_PAYLOAD(header);

    memset(out, 0, sizeof(*out));
    out->ifindex = link->ifi_index;
    out->type = link->ifi_type;
    out->flags = link->ifi_flags;
    attribute_text(find(list, n, IFLA_IFNAME), out->name, sizeof(out->name));
    attribute_text(find_inside(find(list, n, IFLA_LINKINFO), IFLA_INFO_KIND), out->kind,
                   sizeof(out->kind));
    out->lower = (int)attribute_u32(find(list, n, IFLA_LINK));
    netns = find(list, n, IFLA_LINK_NETNSID);
    out->lower_elsewhere = netns != NULL;
    out->netns = attribute_u32(netns);
    out->master = (int)attribute_u32(find(list, n, IFLA_MASTER));
    out->mtu_max = attribute_u32(find(list, n, IFLA_MAX_MTU));
    attribute_text(find(list, n, IFLA_PARENT_DEV_NAME), out->device, sizeof(out->device));
    out->native_xdp = attribute_u32(find_inside(find(list, n, IFLA_XDP), IFLA_XDP_DRV_PROG_ID));
}

/* --- questions ---------------------------------------------------------------- */

static int open_netlink(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    return fd < 0 ? -errno : fd;
}

/* Asks for one link, of another network namespace if `netns` is not NULL. 0 or -errno. */
static int ask(int ifindex, const uint32_t *netns, struct link_info *out)
{
    union answer answer;
    struct link_request request = {
        .header = {.nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST},
        .link = {.ifi_index = ifindex},
        .attribute = {.rta_type = IFLA_TARGET_NETNSID, .rta_len = RTA_LENGTH(sizeof(uint32_t))},
    };
    int fd = open_netlink();
    ssize_t n;

    if (fd < 0)
        return fd;
    request.netns = netns ? *netns : 0;
    request.header.nlmsg_len =
        (uint32_t)(netns ? sizeof(request) : offsetof(struct link_request, attribute));
    n = send(fd, &request, request.header.nlmsg_len, 0);
    if (n > 0)
        n = recv(fd, &answer, sizeof(answer), 0);
    close(fd);
    if (n <= 0 || !NLMSG_OK(&answer.header, (uint32_t)n) || answer.header.nlmsg_type != RTM_NEWLINK)
        return -ENODEV;
    read_link(&answer.header, out);
    return 0;
}

bool link_ask_ethtool(const char *name, void *command)
{
    struct ifreq request = {.ifr_data = command};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE); /* any kind will do */
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
    int rc = ask(ifindex, NULL, out);

    if (!rc)
        read_driver(out);
    return rc;
}

int link_read_lower(const struct link_info *link, struct link_info *out)
{
    return link->lower ? ask(link->lower, link->lower_elsewhere ? &link->netns : NULL, out)
                       : -ENODEV;
}

/* Whether one interface lies directly on another one. A veth's peer is beside it. */
static bool is_on(const struct link_info *upper, const struct link_info *lower)
{
    return lower->master == upper->ifindex ||
           (upper->lower == lower->ifindex && !upper->lower_elsewhere &&
            strcmp(upper->kind, "veth") != 0);
}

/* Puts what lies on links[i] behind it, until all that lies above the first has its turn. */
static bool find_above(struct link_info *links, size_t n, int upper)
{
    struct link_info found;
    size_t nfound = 1, i, j;

    for (i = 0; i < nfound; i++) {
        for (j = nfound; j < n; j++) {
            if (!is_on(&links[j], &links[i]))
                continue;
            if (links[j].ifindex == upper)
                return true;
            found = links[j];
            links[j] = links[nfound];
            links[nfound++] = found;
        }
    }
    return false;
}

bool link_is_above(int upper, int lower)
{
    struct if_nameindex *all = if_nameindex(), *each;
    struct link_info *links;
    size_t n = 0;
    bool above;

    for (each = all; each && each->if_index; each++)
        n++;
    links = calloc(n + 1, sizeof(*links));
    n = links && !ask(lower, NULL, &links[0]);
    for (each = all; n && each->if_index; each++)
        if ((int)each->if_index != lower && !ask((int)each->if_index, NULL, &links[n]))
            n++;
    above = links && find_above(links, n, upper);
    free(links);
    if (all)
        if_freenameindex(all);
    return above;
}

bool link_has_vlan(int ifindex, char name[IF_NAMESIZE])
{
    struct if_nameindex *all = if_nameindex(), *each;
    struct link_info link;
    bool found = false;

    for (each = all; each && each->if_index && !found; each++) {
        found = !ask((int)each->if_index, NULL, &link) && strcmp(link.kind, "vlan") == 0 &&
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

/*
 * The kernel's extended ACK message of an error, which has no copy of the request
 * (NETLINK_CAP_ACK).
 */
static void read_reason(const struct nlmsghdr *header, char *reason, size_t nreason)
{
    const char *list = (const char *)NLMSG_DATA(header) + sizeof(struct nlmsgerr);

    if (header->nlmsg_flags & NLM_F_ACK_TLVS)
        attribute_text(find((const struct rtattr *)(const void *)list,
                            header->nlmsg_len - (size_t)(list - (const char *)header),
                            NLMSGERR_ATTR_MSG),
                       reason, nreason);
}

/* Replaces the program `expected` by `program` (-1: none). 0 or -errno. */
static int set_xdp(int netlink, int ifindex, int program, uint32_t flags, int expected,
                   char *reason, size_t nreason)
{
    union answer answer;
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
    const struct nlmsgerr *error = NLMSG_DATA(&answer.header);
    ssize_t n = send(netlink, &request, sizeof(request), 0);

    if (n > 0)
        n = recv(netlink, &answer, sizeof(answer), 0);
    if (n < 0)
        return -errno;
    if (!NLMSG_OK(&answer.header, (uint32_t)n) || answer.header.nlmsg_type != NLMSG_ERROR)
        return -EPROTO;
    read_reason(&answer.header, reason, nreason);
    return error->error;
}

int link_try_xdp(int ifindex, int program, uint32_t flags, char *reason, size_t nreason)
{
    int fd = open_netlink(), on = 1, rc;
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
