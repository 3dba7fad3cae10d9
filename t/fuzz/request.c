/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: the kernel's request parser against the server's, on one store.
 *
 *     request [SECONDS [SEED]]
 *
 * Each datagram, made from a grammar and then damaged, goes through a kernel
 * program (BPF_PROG_TEST_RUN) and through the server's parser and commands. Where
 * the kernel answers, the bytes must be the server's; where it passes, the
 * packet must be what it was. The datagrams of t/fuzz/corpus/udp come first. A
 * datagram that fails is written to request.failed.
 */
#include "t/bpf/lab.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "command/command.h"
#include "proto/proto.h"
#include "store/store.h"
#include "t/lib/tap.h"

enum { DATAGRAM_MAX = 1472, REPLY_MAX = 1 << 16, KEYS = 96 };

/* --- the server's side ------------------------------------------------------ */

struct memory {
    struct provider provider;
    struct loader *loader;
};

static int memory_segment(struct provider *provider, uint32_t index, void *addr)
{
    return loader_map_segment(((struct memory *)(void *)provider)->loader, index, addr);
}

static int memory_table(struct provider *provider, uint32_t index, void *addr)
{
    return loader_map_table(((struct memory *)(void *)provider)->loader, index, addr);
}

static struct mc_control *memory_control(struct provider *provider)
{
    return loader_control(((struct memory *)(void *)provider)->loader);
}

static void ignore_stats(void *context, struct stat_sink *sink)
{
    (void)context;
    (void)sink;
}

static void ignore(void *context)
{
    (void)context;
}

static void ignore_word(void *context, bool word)
{
    (void)context;
    (void)word;
}

static void ignore_level(void *context, unsigned int level)
{
    (void)context;
    (void)level;
}

static void no_net_stats(void *context, struct command_net_stats *out)
{
    (void)context;
    memset(out, 0, sizeof(*out));
}

struct server {
    struct memory memory;
    struct lab lab; /* only its loader */
    struct store *store;
    struct commands *commands;
    struct command_local *local;
    struct command_client client;
    struct reply reply;
    struct clock clock;
    char out[REPLY_MAX]; /* the first message of an answer, frame header included */
    size_t nout;
    unsigned int nmessages;
    bool long_reply; /* it was of several datagrams */
};

static void server_open(struct server *server)
{
    static const struct command_server calls = {
        .net_stats = no_net_stats,
        .stats_settings = ignore_stats,
        .stats_conns = ignore_stats,
        .reset_stats = ignore,
        .set_verbosity = ignore_level,
        .shutdown = ignore_word,
    };
    struct command_config config = {.flush_enabled = true, .nthreads = 1, .item_max = 1 << 20};
    struct store_config store;
    const char *why = "";
    char error[512];
    struct mc_control *control;

    memset(server, 0, sizeof(*server));
    server->lab.loader = server->memory.loader = loader_open(error, sizeof(error));
    if (!server->memory.loader)
        skip_all(error);
    server->memory.provider = (struct provider){
        .segment = memory_segment, .table = memory_table, .control = memory_control};
    clock_init(&server->clock);
    store_config_defaults(&store);
    store.clock = config.clock = server->clock;
    command_store_format(&store.format);
    server->store = store_new(&store, &server->memory.provider, &why);
    server->commands = server->store ? commands_new(server->store, &config, &calls) : NULL;
    server->local = server->commands ? command_local_new(server->commands) : NULL;
    if (!server->local) {
        diag("%s", why);
        exit(1);
    }
    server->client.transport = COMMAND_DATAGRAM;
    reply_init(&server->reply);
    control = loader_control(server->memory.loader);
    control->port = htons(LAB_PORT);
    lab_own(control);
    server->lab.control = control;
    loader_set_tc(server->memory.loader, true, true);
}

static void server_close(struct server *server)
{
    reply_fini(&server->reply);
    command_local_free(server->local);
    commands_free(server->commands);
    store_free(server->store);
    loader_close(server->memory.loader);
}

