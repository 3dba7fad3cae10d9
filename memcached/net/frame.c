/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/frame.h"

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <string.h>

#include "base/sum.h"

enum {
    IP_TTL_SENT = 64,
    IP_FRAGMENT = 0x3fff, /* more of them, or an offset */
    IP_DONT_FRAGMENT = 0x4000,
    NADDRESSES4 = 8, /* bytes of both */
    NADDRESSES6 = 32,
};

/* --- checksums ------------------------------------------------------------ */

/* The sum of addresses, protocol and length. */
static uint64_t pseudo_sum(const char *addresses, size_t naddresses, uint16_t nudp)
{
    return (uint64_t)htons(IPPROTO_UDP) + nudp + sum_of(addresses, naddresses);
}

/* --- receiving --------------------------------------------------------------- */

static size_t ip_size(bool v6)
{
    return v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
}

static const char *ip_of(const struct frame *frame)
{
    return frame->bytes + ETH_HLEN;
}

static const char *addresses_of(const struct frame *frame)
{
    return ip_of(frame) +
           (frame->v6 ? offsetof(struct ipv6hdr, saddr) : offsetof(struct iphdr, saddr));
}

static struct udphdr udp_of(const struct frame *frame)
{
    struct udphdr udp;

    memcpy(&udp, ip_of(frame) + ip_size(frame->v6), sizeof(udp));
    return udp;
}

/* Whether n bytes hold an IP header without options, of a whole packet of UDP. *nudp: its rest. */
static bool check_ip4(const char *bytes, size_t n, size_t *nudp)
{
    struct iphdr ip;

    memcpy(&ip, bytes, sizeof(ip));
    *nudp = (size_t)ntohs(ip.tot_len) - sizeof(ip);
    return ip.version == 4 && ip.ihl == 5 && ip.protocol == IPPROTO_UDP &&
           !(ip.frag_off & htons(IP_FRAGMENT)) && ntohs(ip.tot_len) >= sizeof(ip) &&
           ntohs(ip.tot_len) <= n && sum_of(&ip, sizeof(ip)) == UINT16_MAX;
}

static bool check_ip6(const char *bytes, size_t n, size_t *nudp)
{
    struct ipv6hdr ip;

    memcpy(&ip, bytes, sizeof(ip));
    *nudp = ntohs(ip.payload_len);
    return ip.version == 6 && ip.nexthdr == IPPROTO_UDP && *nudp + sizeof(ip) <= n;
}

static bool check_udp(const struct frame *frame, size_t nudp)
{
    const size_t naddresses = frame->v6 ? NADDRESSES6 : NADDRESSES4;
    struct udphdr udp;
    uint64_t begun;

    if (nudp < sizeof(udp))
        return false;
    udp = udp_of(frame);
    if (ntohs(udp.len) != nudp)
        return false;
    if (!udp.check)
        return !frame->v6;
    begun = pseudo_sum(addresses_of(frame), naddresses, udp.len);
    return udp.check == sum_fold(begun) ||
           sum_fold(begun + sum_of(ip_of(frame) + ip_size(frame->v6), nudp)) == UINT16_MAX;
}

bool frame_parse(struct slice bytes, struct frame *out)
{
    struct ethhdr ethernet;
    size_t nudp;

    if (bytes.len < sizeof(ethernet))
        return false;
    memcpy(&ethernet, bytes.ptr, sizeof(ethernet));
    *out = (struct frame){.bytes = bytes.ptr, .v6 = ethernet.h_proto == htons(ETH_P_IPV6)};
    if (!out->v6 && ethernet.h_proto != htons(ETH_P_IP))
        return false;
    bytes.len -= sizeof(ethernet);
    if (bytes.len < ip_size(out->v6))
        return false;
    if (out->v6 ? !check_ip6(ip_of(out), bytes.len, &nudp)
                : !check_ip4(ip_of(out), bytes.len, &nudp))
        return false;
    if (!check_udp(out, nudp))
        return false;
    out->payload = (struct slice){ip_of(out) + ip_size(out->v6) + sizeof(struct udphdr),
                                  nudp - sizeof(struct udphdr)};
    return true;
}

socklen_t frame_source(const struct frame *frame, struct sockaddr_storage *out)
{
    const uint16_t port = udp_of(frame).source;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
    struct sockaddr_in *four = (struct sockaddr_in *)out;

    if (frame->v6) {
        *six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port};
        memcpy(&six->sin6_addr, addresses_of(frame), sizeof(six->sin6_addr));
        return sizeof(*six);
    }
    *four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
    memcpy(&four->sin_addr, addresses_of(frame), sizeof(four->sin_addr));
    return sizeof(*four);
}

