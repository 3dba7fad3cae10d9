/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/bpf/lab.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "iface/local.h"
#include "t/lib/hash.h"
#include "t/lib/sum.h"
#include "t/lib/tap.h"

enum { REF_SHIFT = 3, OVERFLOW_AT = MC_TABLE_BYTES };

const struct chain_settings lab_chain = {
    .entries = 1024,
    .nmedium = 256,
    .nlarge = 64,
    .nasks = 256,
    .key_max = CHAIN_KEY_MAX,
    .value_max = CHAIN_VALUE_MAX,
    .max_age = 250,
    .nconnections = 64,
    .settle = 1000000000u,
    .ask = CHAIN_ASK_NS,
};

static void *reserve(size_t n)
{
    void *at = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED)
        skip_all("no address space");
    return at;
}

void lab_own(struct mc_control *control)
{
    struct mc_local local = {.n4 = 1,
                             .n6 = 1,
                             .nvlans = 2,
                             .v4 = {htonl(LAB_SERVER)},
                             .vlans = {LAB_VLAN, LAB_VLAN << 16 | LAB_VLAN_OUTER | MC_VLAN_AD}};

    local.v6[0][0] = 0xfd;
    local.v6[0][1] = (uint64_t)htonl(LAB_SERVER) << 32;
    local_publish(control, &local);
}

void lab_open(struct lab *lab, uint32_t nbuckets)
{
    lab_open_guarded(lab, nbuckets, &(struct loader_guard){0}, 0);
}

void lab_open_guarded(struct lab *lab, uint32_t nbuckets, const struct loader_guard *guard,
                      unsigned int extras)
{
    char error[512];
    struct timespec now;
    struct mc_control *control;
    uint32_t i;

    memset(lab, 0, sizeof(*lab));
    lab->loader = loader_open_guarded(guard, extras, error, sizeof(error));
    if (!lab->loader || loader_wait(lab->loader, error, sizeof(error)))
        skip_all(error);
    lab->heap = reserve(MC_EXTENT_BYTES);
    lab->buckets =
        reserve(((size_t)nbuckets * 64 + MC_TABLE_BYTES - 1) / MC_TABLE_BYTES * MC_TABLE_BYTES);
    lab->overflow = reserve(MC_TABLE_BYTES);
    if (loader_map_extent(lab->loader, 0, lab->heap) ||
        loader_map_table(lab->loader, MC_OVERFLOW_TABLE, lab->overflow))
        skip_all("cannot map memory");
    for (i = 0; i * MC_TABLE_BUCKETS < nbuckets; i++)
        if (loader_map_table(lab->loader, i, lab->buckets + (size_t)i * MC_TABLE_BUCKETS))
            skip_all("cannot map memory");
    control = lab->control = loader_control(lab->loader);
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    control->base_ns = ((uint64_t)now.tv_sec - 100) * 1000000000u + (uint64_t)now.tv_nsec;
    control->nbuckets = nbuckets;
    control->epoch = 7;
    control->ref_shift = REF_SHIFT;
    control->port = htons(LAB_PORT);
    lab_own(control);
    if (getrandom(control->seed, sizeof(control->seed), 0) < 0)
        skip_all("no random numbers");
    lab_clear(lab);
}

void lab_clear(struct lab *lab)
{
    uint32_t i;

    memset(lab->overflow, 0, MC_TABLE_BYTES);
    for (i = 0; i < lab->control->nbuckets; i++)
        lab->buckets[i] = (struct mc_bucket){.mask = lab->control->nbuckets - 1};
    lab->next_byte = 64;
    lab->next_overflow = 1;
}

void lab_close(struct lab *lab)
{
    loader_close(lab->loader);
}

uint64_t lab_hash(const struct lab *lab, const char *key, size_t nkey)
{
    return hash_of(lab->control->seed, key, nkey);
}

struct mc_bucket *lab_bucket(struct lab *lab, uint64_t hash)
{
    return &lab->buckets[mc_bucket_of(hash, lab->control->nbuckets)];
}

void lab_sum(struct mc_item *item)
{
    unsigned int sum = sum_of(item);

    item->wire[item->nbytes] = (char)sum;
    item->wire[item->nbytes + 1] = (char)(sum >> 8);
    item->flags |= MC_ITEM_SUMMED;
}

