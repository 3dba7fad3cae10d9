/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/tool/tcpmodel_binary.h"

#include <string.h>

enum { HEAD = 24, AT_CAS = 16, FLAGS = 4, STORE_EXTRAS = 8, REQUEST = 0x80, RESPONSE = 0x81 };

enum opcode {
    GET = 0x00,
    SET = 0x01,
    DELETE = 0x04,
    GETQ = 0x09,
    NOOP = 0x0a,
    GETK = 0x0c,
    GETKQ = 0x0d,
    SETQ = 0x11,
};

static const char not_found[] = "Not found";

struct head {
    unsigned char magic;
    enum opcode opcode;
    size_t nkey, nextras, nvalue;
    unsigned int status;
    uint32_t opaque;
};

static void store_number(char *at, size_t n, uint64_t number)
{
    for (; n > 0; number >>= 8)
        at[--n] = (char)number;
}

/* The header up to the CAS id, which the caller puts behind it. */
static void put_head(struct bytes *out, const struct head *head)
{
    char *at = bytes_add(out, AT_CAS);

    memset(at, 0, AT_CAS);
    at[0] = (char)head->magic;
    at[1] = (char)head->opcode;
    store_number(at + 2, 2, head->nkey);
    at[4] = (char)head->nextras;
    store_number(at + 6, 2, head->status);
    store_number(at + 8, 4, head->nkey + head->nextras + head->nvalue);
    store_number(at + 12, 4, head->opaque);
}

static void put_zeros(struct bytes *out, size_t n)
{
    memset(bytes_add(out, n), 0, n);
}

static void put_request(struct model *model, enum opcode opcode, const char *key, size_t nextras,
                        size_t nvalue, uint32_t opaque)
{
    put_head(&model->out, &(struct head){.magic = REQUEST,
                                         .opcode = opcode,
                                         .nkey = key ? strlen(key) : 0,
                                         .nextras = nextras,
                                         .nvalue = nvalue,
                                         .opaque = opaque});
    put_zeros(&model->out, HEAD - AT_CAS);
}

/* A reply without a CAS id: key or text or nothing follows. */
static void want_plain(struct model *model, enum opcode opcode, unsigned int status,
                       const char *key, const char *value, uint32_t opaque)
{
    struct bytes *text = &model->op->text;

    put_head(text, &(struct head){.magic = RESPONSE,
                                  .opcode = opcode,
                                  .nkey = strlen(key),
                                  .nvalue = strlen(value),
                                  .status = status,
                                  .opaque = opaque});
    put_zeros(text, HEAD - AT_CAS);
    bytes_put(text, key, strlen(key));
    bytes_put(text, value, strlen(value));
}

static void want_hit(struct model *model, struct own_key *key, enum opcode opcode, uint32_t opaque)
{
    struct bytes *text = &model->op->text;
    bool with_key = opcode == GETK || opcode == GETKQ;

    put_head(text, &(struct head){.magic = RESPONSE,
                                  .opcode = opcode,
                                  .nkey = with_key ? strlen(key->name) : 0,
                                  .nextras = FLAGS,
                                  .nvalue = key->value.n,
                                  .opaque = opaque});
    model_cas(model, key, HOLE_CAS_BINARY);
    store_number(bytes_add(text, FLAGS), FLAGS, key->flags);
    if (with_key)
        bytes_put(text, key->name, strlen(key->name));
    bytes_put(text, key->value.at, key->value.n);
}

static void read_shared(struct model *model, enum opcode opcode, uint32_t opaque)
{
    bool with_key = opcode == GETK || opcode == GETKQ;
    struct hole hole = {.kind = HOLE_SHARED_BINARY};
    char *at = bytes_add(&model->op->text, 8);

    model_want_shared(model, &hole);
    hole.opaque = opaque;
    hole.with_key = with_key;
    put_request(model, opcode, hole.shared->name, 0, 0, opaque);
    bytes_put(&model->out, hole.shared->name, strlen(hole.shared->name));
    memset(at, 0, 8);
    at[0] = (char)RESPONSE;
    at[1] = (char)opcode;
    at[3] = (char)(with_key ? strlen(hole.shared->name) : 0);
    at[4] = FLAGS;
    op_hole(model->op, &hole);
}

