/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/bpf/segments.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/chain/chain.skel.h"
#include "t/lib/hash.h"
#include "t/lib/tap.h"

enum {
    CLIENT_PORT = 40000,
    TCP = 6,
    UDP = 17,
    FILTER_NEXT = -1,
};

uint64_t watch_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void open_settings(struct watch *watch, uint64_t settle)
{
    struct chain *skel = watch->skel;
    struct bpf_program *program;

    skel->rodata->settings.entries = WATCH_ENTRIES;
    skel->rodata->settings.nmedium = skel->rodata->settings.nlarge = 1;
    skel->rodata->settings.noutstanding = 1;
    skel->rodata->settings.settle = settle;
    skel->rodata->settings.outstanding = CHAIN_OUTSTANDING_NS;
    skel->rodata->settings.any_socket = 1; /* BPF_PROG_TEST_RUN has none */
    skel->rodata->tick_ns = 4000000;
    bpf_map__set_max_entries(skel->maps.mc_buckets, WATCH_ENTRIES);
    bpf_object__for_each_program(program,
                                 skel->obj) if (bpf_program__type(program) == BPF_PROG_TYPE_XDP)
        bpf_program__set_flags(program, BPF_F_XDP_HAS_FRAGS);
}

void watch_open(struct watch *watch, uint64_t settle)
{
    memset(watch, 0, sizeof(*watch));
    watch->settle = settle;
    watch->skel = chain__open();
    if (!watch->skel)
        skip_all("no chain");
    open_settings(watch, settle);
    if (chain__load(watch->skel))
        skip_all(strerror(errno));
    watch->buckets = mmap(NULL, WATCH_ENTRIES * sizeof(struct chain_bucket), PROT_READ | PROT_WRITE,
                          MAP_SHARED, bpf_map__fd(watch->skel->maps.mc_buckets), 0);
    if (watch->buckets == MAP_FAILED)
        skip_all("cannot map the table");
    watch->all = &watch->skel->data_whole_table->whole_table;
    watch->skel->data_control->control.port = htons(WATCH_PORT);
    for (size_t i = 0; i < MC_HASH_WORDS; i++) /* constant: no two keys of a test share a bucket */
        watch->skel->data_control->control.seed[i] = (i + 1) * 0x9e3779b97f4a7c15u;
}

void watch_close(struct watch *watch)
{
    munmap(watch->buckets, WATCH_ENTRIES * sizeof(struct chain_bucket));
    chain__destroy(watch->skel);
}

struct chain_gate *watch_gate(struct watch *watch, const char *key)
{
    __u64 hash = hash_of(watch->skel->data_control->control.seed, key, strlen(key));

    return &watch->buckets[hash & (WATCH_ENTRIES - 1)].gate;
}

/* --- what happened to a gate ---------------------------------------------------------- */

static void counts(struct watch *watch, uint64_t out[32])
{
    int ncpus = libbpf_num_possible_cpus(), i, cpu;
    size_t size = bpf_map__value_size(watch->skel->maps.mc_chain);
    char *rows = calloc((size_t)ncpus, (size + 7) & ~(size_t)7);
    uint32_t zero = 0;

    memset(out, 0, 32 * sizeof(*out));
    if (bpf_map_lookup_elem(bpf_map__fd(watch->skel->maps.mc_chain), &zero, rows))
        diag("no counts: %s", strerror(errno));
    for (cpu = 0; cpu < ncpus; cpu++)
        for (i = 0; i < 32; i++)
            out[i] += ((uint64_t *)(void *)(rows + (size_t)cpu * ((size + 7) & ~(size_t)7)))[i];
    free(rows);
}

void watch_mark_gates(struct watch *watch)
{
    for (size_t i = 0; i < WATCH_ENTRIES; i++)
        watch->buckets[i].gate = (struct chain_gate){0};
    *watch->all = (struct chain_gate){0};
}

void watch_mark(struct watch *watch)
{
    struct chain_outstanding ask = {0};
    uint32_t place = 0;

    watch_mark_gates(watch);
    bpf_map_update_elem(bpf_map__fd(watch->skel->maps.mc_outstanding), &place, &ask, BPF_ANY);
    counts(watch, watch->counts);
}