struct mc_item *lab_lay(struct lab *lab, uint64_t at, const char *key, size_t nkey,
                        const void *value, size_t nvalue)
{
    struct mc_item *item = (struct mc_item *)(void *)(lab->heap + at);
    char suffix[32];
    int nsuffix = snprintf(suffix, sizeof(suffix), " 0 %zu\r\n", nvalue);

    memset(item, 0, MC_ITEM_HEADER);
    item->flags = MC_ITEM_LINKED;
    item->refcount = 1;
    item->clsid = 5;
    item->nkey = (uint8_t)nkey;
    item->nsuffix = (uint8_t)nsuffix;
    item->epoch = (uint8_t)lab->control->epoch;
    item->nbytes = (uint32_t)(nkey + (size_t)nsuffix + nvalue + 2);
    memcpy((char *)item + MC_ITEM_HEADER, key, nkey);
    memcpy((char *)item + MC_ITEM_HEADER + nkey, suffix, (size_t)nsuffix);
    memcpy((char *)item + MC_ITEM_HEADER + nkey + nsuffix, value, nvalue);
    memcpy((char *)item + MC_ITEM_HEADER + nkey + nsuffix + nvalue, "\r\n", 2);
    if (lab->sums)
        lab_sum(item);
    return item;
}

static bool bucket_put(struct mc_bucket *bucket, uint8_t tag, uint32_t ref)
{
    unsigned int i;

    for (i = 0; i < MC_SLOTS; i++) {
        if (bucket->tags >> 8 * i & 0xff)
            continue;
        bucket->refs[i] = ref;
        bucket->tags |= (uint64_t)tag << 8 * i;
        return true;
    }
    return false;
}

void lab_link(struct lab *lab, uint64_t hash, uint64_t at)
{
    struct mc_bucket *bucket = lab_bucket(lab, hash);

    bucket->swept = lab->control->epoch;
    while (!bucket_put(bucket, mc_hash_tag(hash), (uint32_t)(at >> REF_SHIFT))) {
        if (!bucket->next)
            bucket->next = lab->next_overflow++;
        bucket = &lab->overflow[bucket->next];
    }
}

struct mc_item *lab_put(struct lab *lab, const char *key, size_t nkey, const void *value,
                        size_t nvalue)
{
    size_t size = (MC_ITEM_HEADER + nkey + nvalue + 34 + 7) & ~(size_t)7;
    struct mc_item *item;

    if (lab->next_byte % MC_PAGE_BYTES + size > MC_PAGE_BYTES)
        lab->next_byte = (lab->next_byte / MC_PAGE_BYTES + 1) * MC_PAGE_BYTES;
    if (lab->next_byte + size > MC_EXTENT_BYTES)
        abort();
    item = lab_lay(lab, lab->next_byte, key, nkey, value, nvalue);
    lab_link(lab, lab_hash(lab, key, nkey), lab->next_byte);
    lab->next_byte += size;
    return item;
}

static void put16(uint8_t *at, unsigned int value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value & 0xffff);
}

