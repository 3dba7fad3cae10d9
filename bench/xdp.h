/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xdp: finds the XDP program that someone else has attached to an interface, and its maps. So the
 * benchmarks measure the running server's own program on its own memory.
 */
#ifndef BENCH_XDP_H
#define BENCH_XDP_H

#include <stdint.h>

/* The index of an interface of this network namespace; exits when there is none. */
unsigned int xdp_ifindex(const char *interface);
/* A descriptor of the program on the interface; exits when there is none. */
int xdp_program(const char *interface);
/* A descriptor of the program's map of that name (15 characters at most); exits without it. */
int xdp_map(int program, const char *name);
/*
 * Runs the program once on a copy of the packet as if it came from the interface. Returns its
 * verdict, or -errno. *ns: what it took by the kernel's clock, the test's overhead included.
 */
int xdp_run(int program, unsigned int ifindex, const void *packet, uint32_t npacket, void *out,
            uint32_t *nout, uint32_t *ns);

#endif