void binary_noop(struct model *model)
{
    uint32_t opaque = (uint32_t)model_draw(model, 1ull << 32);

    put_request(model, NOOP, NULL, 0, 0, opaque);
    want_plain(model, NOOP, 0, "", "", opaque);
}

static void read_key(struct model *model, enum opcode opcode)
{
    uint32_t opaque = (uint32_t)model_draw(model, 1ull << 32);
    struct own_key *key = model_key(model);

    if (model_chance(model, model->from_shared)) {
        read_shared(model, opcode, opaque);
        return;
    }
    put_request(model, opcode, key->name, 0, 0, opaque);
    bytes_put(&model->out, key->name, strlen(key->name));
    model->counts.hits += key->there;
    model->counts.misses += !key->there;
    if (key->there)
        want_hit(model, key, opcode, opaque);
    else if (opcode == GET)
        want_plain(model, opcode, 1, "", not_found, opaque);
    else if (opcode == GETK)
        want_plain(model, opcode, 1, key->name, "", opaque);
}

void binary_get(struct model *model)
{
    read_key(model, model_draw(model, 2) ? GET : GETK);
}

void binary_read(struct model *model)
{
    static const enum opcode opcodes[] = {GET, GET, GETK, GETQ, GETKQ};
    enum opcode opcode = opcodes[model_draw(model, sizeof(opcodes) / sizeof(opcodes[0]))];

    if (model_draw(model, 20) == 0)
        binary_noop(model);
    else
        read_key(model, opcode);
}

static void put_set(struct model *model, enum opcode opcode, const char *name, uint32_t flags,
                    const char *value, size_t nvalue, uint32_t opaque)
{
    put_request(model, opcode, name, STORE_EXTRAS, nvalue, opaque);
    store_number(bytes_add(&model->out, FLAGS), FLAGS, flags);
    put_zeros(&model->out, STORE_EXTRAS - FLAGS);
    bytes_put(&model->out, name, strlen(name));
    bytes_put(&model->out, value, nvalue);
}

static void write_set(struct model *model, enum opcode opcode, uint32_t opaque)
{
    struct own_key *key = model_key(model);

    key->change++;
    key->there = true;
    key->ttl = 0;
    key->flags = model_draw(model, 4) ? 0 : (uint32_t)model_draw(model, 1ull << 32);
    model_new_value(model, key);
    put_set(model, opcode, key->name, key->flags, key->value.at, key->value.n, opaque);
    if (opcode == SETQ)
        return;
    put_head(&model->op->text,
             &(struct head){.magic = RESPONSE, .opcode = opcode, .opaque = opaque});
    model_cas(model, key, HOLE_CAS_BINARY);
}

/* Without a reply: a reply of its own would tell the id, which readers do not. */
static void write_shared(struct model *model, uint32_t opaque)
{
    char value[SHARED_MAX];
    size_t n;
    const struct shared_key *key = model_next_version(model, value, &n);

    put_set(model, SETQ, key->name, 0, value, n, opaque);
}

void binary_set_silently(struct model *model)
{
    write_set(model, SETQ, (uint32_t)model_draw(model, 1ull << 32));
}

void binary_write(struct model *model)
{
    uint32_t opaque = (uint32_t)model_draw(model, 1ull << 32);
    struct own_key *key;

    if (model_writes_shared(model)) {
        write_shared(model, opaque);
    } else if (model_draw(model, 6)) {
        write_set(model, model_draw(model, 4) ? SET : SETQ, opaque);
    } else {
        key = model_key(model);
        put_request(model, DELETE, key->name, 0, 0, opaque);
        bytes_put(&model->out, key->name, strlen(key->name));
        want_plain(model, DELETE, !key->there, "", key->there ? "" : not_found, opaque);
        key->there = false;
    }
}