void watch_age(struct watch *watch, uint64_t ns)
{
    int asks = bpf_map__fd(watch->skel->maps.mc_outstanding);
    struct chain_outstanding ask = {0};
    uint32_t place = 0;

    bpf_map_lookup_elem(asks, &place, &ask);
    ask.first -= ask.first ? ns : 0;
    ask.next -= ask.next ? ns : 0;
    ask.wrote -= ask.wrote ? ns : 0;
    bpf_map_update_elem(asks, &place, &ask, BPF_ANY);
}

uint64_t watch_count(struct watch *watch, enum chain_count count)
{
    uint64_t now[32];

    counts(watch, now);
    return now[count] - watch->counts[count];
}

enum gate_is gate_is(const struct chain_gate *gate)
{
    if (!gate->word && !gate->done)
        return GATE_UNTOUCHED;
    if (gate->word & (CHAIN_GENERATION - 1))
        return GATE_ENTERED;
    return gate->done > watch_now() ? GATE_TIMED : GATE_LEFT;
}

const char *gate_name(enum gate_is is)
{
    static const char *const names[] = {"untouched", "entered", "left", "timed"};

    return names[is];
}

/* --- frames ------------------------------------------------------------------------------- */

struct bytes {
    uint8_t at[WATCH_FRAME_MAX];
    size_t n;
};

static void put(struct bytes *out, const void *from, size_t n)
{
    memcpy(out->at + out->n, from, n);
    out->n += n;
}

static void put8(struct bytes *out, unsigned int value)
{
    out->at[out->n++] = (uint8_t)value;
}

static void put16(struct bytes *out, unsigned int value)
{
    put8(out, value >> 8);
    put8(out, value & 0xff);
}

static void put32(struct bytes *out, uint32_t value)
{
    put16(out, value >> 16);
    put16(out, value & 0xffff);
}

static void put_link(struct bytes *out, const struct form *form)
{
    static const uint8_t macs[12] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};

    put(out, macs, sizeof(macs));
    for (unsigned int i = 0; i < form->ntags; i++) {
        put16(out, i + 1 < form->ntags ? 0x88a8 : 0x8100);
        put16(out, 100 + i);
    }
    put16(out, form->v6 ? 0x86dd : 0x0800);
}

static void put_address(struct bytes *out, bool v6, bool server)
{
    if (v6) {
        put32(out, 0xfd000000);
        put32(out, 0);
        put32(out, 0);
    }
    put32(out, server ? 0x0a000001 : 0x0a000002);
}

static void put_options(struct bytes *out, unsigned int n)
{
    for (; n; n--)
        put8(out, 1); /* of no operation, in IPv4 as in TCP */
}

/* For a packet with npayload bytes behind the IP header and its options. */
static void put_ip(struct bytes *out, const struct form *form, unsigned int protocol,
                   size_t npayload, bool from_server)
{
    if (form->v6) {
        put32(out, 0x60000000);
        put16(out, (unsigned int)(npayload + form->ip_options));
        put8(out, form->ip_options ? 60 : protocol);
        put8(out, 57);
    } else {
        put16(out, 0x4500 + ((form->ip_options / 4) << 8));
        put16(out, (unsigned int)(20 + form->ip_options + npayload));
        put32(out, 0xbeef4000);
        put16(out, (57 << 8) + protocol);
        put16(out, 0);
    }
    put_address(out, form->v6, from_server);
    put_address(out, form->v6, !from_server);
    if (form->ip_options && form->v6) { /* destination options, padded */
        put8(out, protocol);
        put8(out, form->ip_options / 8 - 1);
        put8(out, 1);
        put8(out, form->ip_options - 4);
        memset(out->at + out->n, 0, form->ip_options - 4);
        out->n += form->ip_options - 4;
    } else {
        put_options(out, form->ip_options);
    }
}

