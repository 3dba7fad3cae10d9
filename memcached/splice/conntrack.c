/* SPDX-License-Identifier: BSD-3-Clause */
#include "splice/conntrack.h"

#include <errno.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bpf/shared/tcp.h"

/* The longest, with addresses of IPv6, takes 100. */
enum { ATTRIBUTES_MAX = 128 };

struct request {
    struct nlmsghdr head;
    struct nfgenmsg family;
    char attributes[ATTRIBUTES_MAX];
};

/*
 * Whether netfilter tracks connections. Asked where it does not, Linux would load its modules, and
 * from then on it would. Each file is there in some kernels and sandboxes only.
 */
static bool is_there(void)
{
    return access("/proc/sys/net/netfilter/nf_conntrack_max", F_OK) == 0 ||
           access("/proc/self/net/stat/nf_conntrack", F_OK) == 0;
}

static struct nlattr *begin(struct request *request, int type)
{
    struct nlattr *attribute =
        (struct nlattr *)((char *)request + NLMSG_ALIGN(request->head.nlmsg_len));

    attribute->nla_type = (uint16_t)type;
    request->head.nlmsg_len += NLA_HDRLEN;
    return attribute;
}

/* All that was added since it was begun is in it. */
static void end(struct request *request, struct nlattr *attribute)
{
    attribute->nla_len = (uint16_t)((char *)request + request->head.nlmsg_len - (char *)attribute);
}

static void add(struct request *request, int type, const void *value, size_t n)
{
    struct nlattr *attribute = begin(request, type);

    memcpy(attribute + 1, value, n);
    attribute->nla_len = (uint16_t)(NLA_HDRLEN + n);
    request->head.nlmsg_len += (uint32_t)NLA_ALIGN(n);
}

static void add_addresses(struct request *request, const struct mc_tcp_flow *flow)
{
    const char *server = (const char *)flow->server, *client = (const char *)flow->client;
    struct nlattr *all = begin(request, NLA_F_NESTED | CTA_TUPLE_IP);
    const size_t at = sizeof(struct in6_addr) - sizeof(struct in_addr);

    if (request->family.nfgen_family == AF_INET) {
        add(request, CTA_IP_V4_SRC, server + at, sizeof(struct in_addr));
        add(request, CTA_IP_V4_DST, client + at, sizeof(struct in_addr));
    } else {
        add(request, CTA_IP_V6_SRC, server, sizeof(struct in6_addr));
        add(request, CTA_IP_V6_DST, client, sizeof(struct in6_addr));
    }
    end(request, all);
}

/* Replies are what netfilter has not changed yet when it sees the socket's segments. */
static void add_tuple(struct request *request, const struct mc_tcp_flow *flow)
{
    const uint8_t protocol = IPPROTO_TCP;
    struct nlattr *tuple = begin(request, NLA_F_NESTED | CTA_TUPLE_REPLY), *ports;

    add_addresses(request, flow);
    ports = begin(request, NLA_F_NESTED | CTA_TUPLE_PROTO);
    add(request, CTA_PROTO_NUM, &protocol, sizeof(protocol));
    add(request, CTA_PROTO_SRC_PORT, &flow->server_port, sizeof(flow->server_port));
    add(request, CTA_PROTO_DST_PORT, &flow->client_port, sizeof(flow->client_port));
    end(request, ports);
    end(request, tuple);
}

/*
 * In both directions. The largest acknowledgement it forgets, or it would call a reset invalid
 * whose number is before that, as it is once the kernel has answered with 2 GB.
 */
static void add_flags(struct request *request)
{
    const struct nf_ct_tcp_flags flags = {IP_CT_TCP_FLAG_BE_LIBERAL,
                                          IP_CT_TCP_FLAG_BE_LIBERAL | IP_CT_TCP_FLAG_MAXACK_SET};
    struct nlattr *protocol = begin(request, NLA_F_NESTED | CTA_PROTOINFO);
    struct nlattr *tcp = begin(request, NLA_F_NESTED | CTA_PROTOINFO_TCP);

    add(request, CTA_PROTOINFO_TCP_FLAGS_ORIGINAL, &flags, sizeof(flags));
    add(request, CTA_PROTOINFO_TCP_FLAGS_REPLY, &flags, sizeof(flags));
    end(request, tcp);
    end(request, protocol);
}

/* 0 or -errno. */
static int ask(const struct request *request)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
    } reply = {.error.error = -EIO};
    int rc = 0;

    if (fd < 0)
        return -errno;
    if (send(fd, request, request->head.nlmsg_len, 0) < 0 ||
        recv(fd, &reply, sizeof(reply), MSG_DONTWAIT) < 0)
        rc = -errno;
    close(fd);
    return rc ? rc : reply.error.error;
}

bool conntrack_be_liberal(struct conntrack *conntrack, const struct mc_tcp_flow *flow)
{
    const bool is_v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)flow->client);
    struct request request = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof(request.family)),
                 .nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
        .family = {.nfgen_family = is_v4 ? AF_INET : AF_INET6, .version = NFNETLINK_V0},
    };
    int rc;

    if (conntrack->is_missing || !is_there())
        return false;
    add_tuple(&request, flow);
    add_flags(&request);
    rc = ask(&request);
    conntrack->is_missing = rc == -EINVAL || rc == -EPROTONOSUPPORT;
    return !rc || rc == -ENOENT;
}
