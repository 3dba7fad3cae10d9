/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/tool/tcpmodel.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/tool/tcpmodel_binary.h"
#include "t/tool/verdict.h"

enum {
    VALUE_MAX = 1300,  /* bytes of nearly all values */
    BIG_MIN = 3000,    /* those of some values of the first keys */
    BIG_MAX = 1000000, /* the server's limit is an item of 1 MiB */
    BIG_KEYS = 2,
    MULTI_MAX = 8,
    TTL_MIN = 1000, /* seconds: nothing expires by itself */
    NUMBER_EVERY = 6,
};

uint64_t model_draw(struct model *model, uint64_t n)
{
    return next_random(&model->random) % n;
}

bool model_chance(struct model *model, double share)
{
    return (double)next_random(&model->random) < share * (double)(1ull << 53);
}

/* Names of 10 to 250 bytes. */
static void name_key(struct own_key *key, const char *prefix, unsigned int connection,
                     unsigned int index)
{
    size_t n =
        (size_t)snprintf(key->name, sizeof(key->name), "%.64s-c%u.k%u", prefix, connection, index);
    size_t end = index == 5 ? KEY_MAX : n + index * 7 % 40;

    while (n < end && n < KEY_MAX)
        key->name[n++] = '.';
}

void model_init(struct model *model, uint64_t seed, unsigned int index, const char *prefix)
{
    unsigned int i;

    *model = (struct model){.index = index, .round = 1, .key = model->keys};
    model->random = (seed * 1000003 + index + 1) * 0x9e3779b97f4a7c15ull;
    model_draw(model, 2);
    for (i = 0; i < OWN_KEYS; i++)
        name_key(&model->keys[i], prefix, index, i);
}

void model_fini(struct model *model)
{
    unsigned int i;

    for (i = 0; i < OWN_KEYS; i++)
        bytes_free(&model->keys[i].value);
    bytes_free(&model->out);
    replies_free(&model->replies);
}

void model_forget_cas(struct model *model)
{
    unsigned int i;

    for (i = 0; i < OWN_KEYS; i++)
        model->keys[i].cas = (struct cas){0};
}

/* --- operations -------------------------------------------------------------------- */

static void model_begin(struct model *model)
{
    model->op = op_new(++model->number);
    model->begins = model->out.n;
}

static void model_end(struct model *model)
{
    struct op *op = model->op;
    size_t n = model->out.n - model->begins;

    op->nasked = n < ASKED_MAX ? n : ASKED_MAX;
    memcpy(op->asked, model->out.at + model->begins, op->nasked);
    model->quiet = op_is_silent(op);
    replies_expect(&model->replies, op);
}

/* Often the last one again: what was written without a reply is read. */
struct own_key *model_key(struct model *model)
{
    if (model_draw(model, 4))
        model->key = &model->keys[model_draw(model, OWN_KEYS)];
    return model->key;
}

static bool is_number(const struct model *model, const struct own_key *key)
{
    return (key - model->keys) % NUMBER_EVERY == NUMBER_EVERY - 1;
}

void model_cas(struct model *model, struct own_key *key, enum hole_kind kind)
{
    struct hole hole = {.kind = kind, .cas = &key->cas};

    hole.change = key->change;
    hole.round = model->round;
    op_hole(model->op, &hole);
}

/* --- values --------------------------------------------------------------------------- */

static size_t draw_size(struct model *model, const struct own_key *key)
{
    uint64_t scale;

    if (key - model->keys < BIG_KEYS && model_chance(model, model->big)) {
        scale = model_draw(model, 9);
        return BIG_MIN + model_draw(model, ((uint64_t)(BIG_MAX - BIG_MIN) >> scale) + 1);
    }
    switch (model_draw(model, 8)) {
    case 0:
    case 1:
        return model_draw(model, 9);
    case 2:
    case 3:
    case 4:
        return model_draw(model, 200);
    case 5:
    case 6:
        return model_draw(model, VALUE_MAX + 1);
    default:
        /* What fills a segment, or just does not. */
        return VALUE_MAX - model_draw(model, 100);
    }
}

/* n bytes that tell the key and the operation: the name of both, and random bytes or text that
 * looks like replies. The first is a letter. */
