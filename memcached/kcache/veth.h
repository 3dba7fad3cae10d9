/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * veth: whether native replies would arrive.
 *
 * A veth driver drops what XDP sends out of it (XDP_TX) unless the other end has a native XDP
 * program too, if only one that passes everything. Generic XDP has no such condition.
 */
#ifndef KCACHE_VETH_H
#define KCACHE_VETH_H

enum veth_peer {
    VETH_NOT,     /* not a veth interface, or nobody knows */
    VETH_LISTENS, /* its peer has a native XDP program */
    VETH_DEAF,    /* its peer has none */
    VETH_HIDDEN,  /* its peer is where we may not look */
};

enum veth_peer veth_peer(int ifindex);

#endif
