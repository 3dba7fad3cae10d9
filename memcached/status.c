/* SPDX-License-Identifier: BSD-3-Clause */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

#include "kcache/kcache.h"
#include "options/options.h"

/* Where the text of a line goes on; what finds no room is left out. */
struct line {
    char *text;
    size_t size, len;
};

__attribute__((format(printf, 2, 3))) static void append(struct line *line, const char *format, ...)
{
    va_list arguments;
    int n;

    if (line->len + 1 >= line->size)
        return;
    va_start(arguments, format);
    n = vsnprintf(line->text + line->len, line->size - line->len, format, arguments);
    va_end(arguments);
    line->len += n > 0 ? (size_t)n : 0;
}

static void append_ports(struct line *line, const struct status *status)
{
    const struct options *o = status->options;

    if (o->net.socket_path) {
        append(line, "serving %s", o->net.socket_path);
        return;
    }
    append(line, "serving");
    if (status->tcp_port)
        append(line, " TCP port %u", status->tcp_port);
    else if (o->ssl_enabled)
        append(line, " TLS");
    if (status->udp_port)
        append(line, "%sUDP port %u", line->len > sizeof("serving") ? ", " : " ", status->udp_port);
}

static void append_kernel_path(struct line *line, const struct status *status)
{
    const struct kcache_options *wanted = &status->options->kcache;
    const struct iface_view *view = status->kview;
    char where[512];
    bool udp = wanted->udp == KCACHE_ON, tcp = kcache_wants_tcp(wanted);

    if (status->kernel_error) {
        append(line, "; kernel path off: %s", status->kernel_error);
        return;
    }
    if (!view)
        return;
    if (status->bypass) {
        append(line, "; the kernel passes every request to the server (bypass)");
        return;
    }
    kcache_describe(view, where, sizeof(where));
    append(line, "; the kernel answers gets over %s%s%s on %s", udp ? "UDP" : "",
           udp && tcp ? " and " : "", tcp ? "TCP" : "", where);
}

void status_text(const struct status *status, char *text, size_t size)
{
    struct line line = {text, size, 0};

    text[0] = '\0';
    append_ports(&line, status);
    append_kernel_path(&line, status);
}