static void put_value(struct model *model, struct bytes *out, const struct own_key *key, size_t n)
{
    static const char trap[] = "\r\nEND\r\nVALUE x 0 1\r\nSTORED\r\n";
    uint64_t random = model->random | 1, word;
    char head[64];
    size_t nhead = (size_t)sprintf(head, "k%d of c%u in %" PRIu64 ":", (int)(key - model->keys),
                                   model->index, model->number);
    char *at = bytes_add(out, n);
    size_t i;

    if (!n)
        return;
    nhead = nhead < n ? nhead : n;
    memcpy(at, head, nhead);
    if (model_draw(model, 8) == 0) {
        for (i = nhead; i < n; i++)
            at[i] = trap[i % (sizeof(trap) - 1)];
        return;
    }
    for (i = nhead; i < n; i += sizeof(word)) {
        word = next_random(&random) * 0x9e3779b97f4a7c15ull;
        memcpy(at + i, &word, n - i < sizeof(word) ? n - i : sizeof(word));
    }
}

void model_new_value(struct model *model, struct own_key *key)
{
    key->value.n = 0;
    if (is_number(model, key))
        bytes_print(&key->value, "%" PRIu64, model_draw(model, 1ull << model_draw(model, 50)));
    else
        put_value(model, &key->value, key, draw_size(model, key));
}

static uint32_t draw_flags(struct model *model)
{
    return model_draw(model, 4) ? 0 : (uint32_t)model_draw(model, 1ull << 32);
}

/* Of a write: 0, seconds, or -1: it is gone at once. */
static int64_t draw_exptime(struct model *model)
{
    switch (model_draw(model, 24)) {
    case 0:
        return -1;
    case 1:
    case 2:
        return (int64_t)(TTL_MIN + model_draw(model, 1000000));
    default:
        return 0;
    }
}

static void key_expires(struct model *model, struct own_key *key, int64_t exptime)
{
    if (exptime < 0)
        key->there = false;
    key->ttl = exptime > 0 ? (uint64_t)exptime : 0;
    key->since_ns = model->now_ns;
}

/* --- reading, text --------------------------------------------------------------------- */

/* "VALUE ..." of a hit. */
static void want_value(struct model *model, struct own_key *key, bool with_cas)
{
    struct bytes *text = &model->op->text;

    model->counts.hits += key->there;
    model->counts.misses += !key->there;
    if (!key->there)
        return;
    bytes_print(text, "VALUE %s %" PRIu32 " %zu", key->name, key->flags, key->value.n);
    if (with_cas) {
        bytes_put(text, " ", 1);
        model_cas(model, key, HOLE_CAS);
    }
    bytes_put(text, "\r\n", 2);
    bytes_put(text, key->value.at, key->value.n);
    bytes_put(text, "\r\n", 2);
}

void model_want_shared(struct model *model, struct hole *hole)
{
    hole->shared = &model->shared[model_draw(model, model->nshared)];
    hole->floor = hole->shared->floor;
    model->counts.shared++;
}

static void read_shared_key(struct model *model)
{
    struct bytes *text = &model->op->text;
    struct hole hole = {.kind = HOLE_SHARED};

    model_want_shared(model, &hole);
    bytes_print(&model->out, " %s", hole.shared->name);
    bytes_print(text, "VALUE %s 0 ", hole.shared->name);
    op_hole(model->op, &hole);
    bytes_put(text, "\r\n", 2);
}

/* get and gets of `n` keys, some of them shared if asked for. */
static void read_keys(struct model *model, uint64_t n, bool with_cas)
{
    struct own_key *key;

    bytes_print(&model->out, with_cas ? "gets" : "get");
    for (; n > 0; n--) {
        if (!with_cas && model_chance(model, model->from_shared)) {
            read_shared_key(model);
            continue;
        }
        key = model_key(model);
        bytes_print(&model->out, " %s", key->name);
        want_value(model, key, with_cas);
    }
    bytes_print(&model->out, "\r\n");
    bytes_print(&model->op->text, "END\r\n");
}

static void read_shared_meta(struct model *model)
{
    struct hole hole = {.kind = HOLE_SHARED};

    model_want_shared(model, &hole);
    bytes_print(&model->out, "mg %s v\r\n", hole.shared->name);
    bytes_print(&model->op->text, "VA ");
    op_hole(model->op, &hole);
    bytes_print(&model->op->text, "\r\n");
}

