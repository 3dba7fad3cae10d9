/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/attach/filters.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <unistd.h>

#include "bpf/attach/netlink.h"

enum { MESSAGE_ROOM = 32768 };

/*
 * Reads a filter. False: it is none that counts. The kernel sends a row without a handle before the
 * filters of each priority, and one for each filter.
 */
static bool read_row(struct netlink body, struct filter_row *out)
{
    const struct netlink list = netlink_skip(body, NLMSG_ALIGN(sizeof(struct tcmsg)));
    const struct netlink options = netlink_find(list, TCA_OPTIONS);
    struct netlink name = netlink_find(list, TCA_KIND);
    const bool of_bpf = netlink_is(name, "bpf");
    struct tcmsg message;

    if (body.n < sizeof(message))
        return false;
    memcpy(&message, body.at, sizeof(message));
    if (netlink_u32(netlink_find(list, TCA_CHAIN), 0))
        return false; /* only a filter of chain 0 leads there */
    if (of_bpf != (message.tcm_handle != 0))
        return false;
    *out = (struct filter_row){.priority = TC_H_MAJ(message.tcm_info) >> 16,
                               .handle = message.tcm_handle};
    if (of_bpf && options.at) {
        out->for_all = TC_H_MIN(message.tcm_info) == htons(ETH_P_ALL);
        out->program = netlink_u32(netlink_find(options, TCA_BPF_ID), 0);
        name = netlink_find(options, TCA_BPF_NAME);
    }
    netlink_text(name, out->name, sizeof(out->name));
    out->name[strcspn(out->name, ":")] = '\0'; /* libbpf and tc write "name:[id]" */
    return true;
}

/* Receives the answer to a dump. */
static size_t receive(int fd, struct filter_row rows[FILTERS_MOST])
{
    unsigned char bytes[MESSAGE_ROOM];
    struct netlink answer, body;
    struct nlmsghdr header;
    size_t n = 0;
    ssize_t got;

    while ((got = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
        answer = (struct netlink){bytes, (size_t)got};
        while (netlink_next(&answer, &header, &body)) {
            if (header.nlmsg_type != RTM_NEWTFILTER) /* the end, or an error */
                return n;
            if (n < FILTERS_MOST && read_row(body, &rows[n]))
                n++;
        }
    }
    return n;
}

size_t filters_read(int ifindex, bool egress, struct filter_row rows[FILTERS_MOST])
{
    const struct {
        struct nlmsghdr header;
        struct tcmsg message;
    } request = {
        .header = {.nlmsg_len = sizeof(request),
                   .nlmsg_type = RTM_GETTFILTER,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .message = {.tcm_ifindex = ifindex,
                    .tcm_parent =
                        TC_H_MAKE(TC_H_CLSACT, egress ? TC_H_MIN_EGRESS : TC_H_MIN_INGRESS)},
    };
    int fd = netlink_open();
    size_t n = 0;

    if (fd < 0)
        return 0;
    if (send(fd, &request, sizeof(request), 0) == sizeof(request))
        n = receive(fd, rows);
    close(fd);
    return n;
}

uint32_t filters_place(const struct filter_row *rows, size_t n)
{
    uint32_t priority = 1;
    size_t i;

    for (i = 0; i < n && rows[i].priority <= priority; i++)
        if (rows[i].priority == priority && !rows[i].for_all)
            priority++;
    return priority;
}