static unsigned int ip_sum(const uint8_t *header)
{
    uint32_t sum = 0;
    unsigned int i;

    for (i = 0; i < 20; i += 2)
        sum += (uint32_t)header[i] << 8 | header[i + 1];
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

/* The sum of n bytes in words of network order, the last one padded. */
static uint32_t words_sum(const uint8_t *bytes, size_t n)
{
    uint32_t sum = 0;
    size_t i;

    for (i = 0; i < n; i++)
        sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
    return sum;
}

static unsigned int folded(uint32_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

/* Where a frame's IP header begins, by its first bytes; 0: it is not IP. */
static size_t frame_ip(const struct frame *frame)
{
    const uint8_t *b = frame->bytes;
    size_t at = 12;

    while (at < 20 && ((b[at] == 0x81 && !b[at + 1]) || (b[at] == 0x88 && b[at + 1] == 0xa8)))
        at += 4;
    if (b[at] == 0x08 && !b[at + 1] && b[at + 2] == 0x45)
        return at + 2;
    return b[at] == 0x86 && b[at + 1] == 0xdd && b[at + 2] == 0x60 ? at + 2 : 0;
}

bool frame_sum(struct frame *frame, enum frame_sum kind)
{
    size_t at = frame_ip(frame), v6 = frame->bytes[at] == 0x60, nudp;
    uint8_t *ip = frame->bytes + at, *udp = ip + (v6 ? 40 : 20);
    uint32_t sum;

    if (!at || (size_t)(udp - frame->bytes) + 8 > frame->n)
        return false;
    nudp = (size_t)udp[4] << 8 | udp[5];
    if (nudp < 8 || (size_t)(udp - frame->bytes) + nudp > frame->n)
        return false;
    sum = 17 + (uint32_t)nudp + (v6 ? words_sum(ip + 8, 32) : words_sum(ip + 12, 8));
    if (kind == FRAME_SUM_WHOLE) {
        put16(udp + 6, 0);
        sum = ~folded(sum + words_sum(udp, nudp)) & 0xffff;
        sum = sum ? sum : 0xffff;
    }
    put16(udp + 6, kind == FRAME_SUM_NONE ? 0 : folded(sum));
    return true;
}

/* Whether there is a UDP checksum; IPv6 always has one. */
static bool frame_has_sum(const struct frame *frame)
{
    size_t at = frame_ip(frame);
    const uint8_t *udp = frame->bytes + at + 20;

    return at && (frame->bytes[at] == 0x60 || udp[6] || udp[7]);
}

void frame_seal(struct frame *frame)
{
    uint8_t *b = frame->bytes;

    put16(b + 16, (unsigned int)frame->n - 14);
    put16(b + 38, (unsigned int)frame->n - 34);
    put16(b + 24, 0);
    put16(b + 24, ip_sum(b + 14));
    if (frame_has_sum(frame))
        frame_sum(frame, FRAME_SUM_WHOLE);
}

void frame_request(struct frame *frame, const char *text, size_t ntext)
{
    static const uint8_t start[LAB_FRAME] = {
        0,    0,    0, 0, 0,    0,    2,    0, 0,  0,  0, 2, 8, 0,             /* Ethernet, to lo */
        0x45, 0,    0, 0, 0xbe, 0xef, 0x40, 0, 57, 17, 0, 0,                   /* IP */
        0,    0,    0, 0, 0,    0,    0,    0, 0,  0,  0, 0, 0, 0, 0xca, 0xfe, /* UDP */
        0x12, 0x34, 0, 0, 0,    1,    0,    0};
    uint8_t *b = frame->bytes;

    memcpy(b, start, sizeof(start));
    put32(b + 26, LAB_CLIENT);
    put32(b + 30, LAB_SERVER);
    put16(b + 34, LAB_CLIENT_PORT);
    put16(b + 36, LAB_PORT);
    memcpy(b + LAB_FRAME, text, ntext);
    frame->n = LAB_FRAME + ntext;
    frame_seal(frame);
}

void frame_answer(struct frame *frame, const struct frame *request, const char *text, size_t ntext)
{
    const uint8_t *q = request->bytes;
    uint8_t *b = frame->bytes;

    memset(b, 0, LAB_FRAME);
    memcpy(b, q + 6, 6);
    memcpy(b + 6, q, 6);
    put16(b + 12, 0x0800);
    put16(b + 14, 0x4500);
    put16(b + 20, 0x4000);
    put16(b + 22, 0x4011);
    memcpy(b + 26, q + 30, 4);
    memcpy(b + 30, q + 26, 4);
    memcpy(b + 34, q + 36, 2);
    memcpy(b + 36, q + 34, 2);
    memcpy(b + 42, q + 42, 2);
    put16(b + 46, 1);
    memcpy(b + LAB_FRAME, text, ntext);
    frame->n = LAB_FRAME + ntext;
    frame_seal(frame);
    frame_sum(frame, FRAME_SUM_WHOLE);
}

static void make_v6(struct frame *frame)
{
    uint8_t *b = frame->bytes, ip[40] = {0x60, [6] = 17};

    put16(ip + 4, ((unsigned int)b[16] << 8 | b[17]) - 20);
    ip[7] = b[22];
    ip[8] = ip[24] = 0xfd;
    memcpy(ip + 20, b + 26, 4);
    memcpy(ip + 36, b + 30, 4);
    memmove(b + 54, b + 34, frame->n - 34);
    memcpy(b + 14, ip, sizeof(ip));
    put16(b + 12, 0x86dd);
    frame->n += 20;
    frame_sum(frame, FRAME_SUM_WHOLE);
}

void frame_shape(struct frame *frame, const struct shape *shape)
{
    unsigned int n = 4 * shape->ntags;
    uint8_t *b = frame->bytes;

    if (shape->v6)
        make_v6(frame);
    memmove(b + 12 + n, b + 12, frame->n - 12);
    frame->n += n;
    if (shape->ntags) { /* with a priority */
        put16(b + 8 + n, 0x8100);
        put16(b + 10 + n, 0x6000 | LAB_VLAN);
    }
    if (shape->ntags == 2) {
        put16(b + 12, 0x88a8);
        put16(b + 14, LAB_VLAN_OUTER);
    }
}

bool frame_equal(const struct frame *a, const struct frame *b)
{
    return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

void frame_dump(const char *what, const struct frame *frame)
{
    char line[3 * 16 + 1];
    size_t i, n = frame->n < 160 ? frame->n : 160;

    diag("%s: %zu bytes", what, frame->n);
    for (i = 0; i < n; i++) {
        snprintf(line + i % 16 * 3, 4, "%02x ", frame->bytes[i]);
        if (i % 16 == 15 || i + 1 == n)
            diag("  %04zx %s", i / 16 * 16, line);
    }
}

uint32_t lab_run(struct lab *lab, enum loader_program program, const struct frame *in,
                 struct frame *out)
{
    struct loader_packet packet = {.in = in->bytes,
                                   .nin = in->n,
                                   .out = out->bytes,
                                   .nout = sizeof(out->bytes),
                                   .ifindex = lab->ifindex};
    int rc = loader_run(lab->loader, program, &packet);

    if (rc)
        diag("the run failed: %d", rc);
    out->n = packet.nout;
    /* Metadata comes before the frame. */
    if (packet.nmark && packet.nmark < out->n) {
        out->n -= packet.nmark;
        memmove(out->bytes, out->bytes + packet.nmark, out->n);
    }
    return rc ? UINT32_MAX : packet.verdict;
}

/* The padding behind the IP packet: zeros, or the request's; not more than the request had. */
static bool padding_is_clean(const struct frame *out, const struct frame *request, size_t npacket)
{
    size_t i;

    for (i = npacket; i < out->n; i++)
        if (out->bytes[i] && (i >= request->n || out->bytes[i] != request->bytes[i]))
            return false;
    return out->n == npacket || out->n <= (request->n < 60 ? 60 : request->n);
}

bool frame_answers(const struct frame *out, const struct frame *request, const struct frame *want)
{
    return out->n >= want->n && memcmp(out->bytes, want->bytes, want->n) == 0 &&
           padding_is_clean(out, request, want->n);
}

/* The request in the form in which a program gets it. */
static void lab_send(const struct lab *lab, const struct frame *request, struct frame *in)
{
    *in = *request;
    frame_shape(in, &lab->shape);
    if (!lab->as_it_is && frame_has_sum(in))
        frame_sum(in, FRAME_SUM_WHOLE);
}

bool lab_answers(struct lab *lab, enum loader_program program, const struct frame *request,
                 const char *text, size_t ntext)
{
    static struct frame out, want, in;
    uint32_t verdict;

    lab_send(lab, request, &in);
    verdict = lab_run(lab, program, &in, &out);
    frame_answer(&want, request, text, ntext);
    frame_shape(&want, &lab->shape);
    if (verdict == (program == LOADER_XDP ? 3u : 7u) && frame_answers(&out, &in, &want))
        return true;
    diag("verdict %u", verdict);
    frame_dump("request", &in);
    frame_dump("got", &out);
    frame_dump("wanted", &want);
    return false;
}

bool lab_passes(struct lab *lab, enum loader_program program, const struct frame *request,
                enum mc_count reason)
{
    static struct frame out, in;
    struct mc_counts before, after;
    uint32_t verdict;
    size_t i;
    bool right = true;

    lab_send(lab, request, &in);
    loader_counts(lab->loader, &before);
    verdict = lab_run(lab, program, &in, &out);
    loader_counts(lab->loader, &after);
    if (verdict != (program == LOADER_XDP ? 2u : UINT32_MAX) || !frame_equal(&out, &in)) {
        diag("verdict %u", verdict);
        frame_dump("request", &in);
        frame_dump("got", &out);
        return false;
    }
    if (reason == LAB_UNCOUNTED)
        return memcmp(&before, &after, sizeof(before)) == 0;
    before.count[MC_COUNT_SEEN]++;
    before.count[reason]++;
    for (i = 0; i < MC_COUNTS; i++) {
        if (before.count[i] != after.count[i])
            diag("count %zu: %llu, wanted %llu", i, after.count[i], before.count[i]);
        right &= before.count[i] == after.count[i];
    }
    return right;
}

bool lab_takes(struct lab *lab, enum loader_program program, const struct frame *request)
{
    const size_t by = program == LOADER_XDP ? MC_COUNT_ANSWERED_XDP : MC_COUNT_ANSWERED_TC;
    static struct frame out, in;
    struct mc_counts before, after;
    uint32_t verdict;

    lab_send(lab, request, &in);
    loader_counts(lab->loader, &before);
    verdict = lab_run(lab, program, &in, &out);
    loader_counts(lab->loader, &after);
    before.count[MC_COUNT_SEEN]++;
    before.count[MC_COUNT_KEYS]++;
    before.count[MC_COUNT_MISSES]++;
    before.count[MC_COUNT_BYTES_READ] = after.count[MC_COUNT_BYTES_READ];
    before.count[by]++;
    return verdict == (program == LOADER_XDP ? 1u : 2u) &&
           memcmp(&before, &after, sizeof(before)) == 0;
}

double lab_time(struct lab *lab, enum loader_program program, const struct frame *in,
                unsigned int runs)
{
    struct frame out;
    struct loader_packet packet;
    double best = 1e9, sum;
    unsigned int i, round;

    for (round = 0; round < 7; round++) {
        sum = 0;
        for (i = 0; i < runs; i++) {
            packet = (struct loader_packet){
                .in = in->bytes, .nin = in->n, .out = out.bytes, .nout = sizeof(out.bytes)};
            if (loader_run(lab->loader, program, &packet))
                return -1;
            sum += packet.ns;
        }
        if (sum / runs < best)
            best = sum / runs;
    }
    return best;
}

/* The counts since `before`. */
static struct counted counted_since(struct lab *lab, enum loader_program program, uint8_t clsid,
                                    const struct mc_counts *before)
{
    struct mc_counts after;

    loader_counts(lab->loader, &after);
#define GROWN(name) (after.count[MC_COUNT_##name] - before->count[MC_COUNT_##name])
    return (struct counted){
        .seen = GROWN(SEEN),
        .answered = program == LOADER_XDP ? GROWN(ANSWERED_XDP) : GROWN(ANSWERED_TC),
        .keys = GROWN(KEYS),
        .hits = GROWN(HITS),
        .misses = GROWN(MISSES),
        .class_hits = after.class_hits[clsid] - before->class_hits[clsid],
        .read = GROWN(BYTES_READ),
        .written = GROWN(BYTES_WRITTEN),
    };
#undef GROWN
}

bool lab_counts(struct lab *lab, enum loader_program program, const struct frame *requests,
                size_t nrequests, const struct counted *want)
{
    enum { CLASS = 9, SEGMENT = 2 };
    struct mc_counts before;
    struct counted counted;
    struct frame out;
    size_t i;

    lab_clear(lab);
    lab_put(lab, "hit", 3, "v", 1)->clsid = CLASS | SEGMENT << 6;
    loader_counts(lab->loader, &before);
    for (i = 0; i < nrequests; i++)
        lab_run(lab, program, &requests[i], &out);
    counted = counted_since(lab, program, CLASS, &before);
    if (memcmp(&counted, want, sizeof(counted)) == 0)
        return true;
    diag("seen %" PRIu64 ", answered %" PRIu64 ", keys %" PRIu64 ", hits %" PRIu64
         ", misses %" PRIu64 ", of the class %" PRIu64 ", read %" PRIu64 ", written %" PRIu64,
         counted.seen, counted.answered, counted.keys, counted.hits, counted.misses,
         counted.class_hits, counted.read, counted.written);
    return false;
}

int lab_socket(uint16_t port)
{
    const struct timeval patience = {.tv_sec = 2};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (fd < 0 || bind(fd, (struct sockaddr *)(void *)&at, sizeof(at)) != 0)
        skip_all("no socket");
    return fd;
}
