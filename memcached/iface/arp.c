/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/arp.h"

#include <net/if.h>
#include <stdio.h>

/* A setting of IPv4, of an interface or of "all"; -1: it cannot be read. */
static int read_setting(const char *interface, const char *name)
{
    char path[64 + IF_NAMESIZE];
    int value = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/%s", interface, name);
    file = fopen(path, "re");
    if (!file)
        return -1;
    if (fscanf(file, "%d", &value) != 1)
        value = -1;
    fclose(file);
    return value;
}

/* Each is on if it is for the interface or for all. */
bool arp_answers_for_others(const char *interface)
{
    return read_setting("all", "arp_ignore") == 0 && read_setting(interface, "arp_ignore") == 0 &&
           read_setting("all", "arp_filter") == 0 && read_setting(interface, "arp_filter") == 0;
}
