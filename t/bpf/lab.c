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
#include "t/bpf/wire.h"
#include "t/lib/hash.h"
#include "t/lib/sum.h"
#include "t/lib/tap.h"

enum { REF_SHIFT = 3, OVERFLOW_AT = MC_TABLE_BYTES };

const struct chain_settings lab_chain = {
    .entries = 1024,
    .nmedium = 256,
    .nlarge = 64,
    .noutstanding = 256,
    .key_max = CHAIN_KEY_MAX,
    .value_max = CHAIN_VALUE_MAX,
    .max_age = 250,
    .nconnections = 64,
    .settle = 1000000000u,
    .outstanding = CHAIN_OUTSTANDING_NS,
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
    for (uint32_t i = 0; i * MC_TABLE_BUCKETS < nbuckets; i++)
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
    memset(lab->overflow, 0, MC_TABLE_BYTES);
    for (uint32_t i = 0; i < lab->control->nbuckets; i++)
        lab->buckets[i] = (struct mc_bucket){.mask = lab->control->nbuckets - 1};
    lab->next_byte = 64;
    lab->next_overflow = 1;
}

void lab_only(struct lab *lab, const char *key, const char *value)
{
    lab_clear(lab);
    lab->item = lab_put(lab, key, strlen(key), value, strlen(value));
    lab->bucket = lab_bucket(lab, lab_hash(lab, key, strlen(key)));
}

uint32_t lab_second(const struct lab *lab)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint32_t)(((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec -
                       lab->control->base_ns) /
                      1000000000u);
}

void lab_use(struct lab *lab, enum loader_program program)
{
    lab->program = program;
    tap_under(program == LOADER_XDP ? "XDP: " : "TC: ");
    if (program == LOADER_TC)
        loader_set_tc(lab->loader, true, true);
}