static int run(struct bpf_program *program, const struct bytes *in, struct bytes *out,
               unsigned int repeat, uint32_t *ns)
{
    struct xdp_md context = {.data_end = (uint32_t)in->n, .ingress_ifindex = 1};
    LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = in->at, .data_size_in = (uint32_t)in->n,
                .data_out = out->at, .data_size_out = sizeof(out->at), .repeat = (int)repeat);

    if (bpf_program__type(program) == BPF_PROG_TYPE_XDP) {
        opts.ctx_in = opts.ctx_out = &context;
        opts.ctx_size_in = opts.ctx_size_out = sizeof(context);
    }
    if (bpf_prog_test_run_opts(bpf_program__fd(program), &opts)) {
        diag("a run of %zu bytes: %s", in->n, strerror(errno));
        return -2;
    }
    out->n = opts.data_size_out;
    if (ns)
        *ns = opts.duration;
    return (int)opts.retval;
}

static bool same(const struct bytes *a, const struct bytes *b)
{
    return a->n == b->n && memcmp(a->at, b->at, a->n) == 0;
}

static bool passes(struct watch *watch, const struct bytes *frame, bool leaving)
{
    static struct bytes out;
    int rc = run(leaving ? watch->skel->progs.mc_tx_filter : watch->skel->progs.mc_rx_filter, frame,
                 &out, 1, NULL);

    return rc == (leaving ? FILTER_NEXT : XDP_PASS) && same(frame, &out);
}

bool watch_frame(struct watch *watch, const void *frame, size_t n)
{
    static struct bytes bytes;

    bytes.n = 0;
    put(&bytes, frame, n);
    return passes(watch, &bytes, false);
}

static void segment(struct bytes *frame, const struct talk *talk, bool from_server,
                    const uint32_t place[2], unsigned int flags, const void *data, size_t n)
{
    const struct form *form = &talk->form;

    frame->n = 0;
    put_link(frame, form);
    put_ip(frame, form, TCP, 20 + form->tcp_options + n, from_server);
    put16(frame, from_server ? WATCH_PORT : talk->port);
    put16(frame, from_server ? talk->port : WATCH_PORT);
    put32(frame, place[0]);
    put32(frame, place[1]);
    put16(frame, (5 + form->tcp_options / 4) << 12 | flags);
    put16(frame, 0xffff);
    put32(frame, 0);
    put_options(frame, form->tcp_options);
    if (n)
        put(frame, data, n);
    while (!from_server && frame->n < 60) /* the chain must not count Ethernet's padding */
        put8(frame, 'x');
}

bool talk_in(struct talk *talk, uint32_t seq, uint32_t ack, unsigned int flags, const void *data,
             size_t n)
{
    static struct bytes frame;

    segment(&frame, talk, false, (uint32_t[]){seq, ack}, flags, data, n);
    return passes(talk->watch, &frame, false);
}

bool talk_out(struct talk *talk, uint32_t seq, uint32_t ack, unsigned int flags, const void *data,
              size_t n)
{
    static struct bytes frame;

    segment(&frame, talk, true, (uint32_t[]){seq, ack}, flags, data, n);
    return passes(talk->watch, &frame, true);
}

uint32_t talk_time(struct talk *talk, const void *data, size_t n)
{
    static struct bytes frame, out;
    uint32_t ns = 0;

    segment(&frame, talk, false, (uint32_t[]){talk->in, talk->out}, ACK, data, n);
    run(talk->watch->skel->progs.mc_rx_filter, &frame, &out, 1, &ns);
    talk->in += (uint32_t)n;
    return ns;
}

/* --- connections ----------------------------------------------------------------------------- */

void talk_open(struct talk *talk, struct watch *watch, const struct form *form)
{
    static uint16_t port = CLIENT_PORT;

    *talk = (struct talk){.watch = watch, .form = *form, .port = port++};
    talk->in = 0xfffffff0u + talk->port; /* some wrap around to 0 */
    talk->out = 0x80000000u - talk->port;
    talk_in(talk, talk->in - 1, 0, SYN, NULL, 0);
    talk_out(talk, talk->out - 1, talk->in, SYN | ACK, NULL, 0);
    talk_in(talk, talk->in, talk->out, ACK, NULL, 0);
}

bool talk_say(struct talk *talk, const void *data, size_t n)
{
    bool right = talk_in(talk, talk->in, talk->out, ACK, data, n);

    talk->in += (uint32_t)n;
    return right;
}

