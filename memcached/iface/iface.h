/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iface: the interfaces to which the kernel programs are attached: how, and in what state they are.
 * attach.h attaches and monitor.h keeps that up to date; both in builds with the kernel path only.
 */
#ifndef IFACE_IFACE_H
#define IFACE_IFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IFACE_MAX = 16,     /* interfaces */
    IFACE_BEFORE = 128, /* bytes of iface.before */
};

/* How XDP is attached. IFACE_TC: not at all, and TC ingress answers. */
enum iface_mode { IFACE_AUTO, IFACE_NATIVE, IFACE_GENERIC, IFACE_TC };

/* The state of an interface and of the programs on it. */
enum iface_state {
    IFACE_UP,
    IFACE_DOWN,
    IFACE_GONE,     /* removed, or moved to another network namespace */
    IFACE_DETACHED, /* another process has detached the programs, or with mode=native the driver
                        lost the replies; they will be attached again */
    IFACE_GIVEN_UP, /* they have been detached too often; they will be attached after a pause */
};

struct iface {
    char name[16];                    /* its current name */
    bool xdp_native, xdp_generic, tc; /* what is attached; */
    bool tc_deferred;                 /* TC is not attached until a reply finds no room */
    unsigned int nservers;            /* that share XDP, when the last of them came; 1: it alone */
    enum iface_state state;
    char before[IFACE_BEFORE]; /* what others have put before the programs on TC; "none" */
};

/* Counts of events of interfaces and addresses. */
struct iface_events {
    uint64_t interface_events; /* changes of an interface's state or name */
    uint64_t detached;         /* times that another process detached programs */
    uint64_t reattached;       /* times that they were attached again */
    uint64_t tx_failures;      /* times that native XDP was detached: the driver lost its replies */
    uint64_t dumps;            /* full dumps of links and addresses, after lost messages */
};

/* The interfaces, and the local addresses that the programs have; at most a second old. */
struct iface_view {
    struct iface interfaces[IFACE_MAX];
    unsigned int ninterfaces;
    unsigned int n4, n6, nmacs, nvlans; /* of struct mc_local, */
    size_t left_out;                    /* addresses that did not fit there */
    bool tcp_open; /* nothing is answered over TCP: segments could leave without the programs */
    unsigned int ntcp_opened; /* how often that began */
};

#endif
