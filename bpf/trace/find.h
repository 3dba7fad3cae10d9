/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * find: the packet programs of memcached and bmc on this machine that hooks call: those that have a
 * link, and those that stay attached without the server (mc_filter, mc_member, mc_share) while they
 * call a server's. Programs are recognized by the control block that they, or what they call, have.
 */
#ifndef BPF_TRACE_FIND_H
#define BPF_TRACE_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/trace/event.h"

enum { FIND_NAME = 16, FIND_MAX = 256 };

struct found {
    uint32_t id;
    int program; /* a descriptor, as all that follow */
    char name[FIND_NAME];
    bool is_tc;
    bool has_own; /* a control block in its own maps */
    /* Of the servers whose program it is, or calls: their counters and control blocks. */
    int counters[TRACE_KINDS][TRACE_SERVERS], controls[TRACE_SERVERS];
    size_t ncounters[TRACE_KINDS], ncontrols;
};

/* How many were found, each to be closed; or -errno: EPERM without CAP_SYS_ADMIN. */
int find_all(struct found found[FIND_MAX]);
void find_close(struct found *found);

/* The ports of its servers, network order; those that are not used are 0. */
void find_ports(const struct found *found, uint16_t ports[TRACE_PORTS]);

#endif