/* What the commands of a datagram reply with becomes a message each. */
static void take_message(struct server *server, uint16_t id)
{
    struct udp_frame frame = {.id = id, .count = 1};
    struct iovec iov[16];
    size_t sent = 0, n, i;

    if (server->reply.nbytes == 0 || server->nmessages++) {
        command_release(server->local, &server->reply);
        return;
    }
    server->long_reply = server->reply.nbytes > MC_UDP_PAYLOAD - MC_UDP_HEADER;
    proto_render_frame(server->out, &frame);
    server->nout = MC_UDP_HEADER;
    while (!server->long_reply && (n = reply_iov(&server->reply, sent, REPLY_MAX, iov, 16)) > 0) {
        for (i = 0; i < n; i++) {
            memcpy(server->out + server->nout, iov[i].iov_base, iov[i].iov_len);
            server->nout += iov[i].iov_len;
            sent += iov[i].iov_len;
        }
    }
    command_release(server->local, &server->reply);
}

/* True: the value was there and is taken; the command has more to say. */
static bool take_value(struct server *server, struct command_pending *pending, struct slice *rest)
{
    if (pending->nleft > rest->len) {
        command_abandon(server->local, pending);
        return false;
    }
    while (pending->nleft > 0) {
        char *ptr;
        size_t n = command_value_room(server->local, pending, &ptr);

        if (ptr)
            memcpy(ptr, rest->ptr, n);
        command_value_filled(pending, n);
        rest->ptr += n;
        rest->len -= n;
    }
    return true;
}

/* Executes a datagram as net does. */
static void server_take(struct server *server, const char *bytes, size_t n, rel_time now)
{
    struct slice rest = {bytes, n};
    enum command_next next = COMMAND_DONE;
    enum protocol protocol;
    struct udp_frame frame;

    server->nmessages = 0;
    server->nout = 0;
    server->long_reply = false;
    if (!proto_parse_frame(rest, &frame))
        return;
    rest.ptr += MC_UDP_HEADER;
    rest.len -= MC_UDP_HEADER;
    protocol = proto_protocol(rest.ptr[0]);
    while (next == COMMAND_DONE && rest.len > 0) {
        struct command_pending pending = {0};
        struct request request;
        ssize_t used = proto_parse(protocol, rest, &request);

        if (used <= 0)
            break;
        rest.ptr += used;
        rest.len -= (size_t)used;
        next = command_run(server->local, &request, &server->client, now, &server->reply, &pending);
        if (next == COMMAND_VALUE)
            next =
                take_value(server, &pending, &rest)
                    ? command_finish(server->local, &server->client, &pending, now, &server->reply)
                    : COMMAND_CLOSE;
        take_message(server, frame.id);
    }
}

/* --- one datagram through both ---------------------------------------------- */

/* What a datagram asks for, by its first bytes. */
enum asked { ASKED_GET, ASKED_GETS, ASKED_META, ASKED_BINARY, ASKED_OTHER, ASKED };

static enum asked asked_for(const char *bytes, size_t n)
{
    const char *text = bytes + MC_UDP_HEADER;

    if (n < MC_UDP_HEADER + 5)
        return ASKED_OTHER;
    return memcmp(text, "get ", 4) == 0    ? ASKED_GET
           : memcmp(text, "gets ", 5) == 0 ? ASKED_GETS
           : memcmp(text, "mg ", 3) == 0   ? ASKED_META
           : (uint8_t)text[0] == 0x80      ? ASKED_BINARY
                                           : ASKED_OTHER;
}

struct tally {
    uint64_t ndatagrams, nanswered;
    uint64_t answered[ASKED], hit[ASKED]; /* hit: by its length it shows a value */
};

static void count_answer(struct tally *tally, const char *bytes, size_t n, size_t nout)
{
    enum asked asked = asked_for(bytes, n);

    tally->nanswered++;
    tally->answered[asked]++;
    tally->hit[asked] += nout > n + 16;
}

static void keep_failure(const char *bytes, size_t n)
{
    FILE *file = fopen("request.failed", "wb");

    if (file) {
        fwrite(bytes, 1, n, file);
        fclose(file);
    }
}

