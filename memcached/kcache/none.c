/* SPDX-License-Identifier: BSD-3-Clause */
/* none: replaces the kernel path in a build with --disable-bmc. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <stdio.h>

#include "kcache/kcache.h"

struct kcache *kcache_open(const struct kcache_options *options, uint64_t reach, char *error,
                           size_t nerror)
{
    snprintf(error, nerror, "this build has no kernel path (configured with --disable-bmc)");
    return NULL;
}

struct mc_control *kcache_control(struct kcache *kcache)
{
    return NULL;
}

struct provider *kcache_provider(struct kcache *kcache)
{
    return NULL;
}

struct boundaries *kcache_boundaries(struct kcache *kcache)
{
    return NULL;
}

struct xsk *kcache_rings(struct kcache *kcache, size_t *n)
{
    *n = 0;
    return NULL;
}

int kcache_know_socket(struct kcache *kcache, int socket)
{
    return 0;
}

int kcache_attach(struct kcache *kcache, const struct kcache_served *served, char *error,
                  size_t nerror)
{
    kcache_open(NULL, 0, error, nerror);
    return -1;
}

int kcache_reload(struct kcache *kcache, char *error, size_t nerror)
{
    return 0;
}

void kcache_renew_lease(struct kcache *kcache)
{
}

void kcache_detach(struct kcache *kcache)
{
}

uint64_t kcache_capabilities(const struct kcache *kcache)
{
    return 0;
}

int kcache_start(struct kcache *kcache)
{
    return 0;
}

void kcache_close(struct kcache *kcache)
{
}

void kcache_stats(struct kcache *kcache, struct kcache_stats *out)
{
    *out = (struct kcache_stats){0};
}

void kcache_report(struct kcache *kcache, kcache_row *row, void *context)
{
}

const char *kcache_missing(const struct kcache_options *options)
{
    return NULL;
}

void kcache_look(struct kcache *kcache, struct iface_view *out)
{
    *out = (struct iface_view){0};
}

void kcache_describe(const struct iface_view *view, char *text, size_t size)
{
    if (size)
        text[0] = '\0';
}

void kcache_reset_stats(struct kcache *kcache)
{
}
