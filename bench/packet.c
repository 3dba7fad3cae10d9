/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/packet.h"

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
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

/* The sum of 16-bit words; an odd byte at the end counts with a zero. */
static uint32_t sum_of(const void *bytes, size_t n)
{
    uint32_t sum = 0;
    uint16_t word;

    for (size_t i = 0; i < n; i += 2) {
        word = 0;
        memcpy(&word, (const uint8_t *)bytes + i, n - i < 2 ? 1 : 2);
        sum += word;
    }
    return sum;
}

static uint16_t checksum_of(uint32_t sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t) ~((sum & 0xffff) + (sum >> 16));
}

static void put_ethernet(const struct packet_route *route, uint8_t *out)
{
    struct ethhdr eth = {.h_proto = htons(route->ipv6 ? ETH_P_IPV6 : ETH_P_IP)};

    memcpy(eth.h_dest, route->to_mac, sizeof(eth.h_dest));
    memcpy(eth.h_source, route->from_mac, sizeof(eth.h_source));
    memcpy(out, &eth, sizeof(eth));
}

/* Writes the IPv4 header before a datagram or segment of n bytes. */
static void put_ipv4(const struct packet_route *route, uint8_t protocol, uint8_t *out, size_t n)
{
    struct iphdr ip = {.version = 4,
                       .ihl = 5,
                       .ttl = 64,
                       .protocol = protocol,
                       .saddr = route->from.sin_addr.s_addr,
                       .daddr = route->to.sin_addr.s_addr};

    ip.tot_len = htons((uint16_t)(sizeof(ip) + n));
    ip.check = checksum_of(sum_of(&ip, sizeof(ip)));
    memcpy(out, &ip, sizeof(ip));
}

static void put_ipv6(const struct packet_route *route, uint8_t *out, size_t n)
{
    struct ipv6hdr ip = {.version = 6, .nexthdr = IPPROTO_UDP, .hop_limit = 64};

    ip.saddr.s6_addr[0] = ip.daddr.s6_addr[0] = 0xfd;
    memcpy(&ip.saddr.s6_addr[12], &route->from.sin_addr, 4);
    memcpy(&ip.daddr.s6_addr[12], &route->to.sin_addr, 4);
    ip.payload_len = htons((uint16_t)n);
    memcpy(out, &ip, sizeof(ip));
}

/* Puts the checksum into a datagram of n bytes, behind addresses of so many bytes. */
static void put_udp_checksum(uint8_t *udp, size_t n, size_t naddresses)
{
    uint32_t sum = sum_of(udp - naddresses, naddresses + n);
    uint16_t check = checksum_of(sum + htons((uint16_t)n) + htons(IPPROTO_UDP));

    check = check ? check : UINT16_MAX;
    memcpy(udp + offsetof(struct udphdr, check), &check, sizeof(check));
}

size_t packet_get(const struct packet_route *route, const struct items *items, uint32_t index,
                  uint8_t *out)
{
    return packet_close(route, items_get(items, index, (char *)out + packet_text(route)), out);
}

size_t packet_close(const struct packet_route *route, size_t ntext, uint8_t *out)
{
    uint16_t frame[4] = {htons(1), 0, htons(1), 0};
    struct udphdr udp = {.source = route->from.sin_port, .dest = route->to.sin_port};
    size_t n = sizeof(udp) + sizeof(frame) + ntext;
    uint8_t *text = out + packet_text(route);

    put_ethernet(route, out);
    udp.len = htons((uint16_t)n);
    memcpy(text - sizeof(frame) - sizeof(udp), &udp, sizeof(udp));
    memcpy(text - sizeof(frame), frame, sizeof(frame));
    if (route->ipv6)
        put_ipv6(route, out + ETH_HLEN, n);
    else
        put_ipv4(route, IPPROTO_UDP, out + ETH_HLEN, n);
    put_udp_checksum(text - sizeof(frame) - sizeof(udp), n, route->ipv6 ? 32 : 8);
    return packet_text(route) + ntext;
}

size_t packet_tcp(const struct packet_route *route, const struct packet_segment *segment,
                  uint8_t *out)
{
    const uint8_t stamps[4] = {1, 1, 8, 10}; /* no-op, no-op, timestamps, their length */
    size_t nheader = sizeof(struct tcphdr) + (segment->request ? 12 : 0);
    struct tcphdr tcp = {.source = route->from.sin_port,
                         .dest = route->to.sin_port,
                         .seq = htonl(segment->seq),
                         .ack_seq = htonl(segment->ack),
                         .doff = (uint16_t)(nheader / 4) & 15,
                         .syn = segment->syn,
                         .ack = !segment->syn,
                         .psh = segment->request,
                         .window = htons(UINT16_MAX)};
    size_t n = nheader + segment->ntext;
    uint8_t *ip = out + ETH_HLEN, *at = ip + sizeof(struct iphdr);
    uint32_t tsval = htonl(segment->tsval);

    put_ethernet(route, out);
    put_ipv4(route, IPPROTO_TCP, ip, n);
    if (segment->request) {
        memcpy(at + sizeof(tcp), stamps, sizeof(stamps));
        memcpy(at + sizeof(tcp) + 4, &tsval, sizeof(tsval));
        memset(at + sizeof(tcp) + 8, 0, 4);
    } else {
        memset(at + nheader, 'x', segment->ntext);
    }
    memcpy(at, &tcp, sizeof(tcp));
    tcp.check = checksum_of(sum_of(ip + offsetof(struct iphdr, saddr), 8) + sum_of(at, n) +
                            htons(IPPROTO_TCP) + htons((uint16_t)n));
    memcpy(at, &tcp, sizeof(tcp));
    return (size_t)(at - out) + n;
}
