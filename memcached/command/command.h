/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * command: executes requests. It connects proto and store, which do not know each other, and does
 * no I/O. What it needs of the layers above it calls through functions that the server passes down
 * (struct command_server).
 *
 * Each worker thread has a struct command_local, which needs no lock.
 */
#ifndef COMMAND_COMMAND_H
#define COMMAND_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/slice.h"
#include "bpf/shared/layout.h"
#include "proto/proto.h"

struct countdown;
struct store;
struct store_format;
struct mc_item;
struct commands;
struct command_local;
struct stream;
struct sasl_exchange;
struct auth_message;

/* Adds one statistic; keys appear in the order of the calls. */
struct stat_sink;
void stat_add(struct stat_sink *sink, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* `stats tls`. */
struct command_tls_stats {
    uint64_t handshakes, resumed, handshake_errors, protocol_errors, refreshes, refresh_errors,
        since_refresh; /* seconds */
};

struct command_net_stats {
    uint64_t curr_connections, total_connections, rejected_connections, connection_structures,
        reserved_fds, bytes_read, bytes_written, listen_disabled_num, time_in_listen_disabled_us,
        conn_yields, idle_kicks;
    struct command_tls_stats tls;
    bool accepting_conns;
    const char *libevent; /* its version */
};

/*
 * Upward calls, from any worker. A command whose function is NULL ("may be NULL") is not offered.
 */
struct command_server {
    void *context;
    void (*net_stats)(void *context, struct command_net_stats *out);
    void (*kernel_counts)(void *context, struct mc_counts *out); /* may be NULL */
    void (*stats_bmc)(void *context, struct stat_sink *sink);    /* may be NULL */
    void (*stats_settings)(void *context, struct stat_sink *sink);
    void (*stats_conns)(void *context, struct stat_sink *sink);
    void (*reset_stats)(void *context);
    void (*set_verbosity)(void *context, unsigned int level);
    /* The log must show every request, or need no longer. Takes no lock. May be NULL. */
    void (*set_logged)(void *context, bool on);
    void (*shutdown)(void *context, bool graceful); /* graceful: keeps the items, with -e */
    /* The commands must see every request, or need no longer. Takes no lock. May be NULL. */
    void (*set_detail)(void *context, bool on);
    /* False: `error` is the answer. May be NULL. */
    bool (*refresh_certs)(void *context, char *error, size_t nerror);
    /* `watch` must see every request, or no longer. May be NULL. */
    void (*set_watched)(void *context, bool on);
    /*
     * An operator wants the kernel to answer, or not. False: fd's peer is elsewhere. May be NULL.
     */
    bool (*switch_kernel)(void *context, int fd, bool on);
};

struct command_config {
    bool flush_enabled;               /* false: -F */
    bool shutdown_enabled;            /* -A */
    bool maxconns_fast, idle_timeout; /* these add a line to `stats` */
    bool dump_enabled;                /* false: -X, no `stats cachedump` */
    bool watch_enabled;               /* false: -W */
    uint32_t worker_logbuf;           /* bytes of a thread's ring of events */
    uint32_t watcher_logbuf;          /* bytes of a watcher's stream of lines */
    bool logged;                      /* the log shows requests from the start: -vv */
    bool detail_enabled;              /* `stats detail on` from the start */
    char prefix_delimiter;            /* of `stats detail` */
    bool tls;                         /* adds a line to `stats` as well */
    bool lru_segmented;               /* lru_maintainer */
    bool slab_reassign;
    bool flash; /* the store has flash storage */
    unsigned int nthreads;
    uint32_t max_connections;
    size_t item_max;
    struct clock clock;
};

/* The client's transport. */
enum command_transport { COMMAND_STREAM, COMMAND_DATAGRAM };

/* While the client is connected the kernel must answer nothing: bypass.h. */
struct command_hold {
    struct commands *commands; /* NULL: not held */
    uint32_t epoch;
};
enum { COMMAND_HOLDS = 2 };

/*
 * A client: a connection, or a UDP socket for all its datagrams. Owned by net, between
 * command_client_open and command_client_close.
 */
struct command_client {
    enum command_transport transport;
    int fd;
    struct stream *stream;          /* for COMMAND_TO_STREAM; net takes it over */
    bool unauthenticated;           /* may only authenticate */
    struct sasl_exchange *exchange; /* SASL authentication in progress; NULL: none */
    struct command_hold holds[COMMAND_HOLDS];
};

/* A storage command whose value is being received. Owned by the connection. */
struct command_pending {
    struct mc_item *item; /* NULL: the value is swallowed */
    size_t nleft;         /* bytes still to be received, CRLF included */
    size_t nfilled;
    struct slice error; /* the answer after swallowing */
    enum verb verb;
    uint64_t cas;
    int fd; /* the client's */
    bool noreply;
    struct request_meta meta;     /* of ms; its flags are in echo */
    char *echo;                   /* of ms: copies of flags and key for the answer, or NULL */
    size_t nkey;                  /* bytes of the key in echo */
    bool binary;                  /* the answer is binary, and no CRLF follows the value */
    struct binary_id id;          /* of a binary answer */
    enum binary_status status;    /* what `error` is for text */
    struct auth_message *message; /* not NULL: the value is credentials, not an item's */
};

enum command_next {
    COMMAND_DONE,  /* the reply is complete (perhaps empty) */
    COMMAND_VALUE, /* feed nleft bytes to pending, then command_finish */
    COMMAND_QUIT,  /* send the reply, if any, and close: the client wants it */
    COMMAND_CLOSE, /* the same because of an error: the rest of the input has no meaning */
    /* Send the reply, then the bytes of client->stream until it ends. Not over datagrams. */
    COMMAND_TO_STREAM,
};

/* The text protocol's bytes around a value, for store_config.format. */
void command_store_format(struct store_format *format);

struct commands *commands_new(struct store *store, const struct command_config *config,
                              const struct command_server *server);
/* Starts the thread of `watch`; without it `watch` fails. 0 or -errno. */
int commands_start(struct commands *commands);
void commands_free(struct commands *commands);
/* How clients authenticate: -S, -Y, or not at all. */
struct command_auth {
    bool sasl;
    const char *file; /* NULL: none */
};
/* To be called before the first client. False: `error` says why no client could authenticate. */
bool commands_authenticate(struct commands *commands, const struct command_auth *auth, char *error,
                           size_t nerror);
/* Reads the file again. False: `error` says why, and the old entries stay in use. */
bool commands_reload(struct commands *commands, char *error, size_t nerror);
/* Whether `stats detail` is on. */
bool commands_detail(const struct commands *commands);
struct command_local *command_local_new(struct commands *commands);
void command_local_free(struct command_local *local);

void command_client_open(const struct command_local *local, enum command_transport transport,
                         int fd, struct command_client *client);
void command_client_close(struct command_client *client);
/* An unauthenticated client may send no longer line or binary header. */
enum { COMMAND_UNAUTHENTICATED_MAX = PROTO_LINE_MAX };

/* Executes a parsed request, adds to the reply. `pending` is written only for COMMAND_VALUE. */
enum command_next command_run(struct command_local *local, const struct request *request,
                              struct command_client *client, rel_time now, struct reply *reply,
                              struct command_pending *pending);
/*
 * Where to write the next bytes of the value: at most nleft, never 0 while nleft > 0. With no item
 * (swallowing) *ptr is NULL and the length says how many bytes to discard.
 */
size_t command_value_room(struct command_local *local, struct command_pending *pending, char **ptr);
/* n bytes were written there (or discarded). */
void command_value_filled(struct command_pending *pending, size_t n);
/* Copies (or discards) as many of the bytes as the value needs; returns how many. */
size_t command_fill(struct command_local *local, struct command_pending *pending,
                    struct slice bytes);
/* nleft is 0: stores the value and replies. */
enum command_next command_finish(struct command_local *local, struct command_client *client,
                                 struct command_pending *pending, rel_time now,
                                 struct reply *reply);
/* The value is truncated, but an answer may still be sent. */
void command_cut(struct command_local *local, struct command_pending *pending, struct reply *reply);
/* The connection ends before the value is complete. */
void command_abandon(struct command_local *local, struct command_pending *pending);
/* --- watching ------------------------------------------------------------ */

/* What `watch` can ask for. */
enum command_watch {
    COMMAND_WATCH_FETCHERS = 1 << 0,
    COMMAND_WATCH_MUTATIONS = 1 << 1,
    COMMAND_WATCH_EVICTIONS = 1 << 2,
    COMMAND_WATCH_SYSEVENTS = 1 << 3,
    COMMAND_WATCH_RAWCMDS = 1 << 4,
    COMMAND_WATCH_CONNEVENTS = 1 << 5,
    COMMAND_WATCH_DELETIONS = 1 << 6,
};
/*
 * The classes that have a watcher: atomic, to be read before an event is emitted. None of these
 * calls blocks.
 */
const uint32_t *command_watched(const struct command_local *local);
/* RAWCMDS: a request as it was received. */
void command_emit_request(struct command_local *local, const struct command_client *client,
                          struct slice request);
/* CONNEVENTS: the words of a line. */
void command_emit_words(struct command_local *local, uint32_t classes, struct slice words);

/*
 * A reply may contain values that have to be read from flash first: then command_reads is true, and
 * the reply must not be sent before command_read has returned true, or `wait` has ended and
 * command_complete was called. Meanwhile the reply may be moved, but nothing may be added.
 */
static inline bool command_reads(const struct reply *reply)
{
    return reply->nholes > 0;
}
bool command_read(struct command_local *local, struct reply *reply, rel_time now,
                  struct countdown *wait);
void command_complete(struct command_local *local, struct reply *reply, rel_time now);
/* The reply to a request is too long for datagrams: an error takes its place. */
void command_too_long(struct command_local *local, const struct request *request,
                      struct reply *reply);
/* The reply was sent or is dropped: releases its items and resets it. */
void command_release(struct command_local *local, struct reply *reply);

#endif