/* What one flag of mg returns of a hit. */
static void want_flag(struct model *model, struct own_key *key, char flag, unsigned int opaque)
{
    struct bytes *text = &model->op->text;
    struct hole hole = {.kind = HOLE_TTL};

    switch (flag) {
    case 's':
        bytes_print(text, " s%zu", key->value.n);
        break;
    case 'f':
        bytes_print(text, " f%" PRIu32, key->flags);
        break;
    case 't':
        bytes_print(text, key->ttl ? " t" : " t-1");
        hole.ttl = key->ttl;
        hole.since_ns = key->since_ns;
        if (key->ttl)
            op_hole(model->op, &hole);
        break;
    case 'c':
        bytes_print(text, " c");
        model_cas(model, key, HOLE_CAS);
        break;
    case 'k':
        bytes_print(text, " k%s", key->name);
        break;
    case 'O':
        bytes_print(text, " O%u", opaque);
        break;
    }
}

/* A subset of mg's flags in any order; how many. */
static size_t draw_flags_of_meta(struct model *model, char *flags)
{
    static const char all[] = "vsftckOq";
    size_t n = 0, i;
    char flag;

    for (i = 0; i < sizeof(all) - 1; i++)
        if (model_draw(model, all[i] == 'v' ? 8 : 3) < (all[i] == 'v' ? 6 : 1))
            flags[n++] = all[i];
    for (i = 1; i < n; i++) {
        size_t other = model_draw(model, i + 1);

        flag = flags[i];
        flags[i] = flags[other];
        flags[other] = flag;
    }
    flags[n] = '\0';
    return n;
}

static void read_meta(struct model *model)
{
    struct own_key *key = model_key(model);
    struct bytes *text = &model->op->text;
    unsigned int opaque = (unsigned int)model_draw(model, 100000);
    char flags[16];
    size_t n = draw_flags_of_meta(model, flags), i;
    bool with_value = strchr(flags, 'v');

    bytes_print(&model->out, "mg %s", key->name);
    for (i = 0; i < n; i++)
        bytes_print(&model->out, flags[i] == 'O' ? " O%u" : " %c",
                    flags[i] == 'O' ? opaque : (unsigned int)flags[i]);
    bytes_print(&model->out, "\r\n");
    model->counts.hits += key->there;
    model->counts.misses += !key->there;
    if (!key->there && strchr(flags, 'q'))
        return;
    if (!key->there)
        bytes_print(text, "EN");
    else if (with_value)
        bytes_print(text, "VA %zu", key->value.n);
    else
        bytes_print(text, "HD");
    for (i = 0; i < n; i++)
        if (key->there || flags[i] == 'k' || flags[i] == 'O')
            want_flag(model, key, flags[i], opaque);
    bytes_put(text, "\r\n", 2);
    if (key->there && with_value) {
        bytes_put(text, key->value.at, key->value.n);
        bytes_put(text, "\r\n", 2);
    }
}

static void read_nothing(struct model *model, const char *request, const char *reply)
{
    bytes_print(&model->out, "%s\r\n", request);
    bytes_print(&model->op->text, "%s\r\n", reply);
}

static void read_text(struct model *model)
{
    uint64_t which = model_draw(model, 100);

    if (which < 50)
        read_keys(model, 1, false);
    else if (which < 64)
        read_keys(model, 2 + model_draw(model, model_draw(model, 16) ? MULTI_MAX : 40), false);
    else if (which < 73)
        read_keys(model, model_draw(model, 3) ? 1 : 2 + model_draw(model, MULTI_MAX), true);
    else if (which < 77)
        read_shared_meta(model);
    else if (which < 95)
        read_meta(model);
    else if (which < 98)
        read_nothing(model, "mn", "MN");
    else
        read_nothing(model, which == 98 ? "get" : "nothing", "ERROR");
}

/* --- writing, text --------------------------------------------------------------------- */

/* Whether a write has noreply. */
static bool draw_silent(struct model *model)
{
    return model->silently || model_draw(model, 4) == 0;
}

