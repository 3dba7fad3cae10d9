/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/attach/filters.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { MESSAGE_ROOM = 32768, ANSWER_S = 5 };

/* The attribute `type` in a list, or NULL. */
static const struct rtattr *attribute(const struct rtattr *list, size_t n, unsigned int type)
{
    for (; RTA_OK(list, n); list = RTA_NEXT(list, n))
        if ((list->rta_type & NLA_TYPE_MASK) == type)
            return list;
    return NULL;
}

static uint32_t number_of(const struct rtattr *found)
{
    uint32_t number = 0;

    if (found && RTA_PAYLOAD(found) >= sizeof(number))
        memcpy(&number, RTA_DATA(found), sizeof(number));
    return number;
}

/* libbpf and tc write "name:[id]": the name alone. */
static void copy_name(char out[FILTER_NAME], const struct rtattr *found)
{
    out[0] = '\0';
    if (found)
        snprintf(out, FILTER_NAME, "%.*s", (int)RTA_PAYLOAD(found), (const char *)RTA_DATA(found));
    out[strcspn(out, ":")] = '\0';
}

/*
 * Reads a filter. False: it is none that counts. The kernel sends a row without a handle before the
 * filters of each priority, and one for each filter.
 */
static bool read_row(const struct nlmsghdr *header, struct filter_row *out)
{
    const struct tcmsg *message = NLMSG_DATA(header);
    const struct rtattr *list = TCA_RTA(message), *options, *kind;
    const size_t n = TCA_PAYLOAD(header);
    bool of_bpf;

    if (number_of(attribute(list, n, TCA_CHAIN)))
        return false; /* only a filter of chain 0 leads there */
    kind = attribute(list, n, TCA_KIND);
    of_bpf = kind && RTA_PAYLOAD(kind) >= sizeof("bpf") && !strcmp(RTA_DATA(kind), "bpf");
    if (of_bpf != (message->tcm_handle != 0))
        return false;
    *out = (struct filter_row){.priority = TC_H_MAJ(message->tcm_info) >> 16,
                               .handle = message->tcm_handle};
    options = attribute(list, n, TCA_OPTIONS);
    if (of_bpf && options) {
        const struct rtattr *inner = RTA_DATA(options);

        out->for_all = TC_H_MIN(message->tcm_info) == htons(ETH_P_ALL);
        out->program = number_of(attribute(inner, RTA_PAYLOAD(options), TCA_BPF_ID));
        kind = attribute(inner, RTA_PAYLOAD(options), TCA_BPF_NAME);
    }
    copy_name(out->name, kind);
    return true;
}

/* Receives the answer to a dump. */
static size_t receive(int fd, struct filter_row rows[FILTERS_MOST])
{
    union {
        struct nlmsghdr header;
        char bytes[MESSAGE_ROOM];
    } answer;
    const struct nlmsghdr *each;
    size_t n = 0;
    ssize_t got;

    while ((got = recv(fd, &answer, sizeof(answer), 0)) > 0) {
        for (each = &answer.header; NLMSG_OK(each, (size_t)got); each = NLMSG_NEXT(each, got)) {
            if (each->nlmsg_type != RTM_NEWTFILTER) /* the end, or an error */
                return n;
            if (n < FILTERS_MOST && each->nlmsg_len >= NLMSG_LENGTH(sizeof(struct tcmsg)) &&
                read_row(each, &rows[n]))
                n++;
        }
    }
    return n;
}

size_t filters_read(int ifindex, bool egress, struct filter_row rows[FILTERS_MOST])
{
    const struct timeval patience = {ANSWER_S, 0};
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
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    size_t n = 0;

    if (fd < 0)
        return 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
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
