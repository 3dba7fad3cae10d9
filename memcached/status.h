/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * status: what the server serves, and how, in one line for the service manager (base/notify.h).
 */
#ifndef STATUS_H
#define STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iface_view;
struct options;

struct status {
    const struct options *options;
    uint16_t tcp_port, udp_port;    /* of plain connections; 0: none */
    const char *kernel_error;       /* why the kernel path is off, or NULL */
    const struct iface_view *kview; /* NULL: there is no kernel path */
    bool bypass;                    /* the kernel passes every request */
};

void status_text(const struct status *status, char *text, size_t size);

#endif