/* "verb key flags exptime bytes[ cas][ noreply]", the value, and the reply if one is due. */
static void put_store(struct model *model, const char *verb, const struct own_key *key,
                      int64_t exptime, const char *value, size_t nvalue, uint64_t cas,
                      const char *reply)
{
    bool silent = draw_silent(model);

    bytes_print(&model->out, "%s %s %" PRIu32 " %" PRId64 " %zu", verb, key->name, key->flags,
                exptime, nvalue);
    if (cas)
        bytes_print(&model->out, " %" PRIu64, cas);
    bytes_print(&model->out, silent ? " noreply\r\n" : "\r\n");
    bytes_put(&model->out, value, nvalue);
    bytes_put(&model->out, "\r\n", 2);
    if (!silent)
        bytes_print(&model->op->text, "%s\r\n", reply);
}

/* A whole new value by a verb that stores it. */
static void write_whole(struct model *model, struct own_key *key, const char *verb, uint64_t cas)
{
    int64_t exptime = draw_exptime(model);

    key->change++;
    key->flags = draw_flags(model);
    model_new_value(model, key);
    key->there = true;
    key_expires(model, key, exptime);
    put_store(model, verb, key, exptime, key->value.at, key->value.n, cas, "STORED");
}

/* add, replace or cas that must be refused. */
static void write_refused(struct model *model, struct own_key *key, const char *verb, uint64_t cas,
                          const char *reply)
{
    char value[64];

    put_store(model, verb, key, 0, value, (size_t)sprintf(value, "refused %" PRIu64, model->number),
              cas, reply);
}

static void write_conditional(struct model *model, struct own_key *key)
{
    static const uint64_t wrong_cas = 0xfffffffffffff000ull;

    switch (model_draw(model, 3)) {
    case 0:
        if (key->there)
            write_refused(model, key, "add", 0, "NOT_STORED");
        else
            write_whole(model, key, "add", 0);
        return;
    case 1:
        if (key->there)
            write_whole(model, key, "replace", 0);
        else
            write_refused(model, key, "replace", 0, "NOT_STORED");
        return;
    }
    if (!key->there)
        write_refused(model, key, "cas", 1, "NOT_FOUND");
    else if (key->cas.id && key->cas.change == key->change && key->cas.round <= model->settled)
        write_whole(model, key, "cas", key->cas.id);
    else
        write_refused(model, key, "cas", wrong_cas, "EXISTS");
}

static void write_longer(struct model *model, struct own_key *key)
{
    const char *verb = model_draw(model, 2) ? "append" : "prepend";
    struct bytes piece = {0};
    char *room;

    if (is_number(model, key) || key->value.n > VALUE_MAX) {
        write_whole(model, key, "set", 0);
        return;
    }
    put_value(model, &piece, key, model_draw(model, 64));
    put_store(model, verb, key, 0, piece.at, piece.n, 0, key->there ? "STORED" : "NOT_STORED");
    if (key->there) {
        room = bytes_add(&key->value, piece.n);
        if (*verb == 'p') {
            memmove(key->value.at + piece.n, key->value.at, key->value.n - piece.n);
            room = key->value.at;
        }
        if (piece.n)
            memcpy(room, piece.at, piece.n);
        key->change++;
    }
    bytes_free(&piece);
}

/* incr and decr; decr only to a number of as many digits, because others are filled up. */
static void write_count(struct model *model, struct own_key *key)
{
    uint64_t delta = model_draw(model, 1ull << model_draw(model, 32)), value = 0;
    bool down = model_draw(model, 3) == 0, silent = draw_silent(model);
    char digits[32], number[32];
    const char *reply = "NOT_FOUND";

    if (!is_number(model, key) && key->there && !key->value.n) {
        write_whole(model, key, "set", 0);
        return;
    }
    if (key->there && is_number(model, key)) {
        memcpy(number, key->value.at, key->value.n);
        number[key->value.n] = '\0';
        value = strtoull(number, NULL, 10);
        down = down && (size_t)sprintf(digits, "%" PRIu64, value - delta) == key->value.n;
        sprintf(digits, "%" PRIu64, down ? value - delta : value + delta);
        key->value.n = 0;
        bytes_print(&key->value, "%s", digits);
        key->change++;
        reply = digits;
    } else if (key->there) {
        reply = "CLIENT_ERROR cannot increment or decrement non-numeric value";
        silent = false;
    }
    bytes_print(&model->out, "%s %s %" PRIu64 "%s\r\n", down ? "decr" : "incr", key->name, delta,
                silent ? " noreply" : "");
    if (!silent)
        bytes_print(&model->op->text, "%s\r\n", reply);
}