size_t frame_control(const struct frame *frame, struct datagrams_control *out)
{
    const char *own = addresses_of(frame) + (frame->v6 ? NADDRESSES6 : NADDRESSES4) / 2;
    struct cmsghdr head = {.cmsg_level = frame->v6 ? IPPROTO_IPV6 : IPPROTO_IP,
                           .cmsg_type = frame->v6 ? IPV6_PKTINFO : IP_PKTINFO};
    struct in6_pktinfo six = {.ipi6_ifindex = 0};
    struct in_pktinfo four = {.ipi_ifindex = 0};
    const size_t n = frame->v6 ? sizeof(six) : sizeof(four);

    memcpy(&six.ipi6_addr, own, frame->v6 ? sizeof(six.ipi6_addr) : 0);
    memcpy(&four.ipi_spec_dst, own, sizeof(four.ipi_spec_dst));
    head.cmsg_len = CMSG_LEN(n);
    memcpy(out->bytes, &head, sizeof(head));
    memcpy(out->bytes + CMSG_LEN(0), frame->v6 ? (const void *)&six : (const void *)&four, n);
    return CMSG_SPACE(n);
}

bool frame_is_to(const struct frame *frame, const struct socket_name *name)
{
    const char *own = addresses_of(frame) + (frame->v6 ? NADDRESSES6 : NADDRESSES4) / 2;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&name->address;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&name->address;

    if (name->address.ss_family != (frame->v6 ? AF_INET6 : AF_INET) ||
        htons(socket_port(name)) != udp_of(frame).dest)
        return false;
    return socket_is_any(name) ||
           (frame->v6 ? memcmp(own, &six->sin6_addr, sizeof(six->sin6_addr)) == 0
                      : memcmp(own, &four->sin_addr, sizeof(four->sin_addr)) == 0);
}

/* --- replying ------------------------------------------------------------------ */

size_t frame_headers(const struct frame *request)
{
    return ETH_HLEN + ip_size(request->v6) + sizeof(struct udphdr);
}

/* Both write the IP header of a reply before n bytes. */
static void put_ip4(char *out, const char *request, size_t n)
{
    struct iphdr from, ip;

    memcpy(&from, request, sizeof(from));
    ip = (struct iphdr){.version = 4,
                        .ihl = 5,
                        .tot_len = htons((uint16_t)(sizeof(ip) + n)),
                        .frag_off = htons(IP_DONT_FRAGMENT),
                        .ttl = IP_TTL_SENT,
                        .protocol = IPPROTO_UDP,
                        .saddr = from.daddr,
                        .daddr = from.saddr};
    ip.check = (uint16_t)~sum_of(&ip, sizeof(ip));
    memcpy(out, &ip, sizeof(ip));
}

static void put_ip6(char *out, const char *request, size_t n)
{
    struct ipv6hdr from, ip;

    memcpy(&from, request, sizeof(from));
    ip = (struct ipv6hdr){.version = 6,
                          .payload_len = htons((uint16_t)n),
                          .nexthdr = IPPROTO_UDP,
                          .hop_limit = IP_TTL_SENT,
                          .saddr = from.daddr,
                          .daddr = from.saddr};
    memcpy(out, &ip, sizeof(ip));
}

void frame_reply(char *out, const struct frame *request, size_t n)
{
    const struct udphdr from = udp_of(request);
    struct udphdr udp = {
        .source = from.dest, .dest = from.source, .len = htons((uint16_t)(sizeof(udp) + n))};
    char *ip = out + ETH_HLEN, *behind = ip + ip_size(request->v6);
    uint64_t sum;

    memcpy(out, request->bytes + ETH_ALEN, ETH_ALEN);
    memcpy(out + ETH_ALEN, request->bytes, ETH_ALEN);
    memcpy(out + 2 * ETH_ALEN, request->bytes + 2 * ETH_ALEN, ETH_HLEN - 2 * ETH_ALEN);
    if (request->v6)
        put_ip6(ip, ip_of(request), sizeof(udp) + n);
    else
        put_ip4(ip, ip_of(request), sizeof(udp) + n);
    /* The sum of the addresses does not depend on their order. */
    sum = pseudo_sum(addresses_of(request), request->v6 ? NADDRESSES6 : NADDRESSES4, udp.len);
    sum += sum_of(&udp, sizeof(udp)) + (uint64_t)sum_of(behind + sizeof(udp), n);
    udp.check = (uint16_t)~sum_fold(sum);
    if (!udp.check)
        udp.check = UINT16_MAX;
    memcpy(behind, &udp, sizeof(udp));
}