static bool agree(struct server *server, enum loader_program program, const char *bytes, size_t n,
                  size_t npadding, struct tally *tally)
{
    static struct frame plain, request, out, want;
    rel_time now;
    uint32_t verdict;
    bool right;

    frame_request(&plain, "", 0);
    memcpy(plain.bytes + LAB_HEADERS, bytes, n);
    plain.n = LAB_HEADERS + n;
    frame_seal(&plain);
    memset(plain.bytes + plain.n, 0xdb, npadding);
    plain.n += npadding;
    request = plain;
    frame_shape(&request, &server->lab.shape);
    /* Both in the same second: an answer may show the seconds that are left. */
    do {
        now = clock_now(&server->clock);
        verdict = lab_run(&server->lab, program, &request, &out);
    } while (clock_now(&server->clock) != now);
    server_take(server, bytes, n, now);
    tally->ndatagrams++;
    if (verdict == (program == LOADER_XDP ? 3u : 7u)) {
        count_answer(tally, bytes, n, server->nout);
        frame_answer(&want, &plain, server->out + MC_UDP_HEADER,
                     server->nout < MC_UDP_HEADER ? 0 : server->nout - MC_UDP_HEADER);
        frame_shape(&want, &server->lab.shape);
        right =
            server->nmessages == 1 && !server->long_reply && frame_answers(&out, &request, &want);
    } else {
        right = verdict == (program == LOADER_XDP ? 2u : UINT32_MAX) && frame_equal(&out, &request);
    }
    if (!right) {
        diag("program %d, verdict %u, the server's messages: %u", program, verdict,
             server->nmessages);
        frame_dump("request", &request);
        frame_dump("kernel", &out);
        frame_dump("server", &want);
        keep_failure(bytes, n);
    }
    return right;
}

/* --- datagrams --------------------------------------------------------------- */

struct random {
    uint64_t state;
};

static uint32_t draw(struct random *random, uint32_t below)
{
    random->state ^= random->state << 13;
    random->state ^= random->state >> 7;
    random->state ^= random->state << 17;
    return (uint32_t)((random->state >> 32) * below >> 32);
}

struct datagram {
    char bytes[DATAGRAM_MAX + 512];
    size_t n;
};

static void put(struct datagram *datagram, const void *bytes, size_t n)
{
    if (n > sizeof(datagram->bytes) - datagram->n)
        n = sizeof(datagram->bytes) - datagram->n;
    memcpy(datagram->bytes + datagram->n, bytes, n);
    datagram->n += n;
}

static void put_text(struct datagram *datagram, const char *text)
{
    put(datagram, text, strlen(text));
}

static void put_number(struct datagram *datagram, uint32_t number)
{
    char text[16];

    snprintf(text, sizeof(text), " %u", number);
    put_text(datagram, text);
}

/* One of KEYS keys of many lengths, sometimes one that is no key of anybody. */
static size_t make_key(char key[512], struct random *random)
{
    static const uint8_t lengths[] = {1,  2,  3,  7,  8,  9,   15,  16, 17,
                                      30, 31, 32, 33, 64, 100, 249, 250};
    uint32_t number = draw(random, KEYS);
    size_t n = lengths[number % sizeof(lengths)], i;

    for (i = 0; i < n; i++)
        key[i] = (char)('A' + (number + i * 7) % 50);
    switch (draw(random, 40)) {
    case 0:
        key[draw(random, (uint32_t)n)] = (char)draw(random, 256);
        break;
    case 1:
        n = 240 + draw(random, 30);
        memset(key, 'L', n);
        break;
    case 2:
        n = 1 + draw(random, 8);
        break;
    default:
        break;
    }
    return n;
}

static void put_key(struct datagram *datagram, struct random *random)
{
    char key[512];

    put(datagram, key, make_key(key, random));
}

static void put_spaces(struct datagram *datagram, struct random *random, uint32_t least)
{
    uint32_t n = draw(random, 12) ? least : draw(random, 40);

    while (n-- > 0)
        put_text(datagram, " ");
}

static void put_end(struct datagram *datagram, struct random *random)
{
    static const char *const ends[] = {"\n",   "\r",    "", "\r\n\r\n", "\r\nget A\r\n",
                                       "\n\n", "\r\r\n"};

    put_text(datagram, draw(random, 10) ? "\r\n" : ends[draw(random, 7)]);
}

