/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/veth.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What is read of one link. */
struct link_info {
    bool veth;
    int peer;            /* its index, 0: unknown */
    bool elsewhere;      /* the peer is in another network namespace, */
    uint32_t netns;      /* which our namespace calls so */
    uint32_t native_xdp; /* id of the native program, 0: none */
};

struct link_request {
    struct nlmsghdr header;
    struct ifinfomsg link;
    struct rtattr attribute;
    uint32_t netns;
};

static uint32_t attribute_u32(const struct rtattr *attribute)
{
    uint32_t value = 0;

    if (RTA_PAYLOAD(attribute) >= sizeof(value))
        memcpy(&value, RTA_DATA(attribute), sizeof(value));
    return value;
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

static void read_link(const struct nlmsghdr *header, struct link_info *info)
{
    const struct rtattr *list = IFLA_RTA(NLMSG_DATA(header)), *found;
    size_t n = IFLA_PAYLOAD(header);

    found = find_inside(find(list, n, IFLA_LINKINFO), IFLA_INFO_KIND);
    info->veth = found && RTA_PAYLOAD(found) >= 5 && memcmp(RTA_DATA(found), "veth", 5) == 0;
    found = find(list, n, IFLA_LINK);
    info->peer = found ? (int)attribute_u32(found) : 0;
    found = find(list, n, IFLA_LINK_NETNSID);
    info->elsewhere = found != NULL;
    info->netns = found ? attribute_u32(found) : 0;
    found = find_inside(find(list, n, IFLA_XDP), IFLA_XDP_DRV_PROG_ID);
    info->native_xdp = found ? attribute_u32(found) : 0;
}

/* Asks the kernel for one link, of another network namespace if `netns` is not NULL. */
static bool ask(int fd, int ifindex, const uint32_t *netns, struct link_info *info)
{
    union {
        struct nlmsghdr header;
        char bytes[32768];
    } answer;
    struct link_request request = {
        .header = {.nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST},
        .link = {.ifi_index = ifindex},
        .attribute = {.rta_type = IFLA_TARGET_NETNSID, .rta_len = RTA_LENGTH(sizeof(uint32_t))},
    };
    ssize_t n;

    request.netns = netns ? *netns : 0;
    request.header.nlmsg_len =
        (uint32_t)(netns ? sizeof(request) : offsetof(struct link_request, attribute));
    if (send(fd, &request, request.header.nlmsg_len, 0) < 0)
        return false;
    n = recv(fd, &answer, sizeof(answer), 0);
    if (n <= 0 || !NLMSG_OK(&answer.header, (uint32_t)n) || answer.header.nlmsg_type != RTM_NEWLINK)
        return false;
    read_link(&answer.header, info);
    return true;
}

enum veth_peer veth_peer(int ifindex)
{
    struct link_info link, peer;
    enum veth_peer result = VETH_NOT;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    if (fd < 0)
        return VETH_NOT;
    if (ask(fd, ifindex, NULL, &link) && link.veth) {
        result = VETH_DEAF;
        if (link.peer && ask(fd, link.peer, link.elsewhere ? &link.netns : NULL, &peer) &&
            peer.native_xdp)
            result = VETH_LISTENS;
    }
    close(fd);
    return result;
}
