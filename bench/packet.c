/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/packet.h"

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <stdio.h>
#include <string.h>

#include "bench/options.h"

void packet_mac(uint8_t mac[6], const char *text)
{
    if (sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", &mac[0], &mac[1], &mac[2], &mac[3],
               &mac[4], &mac[5]) != 6)
        usage_error("not a MAC address: %s", text);
}

static uint16_t ip_checksum(const struct iphdr *ip)
{
    uint16_t words[sizeof(*ip) / 2];
    uint32_t sum = 0;

    memcpy(words, ip, sizeof(words));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        sum += words[i];
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t) ~((sum & 0xffff) + (sum >> 16));
}

size_t packet_get(const struct packet_route *route, const struct items *items, uint32_t index,
                  uint8_t *out)
{
    return packet_close(route, items_get(items, index, (char *)out + PACKET_TEXT), out);
}

size_t packet_close(const struct packet_route *route, size_t ntext, uint8_t *out)
{
    uint16_t frame[4] = {htons(1), 0, htons(1), 0};
    struct ethhdr eth = {.h_proto = htons(ETH_P_IP)};
    struct udphdr udp = {.source = route->from.sin_port, .dest = route->to.sin_port};
    struct iphdr ip = {.version = 4,
                       .ihl = 5,
                       .ttl = 64,
                       .protocol = IPPROTO_UDP,
                       .saddr = route->from.sin_addr.s_addr,
                       .daddr = route->to.sin_addr.s_addr};

    memcpy(eth.h_dest, route->to_mac, sizeof(eth.h_dest));
    memcpy(eth.h_source, route->from_mac, sizeof(eth.h_source));
    udp.len = htons((uint16_t)(sizeof(udp) + sizeof(frame) + ntext));
    ip.tot_len = htons((uint16_t)(sizeof(ip) + sizeof(udp) + sizeof(frame) + ntext));
    ip.check = ip_checksum(&ip);
    memcpy(out, &eth, sizeof(eth));
    memcpy(out + sizeof(eth), &ip, sizeof(ip));
    memcpy(out + sizeof(eth) + sizeof(ip), &udp, sizeof(udp));
    memcpy(out + sizeof(eth) + sizeof(ip) + sizeof(udp), frame, sizeof(frame));
    return PACKET_TEXT + ntext;
}