bool talk_answer(struct talk *talk, const void *data, size_t n)
{
    bool right = talk_out(talk, talk->out, talk->in, ACK, data, n);

    talk->out += (uint32_t)n;
    return right;
}

bool talk_ack(struct talk *talk)
{
    return talk_out(talk, talk->out, talk->in, ACK, NULL, 0);
}

/* --- datagrams ------------------------------------------------------------------------------- */

static bool datagram_passes(struct watch *watch, const struct datagram *datagram, bool leaving,
                            const void *data, size_t n)
{
    static struct bytes frame;

    frame.n = 0;
    put_link(&frame, &datagram->form);
    put_ip(&frame, &datagram->form, UDP, 16 + n, leaving);
    put16(&frame, leaving ? WATCH_PORT : datagram->port);
    put16(&frame, leaving ? datagram->port : WATCH_PORT);
    put16(&frame, (unsigned int)(16 + n));
    put16(&frame, 0);
    put16(&frame, datagram->id);
    put16(&frame, datagram->sequence);
    put16(&frame, datagram->total);
    put16(&frame, 0);
    put(&frame, data, n);
    return passes(watch, &frame, leaving);
}

bool watch_datagram(struct watch *watch, const struct datagram *datagram, const void *data,
                    size_t n)
{
    return datagram_passes(watch, datagram, false, data, n);
}

bool watch_reply(struct watch *watch, const struct datagram *datagram, const void *data, size_t n)
{
    return datagram_passes(watch, datagram, true, data, n);
}

/* --- dialogues ------------------------------------------------------------------------------- */

struct stage {
    struct watch *watch;
    struct talk talk;
    uint64_t asked; /* when the last datagram of a client was sent */
};

static const struct {
    const char *name;
    enum chain_count count;
} counters[] = {
    {"retransmitted", CHAIN_RETRANSMITTED},
    {"lost", CHAIN_LOST},
    {"unfollowed", CHAIN_UNFOLLOWED},
    {"found", CHAIN_FOUND},
    {"seen", CHAIN_WRITES_SEEN},
    {"ended", CHAIN_WRITES_ENDED},
};

static void settle(const struct watch *watch)
{
    uint64_t from = watch_now();

    while (watch_now() < from + watch->settle)
        ;
}

static void old(struct stage *stage)
{
    static uint16_t port = 1000;

    stage->talk = (struct talk){.watch = stage->watch, .port = port++, .in = 1000, .out = 5000};
    watch_mark(stage->watch);
}

/* "> TEXT" and its like. */
static bool client(struct talk *talk, const char *how, const char *text)
{
    size_t n = strlen(text);

    if (strcmp(how, "syn") == 0)
        return talk_in(talk, talk->in - 1, 0, SYN, text, n);
    if (strcmp(how, "fin") == 0)
        return talk_in(talk, talk->in, talk->out, ACK | FIN, text, n);
    if (strcmp(how, "urg") == 0)
        return talk_in(talk, talk->in, talk->out, ACK | URG, text, n);
    if (strcmp(how, "rst") == 0)
        return talk_in(talk, talk->in, talk->out, RST, text, n);
    if (strcmp(how, "ahead") == 0)
        return talk_in(talk, talk->in, talk->out + 1, ACK, text, n);
    if (*how)
        return talk_in(talk, talk->in + (uint32_t)atoi(how), talk->out, ACK, text, n);
    return talk_say(talk, text, n);
}

static bool server(struct talk *talk, const char *how, const char *text)
{
    size_t n = strlen(text);

    if (strcmp(how, "syn") == 0)
        return talk_out(talk, talk->out - 1, talk->in + (uint32_t)atoi(text), SYN | ACK, NULL, 0);
    if (strcmp(how, "fin") == 0)
        return talk_out(talk, talk->out, talk->in, ACK | FIN, text, n);
    if (strcmp(how, "move") == 0)
        talk->out += (uint32_t)atoi(text);
    else if (*how)
        return talk_out(talk, talk->out + (uint32_t)atoi(how), talk->in, ACK, text, n);
    else
        return talk_answer(talk, text, n);
    return true;
}