static void put_get(struct datagram *datagram, struct random *random, const char *verb)
{
    static const char *const verbs[] = {"gets", "GET", "gat 1", "get\t", "ge", " get", "mg", "geT"};
    uint32_t n = draw(random, 3) ? 1 : draw(random, 6) ? draw(random, 12) : draw(random, 200);

    put_text(datagram, draw(random, 16) ? verb : verbs[draw(random, 8)]);
    while (n-- > 0) {
        put_spaces(datagram, random, 1);
        put_key(datagram, random);
    }
    put_spaces(datagram, random, 0);
    put_end(datagram, random);
}

/* A flag of mg: most often one that the kernel knows, now and then any. */
static void put_flag(struct datagram *datagram, struct random *random)
{
    char flag = draw(random, 60) ? "vfctskqOvfctskqO"[draw(random, 16)] : (char)draw(random, 256);
    uint32_t n = flag == 'O' ? (draw(random, 20) ? draw(random, 12) : draw(random, 40)) : 0;

    if (!draw(random, 80))
        flag = "hluNRTEbxX"[draw(random, 10)];
    put(datagram, &flag, 1);
    if (!draw(random, 60))
        n = draw(random, 4);
    while (n-- > 0) {
        char byte = (char)(draw(random, 30) ? '0' + draw(random, 60) : draw(random, 256));

        put(datagram, &byte, 1);
    }
}

static void put_meta(struct datagram *datagram, struct random *random)
{
    uint32_t n = draw(random, 30) ? draw(random, 6) : draw(random, 20);

    put_text(datagram, draw(random, 40) ? "mg" : "mn");
    put_spaces(datagram, random, 1);
    put_key(datagram, random);
    while (n-- > 0) {
        put_spaces(datagram, random, 1);
        put_flag(datagram, random);
    }
    put_spaces(datagram, random, 0);
    put_end(datagram, random);
}

static void put_binary(struct datagram *datagram, struct random *random)
{
    uint8_t head[24] = {0x80, "\x00\x09\x0c\x0d"[draw(random, 4)]};
    uint32_t i, times = draw(random, 20) ? 1 : 2;
    char key[512];
    size_t n;

    while (times-- > 0) {
        n = make_key(key, random);
        head[3] = (uint8_t)n;
        head[11] = (uint8_t)n;
        for (i = 12; i < 16; i++)
            head[i] = (uint8_t)draw(random, 256);
        if (!draw(random, 20))
            head[draw(random, 24)] = (uint8_t)draw(random, 256);
        if (!draw(random, 40))
            head[1] = (uint8_t)draw(random, 0x30);
        put(datagram, head, sizeof(head));
        put(datagram, key, n);
    }
}

/* A request that reads. */
static void put_read(struct datagram *datagram, struct random *random)
{
    switch (draw(random, 5)) {
    case 0:
        put_get(datagram, random, "gets");
        break;
    case 1:
        put_meta(datagram, random);
        break;
    case 2:
        put_binary(datagram, random);
        break;
    default:
        put_get(datagram, random, "get");
    }
}

static void put_write(struct datagram *datagram, struct random *random)
{
    static const char *const verbs[] = {"set", "set", "set", "add", "replace", "append", "prepend"};
    static const char *const others[] = {"delete", "incr", "decr", "touch"};
    char value[1500];
    uint32_t nvalue;

    switch (draw(random, 12)) {
    default:
        nvalue = draw(random, 4) ? draw(random, 100) : draw(random, 1400);
        put_text(datagram, verbs[draw(random, 7)]);
        put_text(datagram, " ");
        put_key(datagram, random);
        put_number(datagram, draw(random, 3) ? 0 : draw(random, UINT32_MAX));
        put_number(datagram, draw(random, 8) ? 0 : draw(random, 2) ? draw(random, 3) : 1000);
        put_number(datagram, nvalue);
        put_text(datagram, "\r\n");
        memset(value, '0' + (int)draw(random, 10), nvalue);
        put(datagram, value, nvalue);
        put_text(datagram, "\r\n");
        break;
    case 9:
    case 10:
        put_text(datagram, others[draw(random, 4)]);
        put_text(datagram, " ");
        put_key(datagram, random);
        put_number(datagram, draw(random, 5));
        put_end(datagram, random);
        break;
    case 11:
        put_text(datagram, draw(random, 20) ? "version\r\n" : "flush_all\r\n");
        break;
    }
}