static void write_delete(struct model *model, struct own_key *key)
{
    bool silent = draw_silent(model);

    bytes_print(&model->out, "delete %s%s\r\n", key->name, silent ? " noreply" : "");
    if (!silent)
        bytes_print(&model->op->text, key->there ? "DELETED\r\n" : "NOT_FOUND\r\n");
    key->there = false;
}

static void write_touch(struct model *model, struct own_key *key)
{
    int64_t exptime = draw_exptime(model);
    bool silent = draw_silent(model);

    bytes_print(&model->out, "touch %s %" PRId64 "%s\r\n", key->name, exptime,
                silent ? " noreply" : "");
    if (!silent)
        bytes_print(&model->op->text, key->there ? "TOUCHED\r\n" : "NOT_FOUND\r\n");
    key_expires(model, key, exptime);
}

static void write_gat(struct model *model, struct own_key *key)
{
    int64_t exptime = draw_exptime(model);
    bool with_cas = model_draw(model, 2);

    exptime = exptime < 0 ? 0 : exptime;
    bytes_print(&model->out, "%s %" PRId64 " %s\r\n", with_cas ? "gats" : "gat", exptime,
                key->name);
    want_value(model, key, with_cas);
    bytes_print(&model->op->text, "END\r\n");
    key_expires(model, key, exptime);
}

/* The next shared key that this connection writes, its next version. */
struct shared_key *model_next_version(struct model *model, char *value, size_t *nvalue)
{
    unsigned int n = (model->nshared - model->index + model->nwriters - 1) / model->nwriters;
    struct shared_key *key = &model->shared[model->index + model_draw(model, n) * model->nwriters];

    model->op->written = key;
    model->op->version = ++key->begun;
    *nvalue = shared_value(key, key->begun, value);
    return key;
}

bool model_writes_shared(struct model *model)
{
    return model->index < model->nwriters && model->index < model->nshared &&
           model_draw(model, 8) == 0;
}

static void write_shared(struct model *model)
{
    bool silent = draw_silent(model);
    char value[SHARED_MAX];
    size_t n;
    const struct shared_key *key = model_next_version(model, value, &n);

    bytes_print(&model->out, "set %s 0 0 %zu%s\r\n", key->name, n, silent ? " noreply" : "");
    bytes_put(&model->out, value, n);
    bytes_put(&model->out, "\r\n", 2);
    if (!silent)
        bytes_print(&model->op->text, "STORED\r\n");
}

static void write_text(struct model *model)
{
    struct own_key *key = model_key(model);
    uint64_t which = model_draw(model, 100);

    if (model_writes_shared(model))
        write_shared(model);
    else if (which < 48)
        write_whole(model, key, "set", 0);
    else if (which < 66)
        write_conditional(model, key);
    else if (which < 74)
        write_longer(model, key);
    else if (which < 82)
        write_delete(model, key);
    else if (which < 90)
        write_count(model, key);
    else if (which < 96)
        write_touch(model, key);
    else
        write_gat(model, key);
}

/* --- both protocols ----------------------------------------------------------------------- */

void model_read(struct model *model)
{
    model_begin(model);
    model->counts.reads++;
    if (model->binary)
        binary_read(model);
    else
        read_text(model);
    model_end(model);
}

void model_get(struct model *model)
{
    model_begin(model);
    model->counts.reads++;
    if (model->binary)
        binary_get(model);
    else
        read_keys(model, 1, false);
    model_end(model);
}

void model_write(struct model *model)
{
    model_begin(model);
    model->counts.writes++;
    if (model->binary)
        binary_write(model);
    else
        write_text(model);
    model_end(model);
}

void model_set_silently(struct model *model)
{
    model_begin(model);
    model->counts.writes++;
    model->silently = true;
    if (model->binary)
        binary_set_silently(model);
    else
        write_whole(model, model_key(model), "set", 0);
    model->silently = false;
    model_end(model);
}

void model_mark(struct model *model)
{
    model_begin(model);
    model->counts.reads++;
    if (model->binary)
        binary_noop(model);
    else
        read_nothing(model, "mn", "MN");
    model_end(model);
}