static bool rounds(struct talk *talk, char *rest)
{
    long n = strtol(rest, &rest, 10);
    char *says = strsep(&rest, "|") + 1;
    bool right = true;

    while (n-- > 0)
        right &= talk_say(talk, says, strlen(says)) && talk_answer(talk, rest, strlen(rest));
    return right;
}

static bool datagram(struct stage *stage, bool leaves, char *rest)
{
    const struct datagram of = {
        .port = CLIENT_PORT, .id = (uint16_t)strtol(rest, &rest, 10), .total = 1};

    if (leaves)
        return watch_reply(stage->watch, &of, rest + 1, strlen(rest + 1));
    stage->asked = watch_now();
    return watch_datagram(stage->watch, &of, rest + 1, strlen(rest + 1));
}

static bool gate_has(struct stage *stage, const struct chain_gate *gate, const char *want)
{
    enum gate_is is = gate_is(gate);
    bool not = *want == '!';

    if (strcmp(want, "closed") == 0 && is == GATE_TIMED)
        return gate->done >= stage->asked + stage->watch->settle;
    if ((strncmp(gate_name(is), want + not, strlen(want + not )) == 0) != not )
        return true;
    diag("the gate is %s", gate_name(is));
    return false;
}

/* Whether the connection is tracked from its next segment on. */
static bool is_found(struct stage *stage)
{
    struct watch *watch = stage->watch;
    bool found;

    watch_mark(watch);
    SAY(&stage->talk, "delete a\r\n");
    found = gate_is(watch_gate(watch, "a")) == GATE_ENTERED &&
            gate_is(watch->all) == GATE_UNTOUCHED && watch_count(watch, CHAIN_FOUND) == 1;
    ANSWER(&stage->talk, "DELETED\r\n");
    return found && gate_is(watch_gate(watch, "a")) == GATE_LEFT;
}

/* What a step expects. */
static bool expect(struct stage *stage, const char *word, char *rest)
{
    if (strcmp(word, "found") == 0 && !*rest)
        return is_found(stage);
    if (strcmp(word, "!found") == 0)
        return !is_found(stage);
    if (strcmp(word, "table") == 0)
        return gate_has(stage, stage->watch->all, rest);
    if (strcmp(word, "gate") == 0) {
        const char *key = strsep(&rest, " ");

        return gate_has(stage, watch_gate(stage->watch, key), rest);
    }
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        if (strcmp(word, counters[i].name) == 0)
            return watch_count(stage->watch, counters[i].count) == strtoul(rest, NULL, 10);
    printf("Bail out! no step is called %s\n", word);
    exit(1);
}

static bool take_step(void *arg, const char *word, char *rest)
{
    struct stage *stage = arg;

    if (*word == '>')
        return client(&stage->talk, word + 1, rest);
    if (*word == '<')
        return server(&stage->talk, word + 1, rest);
    if (strcmp(word, "rounds") == 0)
        return rounds(&stage->talk, rest);
    if (strcmp(word, "ask") == 0 || strcmp(word, "reply") == 0)
        return datagram(stage, *word == 'r', rest);
    if (strcmp(word, "ack") == 0)
        return talk_ack(&stage->talk);
    if (strcmp(word, "open") == 0)
        talk_open(&stage->talk, stage->watch, &(struct form){.v6 = false});
    if (strcmp(word, "open") == 0 || strcmp(word, "mark") == 0)
        watch_mark(stage->watch);
    else if (strcmp(word, "old") == 0)
        old(stage);
    else if (strcmp(word, "gates") == 0)
        watch_mark_gates(stage->watch);
    else if (strcmp(word, "move") == 0)
        stage->talk.in += (uint32_t)atoi(rest);
    else if (strcmp(word, "settle") == 0)
        settle(stage->watch);
    else if (strcmp(word, "age") == 0)
        watch_age(stage->watch, stage->watch->settle + (uint64_t)(atoll(rest) * 1000000000ll));
    else
        return expect(stage, word, rest);
    return true;
}

void watch_talk(struct watch *watch, const struct dialogue *rows, size_t n)
{
    struct stage stage = {.watch = watch};

    dialogue_run(rows, n, take_step, &stage);
}