static void damage(struct datagram *datagram, struct random *random)
{
    uint32_t times = draw(random, 4) + 1, at;

    while (times-- > 0 && datagram->n > 0) {
        at = draw(random, (uint32_t)datagram->n);
        switch (draw(random, 4)) {
        case 0:
            datagram->bytes[at] = (char)draw(random, 256);
            break;
        case 1:
            datagram->bytes[at] = " \r\n\0\t"[draw(random, 5)];
            break;
        case 2:
            datagram->n = at;
            break;
        default:
            memmove(datagram->bytes + at, datagram->bytes + at + 1, datagram->n - at - 1);
            datagram->n--;
        }
    }
}

static void make(struct datagram *datagram, struct random *random)
{
    char header[8] = {0, 0, 0, 0, 0, 1, 0, 0};

    header[0] = (char)draw(random, 256);
    header[1] = (char)draw(random, 256);
    if (!draw(random, 20))
        header[draw(random, 8)] = (char)draw(random, 256);
    datagram->n = 0;
    put(datagram, header, sizeof(header));
    if (draw(random, 4))
        put_read(datagram, random);
    else
        put_write(datagram, random);
    if (!draw(random, 6))
        damage(datagram, random);
    if (datagram->n > DATAGRAM_MAX)
        datagram->n = DATAGRAM_MAX;
}

/* --- the test ---------------------------------------------------------------- */

enum { FEWEST = 10000 }; /* random datagrams, however slow the machine */

static bool replay(struct server *server, struct tally *tally)
{
    const char *root = getenv("SRCDIR");
    char folder[2048], path[4096], bytes[DATAGRAM_MAX];
    struct dirent *entry;
    bool right = true;
    FILE *file;
    size_t n;
    DIR *dir;

    snprintf(folder, sizeof(folder), "%s/t/fuzz/corpus/udp", root ? root : ".");
    dir = opendir(folder);
    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        file = entry->d_name[0] == '.' ? NULL : fopen(path, "rb");
        if (!file)
            continue;
        n = fread(bytes, 1, sizeof(bytes), file);
        fclose(file);
        right = right && agree(server, LOADER_XDP, bytes, n, 0, tally) &&
                agree(server, LOADER_TC, bytes, n, 0, tally);
        if (!right)
            diag("%s", path);
    }
    if (dir)
        closedir(dir);
    return right && tally->ndatagrams > 0;
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"get", "gets", "mg", "binary"};
    double limit = argc > 1 ? atof(argv[1]) : 3, start;
    struct random random = {argc > 2 ? strtoull(argv[2], NULL, 0) | 1 : (uint64_t)time(NULL) | 1};
    static struct server server;
    static struct datagram datagram;
    enum loader_program program;
    struct tally replayed = {0}, made = {0};
    bool right;

    server_open(&server);
    diag("seed %llu", (unsigned long long)random.state);
    right = replay(&server, &replayed);
    ok(right, "kernel and server agree on the %llu datagrams of the corpus",
       (unsigned long long)replayed.ndatagrams);
    start = seconds();
    while (right && (made.ndatagrams < FEWEST || seconds() - start < limit)) {
        make(&datagram, &random);
        program = draw(&random, 8) ? LOADER_XDP : LOADER_TC;
        /* A test run leaves to TC the tags that the stack would take off. */
        server.lab.shape = (struct shape){
            .v6 = draw(&random, 3) == 0,
            .ntags = program == LOADER_XDP && draw(&random, 8) == 0 ? 1 + draw(&random, 2) : 0};
        right = agree(&server, program, datagram.bytes, datagram.n,
                      draw(&random, 8) ? 0 : draw(&random, 20), &made);
    }
    diag("%llu datagrams, the kernel answered %llu", (unsigned long long)made.ndatagrams,
         (unsigned long long)made.nanswered);
    ok(right, "and on random ones");
    for (enum asked asked = ASKED_GET; asked < ASKED_OTHER; asked++)
        ok(made.hit[asked] > FEWEST / 100, "the kernel answered %llu %s, %llu with a value",
           (unsigned long long)made.answered[asked], names[asked],
           (unsigned long long)made.hit[asked]);
    ok(made.nanswered > made.ndatagrams / 4, "of which the kernel answered at least a quarter");
    server_close(&server);
    return done();
}
