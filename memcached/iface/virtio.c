/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/virtio.h"

#include <linux/virtio_net.h>
#include <stdio.h>
#include <string.h>

enum { FEATURES = 64, FRAME_MTU = 1500 };

/* The negotiated features, as a text of 0 and 1; "": unknown. */
static void read_features(const char *device, char out[FEATURES + 1])
{
    char path[80];
    FILE *file;

    snprintf(path, sizeof(path), "/sys/bus/virtio/devices/%s/features", device);
    file = fopen(path, "re");
    if (!file || !fgets(out, FEATURES + 1, file))
        out[0] = '\0';
    if (file)
        fclose(file);
}

bool virtio_skips_xdp(const struct link_info *link)
{
    static const int joined[] = {VIRTIO_NET_F_GUEST_TSO4, VIRTIO_NET_F_GUEST_TSO6,
                                 VIRTIO_NET_F_GUEST_ECN, VIRTIO_NET_F_GUEST_UFO};
    char features[FEATURES + 1];
    size_t i;

    if (strcmp(link->driver, "virtio_net") != 0)
        return false;
    read_features(link->device, features);
    if (strlen(features) <= VIRTIO_NET_F_MRG_RXBUF || features[VIRTIO_NET_F_MRG_RXBUF] == '1')
        return false;
    for (i = 0; i < sizeof(joined) / sizeof(joined[0]); i++)
        if (features[joined[i]] == '1')
            return true;
    return features[VIRTIO_NET_F_MTU] == '1' && link->mtu_max > FRAME_MTU;
}