void lab_close(struct lab *lab)
{
    tap_under("%s", "");
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
    for (unsigned int i = 0; i < MC_SLOTS; i++) {
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

/* Where a frame's IP header begins, by its first bytes; 0: it is not IP. */
static size_t frame_ip(const struct frame *frame)
{
    const uint8_t *b = frame->bytes;
    size_t at = 12;

    while (at < 20 && ((b[at] == 0x81 && !b[at + 1]) || (b[at] == 0x88 && b[at + 1] == 0xa8)))
        at += 4;
    if (b[at] == 0x08 && !b[at + 1] && b[at + 2] == 0x45)
        return at + 2;
    return b[at] == 0x86 && b[at + 1] == 0xdd && b[at + 2] >> 4 == 6 ? at + 2 : 0;
}

/* Makes the checksum of an IPv4 header right, if it has one. */
static void frame_ip_sum(struct frame *frame)
{
    size_t at = frame_ip(frame);

    if (!at || frame->bytes[at] != 0x45)
        return;
    put16(frame->bytes + at + 10, 0);
    put16(frame->bytes + at + 10, ~folded(words_sum(frame->bytes + at, 20)) & 0xffff);
}

bool frame_sum(struct frame *frame, enum frame_sum kind)
{
    size_t at = frame_ip(frame), v6 = frame->bytes[at] >> 4 == 6, nudp;
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

    return at && (frame->bytes[at] >> 4 == 6 || udp[6] || udp[7]);
}

void frame_seal(struct frame *frame)
{
    uint8_t *b = frame->bytes;

    put16(b + 16, (unsigned int)frame->n - 14);
    put16(b + 38, (unsigned int)frame->n - 34);
    frame_ip_sum(frame);
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
    frame->shaped = false;
    frame_seal(frame);
}

void frame_answer(struct frame *frame, const struct frame *request, const char *text, size_t ntext)
{
    const uint8_t *q = request->bytes;
    const size_t at = frame_ip(request), v6 = q[at] >> 4 == 6, udp = at + (v6 ? 40 : 20);
    const unsigned int n = (unsigned int)(8 + MC_UDP_HEADER + ntext);
    uint8_t *b = frame->bytes;

    memset(b, 0, udp + 8 + MC_UDP_HEADER);
    memcpy(b, q + 6, 6);
    memcpy(b + 6, q, 6);
    memcpy(b + 12, q + 12, at - 12);
    if (v6) {
        memcpy(b + at, (uint8_t[]){0x60, 0, 0, 0, (uint8_t)(n >> 8), (uint8_t)n, 17, 64}, 8);
        memcpy(b + at + 8, q + at + 24, 16);
        memcpy(b + at + 24, q + at + 8, 16);
    } else {
        memcpy(b + at, (uint8_t[]){0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17}, 10);
        put16(b + at + 2, n + 20);
        memcpy(b + at + 12, q + at + 16, 4);
        memcpy(b + at + 16, q + at + 12, 4);
    }
    memcpy(b + udp, q + udp + 2, 2);
    memcpy(b + udp + 2, q + udp, 2);
    put16(b + udp + 4, n);
    memcpy(b + udp + 8, q + udp + 8, 2);
    put16(b + udp + 12, 1);
    memcpy(b + udp + 8 + MC_UDP_HEADER, text, ntext);
    frame->n = udp + n;
    frame->shaped = request->shaped;
    frame_ip_sum(frame);
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

    frame->shaped = true;
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
    for (size_t i = npacket; i < out->n; i++)
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
    if (!in->shaped)
        frame_shape(in, &lab->shape);
    if (!lab->as_it_is && frame_has_sum(in))
        frame_sum(in, FRAME_SUM_WHOLE);
}

/* By XDP_TX, or TC_ACT_REDIRECT. */
static bool answered(const struct lab *lab, uint32_t verdict)
{
    return verdict == (lab->program == LOADER_XDP ? 3u : 7u);
}

/* By XDP_PASS, or TC_ACT_UNSPEC. */
static bool left(const struct lab *lab, uint32_t verdict)
{
    return verdict == (lab->program == LOADER_XDP ? 2u : UINT32_MAX);
}

bool lab_is_answered(struct lab *lab, const struct frame *frame)
{
    static struct frame out;

    return answered(lab, lab_run(lab, lab->program, frame, &out));
}

bool lab_is_left(struct lab *lab, const struct frame *frame)
{
    static struct frame out;

    return left(lab, lab_run(lab, lab->program, frame, &out)) && frame_equal(&out, frame);
}

bool lab_answers(struct lab *lab, const struct frame *request, const char *text, size_t ntext)
{
    static struct frame out, want, in;
    uint32_t verdict;

    lab_send(lab, request, &in);
    verdict = lab_run(lab, lab->program, &in, &out);
    frame_answer(&want, &in, text, ntext);
    if (answered(lab, verdict) && frame_answers(&out, &in, &want))
        return true;
    diag("verdict %u", verdict);
    frame_dump("request", &in);
    frame_dump("got", &out);
    frame_dump("wanted", &want);
    return false;
}

/* Whether the counts have grown as `want` says. */
static bool counts_are(struct lab *lab, const struct mc_counts *want)
{
    struct mc_counts after;
    bool right = true;

    loader_counts(lab->loader, &after);
    for (size_t i = 0; i < MC_COUNTS; i++) {
        if (want->count[i] != after.count[i])
            diag("count %zu: %llu, wanted %llu", i, after.count[i], want->count[i]);
        right &= want->count[i] == after.count[i];
    }
    return right && memcmp(want->class_hits, after.class_hits, sizeof(after.class_hits)) == 0;
}

bool lab_passes(struct lab *lab, const struct frame *request, enum mc_count reason)
{
    static struct frame out, in;
    struct mc_counts counts;
    uint32_t verdict;

    lab_send(lab, request, &in);
    loader_counts(lab->loader, &counts);
    verdict = lab_run(lab, lab->program, &in, &out);
    if (!left(lab, verdict) || !frame_equal(&out, &in)) {
        diag("verdict %u", verdict);
        frame_dump("request", &in);
        frame_dump("got", &out);
        return false;
    }
    if (reason != LAB_UNCOUNTED) {
        counts.count[MC_COUNT_SEEN]++;
        counts.count[reason]++;
    }
    return counts_are(lab, &counts);
}

bool lab_takes(struct lab *lab, const struct frame *request)
{
    static struct frame out, in;
    struct mc_counts counts;
    uint32_t verdict;

    lab_send(lab, request, &in);
    loader_counts(lab->loader, &counts);
    verdict = lab_run(lab, lab->program, &in, &out);
    counts.count[MC_COUNT_SEEN]++;
    counts.count[MC_COUNT_KEYS]++;
    counts.count[MC_COUNT_MISSES]++;
    counts.count[MC_COUNT_BYTES_READ] = lab_count(lab, MC_COUNT_BYTES_READ);
    counts.count[lab->program == LOADER_XDP ? MC_COUNT_ANSWERED_XDP : MC_COUNT_ANSWERED_TC]++;
    return verdict == (lab->program == LOADER_XDP ? 1u : 2u) && counts_are(lab, &counts);
}

/* --- cases ----------------------------------------------------------------------- */

static char *member_of(struct lab *lab, const struct lab_set *set)
{
    char *const bases[] = {[LAB_CONTROL] = (char *)lab->control,
                           [LAB_ITEM] = (char *)lab->item,
                           [LAB_BUCKET] = (char *)lab->bucket};

    return bases[set->where] + set->at;
}

static void set_state(struct lab *lab, const struct lab_case *row, int64_t before[])
{
    const struct lab_set *set = row->state;

    for (size_t i = 0; i < COUNT(row->state) && set->n; i++, set++) {
        int64_t value;

        before[i] = 0;
        memcpy(&before[i], member_of(lab, set), set->n);
        value = set->value + (set->how == LAB_MORE ? before[i] : 0) +
                (set->how == LAB_IN ? lab_second(lab) : 0);
        memcpy(member_of(lab, set), &value, set->n);
    }
}

static void restore_state(struct lab *lab, const struct lab_case *row, const int64_t before[])
{
    for (size_t i = COUNT(row->state); i-- > 0;)
        if (row->state[i].n)
            memcpy(member_of(lab, &row->state[i]), &before[i], row->state[i].n);
}

static bool is_ip6(const char *address)
{
    return address && strchr(address, ':');
}

static void put_address(struct frame *frame, size_t v4, size_t v6, const char *address)
{
    if (address && inet_pton(is_ip6(address) ? AF_INET6 : AF_INET, address,
                             frame->bytes + (is_ip6(address) ? v6 : v4)) != 1)
        abort();
}

static void make_frame(struct frame *frame, const struct lab_case *row,
                       const struct lab_bytes *send)
{
    const struct lab_edit *edit = row->frame;
    struct shape shape = row->shape;

    frame_request(frame, send->at, send->n);
    shape.v6 |= is_ip6(row->from) || is_ip6(row->to);
    if (shape.v6 || shape.ntags)
        frame_shape(frame, &shape);
    put_address(frame, 26, 22, row->from);
    put_address(frame, 30, 38, row->to);
    for (; edit < row->frame + COUNT(row->frame) && edit->to.n; edit++)
        memcpy(frame->bytes + edit->at, edit->to.at, edit->to.n);
    frame_ip_sum(frame);
    if (frame_has_sum(frame))
        frame_sum(frame, FRAME_SUM_WHOLE);
}

void lab_frame(struct frame *frame, const struct lab_case *row)
{
    make_frame(frame, row, row->send);
}

bool lab_right(struct lab *lab, const struct lab_case *row)
{
    int64_t before[COUNT(row->state)];
    struct frame frame;
    bool right = true;

    set_state(lab, row, before);
    for (size_t i = 0; i < COUNT(row->send) && row->send[i].at; i++) {
        make_frame(&frame, row, &row->send[i]);
        if (row->verdict == LAB_ANSWERS)
            right &= lab_answers(lab, &frame, row->reply.at, row->reply.n);
        else
            right &= lab_passes(lab, &frame,
                                row->only_xdp && lab->program == LOADER_TC ? LAB_UNCOUNTED
                                                                           : row->reason);
    }
    restore_state(lab, row, before);
    return right;
}

/* A request as a name. */
static const char *shown(const struct lab_bytes *bytes)
{
    static char text[128];
    size_t n = 0;

    for (size_t i = 0; i < bytes->n && n < sizeof(text) - 8; i++)
        n += (size_t)snprintf(text + n, 8,
                              bytes->at[i] < ' ' || bytes->at[i] > '~' ? "\\x%02x" : "%c",
                              (unsigned char)bytes->at[i]);
    text[n] = '\0';
    return text;
}

void lab_try(struct lab *lab, const struct lab_case *rows, size_t n)
{
    for (const struct lab_case *row = rows; row < rows + n; row++)
        ok(lab_right(lab, row), "%s%s", row->what ? row->what : shown(row->send),
           row->what                    ? ""
           : row->verdict == LAB_PASSES ? " is passed"
                                        : " is answered");
}

void frame_text(struct frame *frame, const char *text)
{
    frame_request(frame, text, strlen(text));
}

bool lab_replies(struct lab *lab, const char *request, const char *reply)
{
    struct frame frame;

    frame_text(&frame, request);
    return lab_answers(lab, &frame, reply, strlen(reply));
}

bool lab_leaves(struct lab *lab, const char *request, enum mc_count reason)
{
    struct frame frame;

    frame_text(&frame, request);
    return lab_passes(lab, &frame, reason);
}

double lab_time(struct lab *lab, enum loader_program program, const struct frame *in,
                unsigned int runs)
{
    struct frame out;
    struct loader_packet packet;
    double best = 1e9, sum;

    for (unsigned int round = 0; round < 7; round++) {
        sum = 0;
        for (unsigned int i = 0; i < runs; i++) {
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
static struct counted counted_since(struct lab *lab, uint8_t clsid, const struct mc_counts *before)
{
    struct mc_counts after;

    loader_counts(lab->loader, &after);
#define GROWN(name) (after.count[MC_COUNT_##name] - before->count[MC_COUNT_##name])
    return (struct counted){
        .seen = GROWN(SEEN),
        .answered = lab->program == LOADER_XDP ? GROWN(ANSWERED_XDP) : GROWN(ANSWERED_TC),
        .keys = GROWN(KEYS),
        .hits = GROWN(HITS),
        .misses = GROWN(MISSES),
        .class_hits = after.class_hits[clsid] - before->class_hits[clsid],
        .read = GROWN(BYTES_READ),
        .written = GROWN(BYTES_WRITTEN),
    };
#undef GROWN
}

uint64_t lab_count(struct lab *lab, enum mc_count which)
{
    struct mc_counts counts;

    loader_counts(lab->loader, &counts);
    return counts.count[which];
}

bool lab_counts(struct lab *lab, const struct frame *requests, size_t nrequests,
                const struct counted *want)
{
    enum { CLASS = 9, SEGMENT = 2 };
    struct mc_counts before;
    struct counted counted;
    struct frame out;

    lab_clear(lab);
    lab_put(lab, "hit", 3, "v", 1)->clsid = CLASS | SEGMENT << 6;
    loader_counts(lab->loader, &before);
    for (size_t i = 0; i < nrequests; i++)
        lab_run(lab, lab->program, &requests[i], &out);
    counted = counted_since(lab, CLASS, &before);
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
