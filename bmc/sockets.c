/* SPDX-License-Identifier: BSD-3-Clause */
#include "bmc/sockets.h"

#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>

/* Counts the rows of a table with this local port and, if not 0, this state. */
static size_t count(const char *path, uint16_t port, unsigned int state)
{
    unsigned int local, is;
    FILE *file = fopen(path, "re");
    char line[512];
    size_t n = 0;

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &local, &is) == 2)
            n += local == port && (!state || is == state);
    if (file)
        fclose(file);
    return n;
}

size_t sockets_connections(uint16_t port)
{
    return count("/proc/net/tcp", port, TCP_ESTABLISHED) +
           count("/proc/net/tcp6", port, TCP_ESTABLISHED);
}

size_t sockets_udp(uint16_t port)
{
    return count("/proc/net/udp", port, 0) + count("/proc/net/udp6", port, 0);
}
