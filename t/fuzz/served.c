/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/fuzz/served.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "proto/proto.h"
#include "t/lib/tap.h"

static int memory_segment(struct provider *provider, uint32_t index, void *addr)
{
    return loader_map_extent(((struct memory *)(void *)provider)->loader, index, addr);
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

void server_open(struct server *server)
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
        .extent = memory_segment, .table = memory_table, .control = memory_control};
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

void server_close(struct server *server)
{
    reply_fini(&server->reply);
    command_local_free(server->local);
    commands_free(server->commands);
    store_free(server->store);
    loader_close(server->memory.loader);
}

/* Passes a message to the listener, a datagram at a time. */
static void tell(struct server *server, uint16_t id, const char *text, size_t ntext)
{
    const size_t most = MC_UDP_PAYLOAD - MC_UDP_HEADER;
    struct udp_frame frame = {.id = id, .count = (uint16_t)((ntext + most - 1) / most)};
    char datagram[MC_UDP_PAYLOAD];
    size_t n;

    while (server->replied && ntext > 0) {
        n = ntext < most ? ntext : most;
        proto_render_frame(datagram, &frame);
        memcpy(datagram + MC_UDP_HEADER, text, n);
        server->replied(server->context, datagram, MC_UDP_HEADER + n);
        frame.sequence++;
        text += n;
        ntext -= n;
    }
}

/* Each command's reply to a datagram becomes a message of its own. */
static void take_message(struct server *server, uint16_t id)
{
    struct udp_frame frame = {.id = id, .count = 1};
    char text[SERVED_MAX];
    struct iovec iov[16];
    size_t sent = 0, n, i;

    while (server->reply.nbytes <= SERVED_MAX &&
           (n = reply_iov(&server->reply, sent, SERVED_MAX, iov, 16)) > 0) {
        for (i = 0; i < n; i++) {
            memcpy(text + sent, iov[i].iov_base, iov[i].iov_len);
            sent += iov[i].iov_len;
        }
    }
    command_release(server->local, &server->reply);
    tell(server, id, text, sent);
    if (sent == 0 || server->nmessages++)
        return;
    server->long_reply = sent > MC_UDP_PAYLOAD - MC_UDP_HEADER;
    proto_render_frame(server->out, &frame);
    server->nout = MC_UDP_HEADER;
    if (server->long_reply)
        return;
    memcpy(server->out + MC_UDP_HEADER, text, sent);
    server->nout += sent;
}

/* True: the value was complete and is taken; the command has more to reply. */
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

void server_take(struct server *server, const char *bytes, size_t n, rel_time now)
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
