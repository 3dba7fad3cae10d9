/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explore.h"

enum {
    WAY_BITS = 3, /* of an edge: under which ways its step is sure */
    NONE = UINT32_MAX,
};

_Static_assert(1 << WAY_BITS == MODEL_ANY_WAY + 1, "an edge's bits are the ways");

struct list {
    uint32_t *items;
    size_t n, room;
};

struct explorer {
    const struct model *m;
    unsigned faults;
    size_t n, max, nsteps;
    struct model_state *states;
    uint32_t *parent;
    uint8_t *level; /* the fewest faults */
    uint8_t *live;  /* the ways under which the end can be reached */
    uint32_t *table;
    size_t mask;
    struct list todo[EXPLORE_FAULTS + 1]; /* to visit, by level */
    struct list order;                    /* as visited */
    struct list edges;                    /* of each in this order: how many, then {state, ways} */
    uint32_t at;                          /* the state whose steps are made */
    unsigned at_level;
    size_t count_place;
    bool full;
    const char *wrong;
    struct model_step last; /* that went wrong */
};

static void append(struct list *l, uint32_t item)
{
    if (l->n == l->room) {
        l->room = l->room ? l->room * 2 : 1024;
        l->items = realloc(l->items, l->room * sizeof(*l->items));
        if (!l->items)
            abort();
    }
    l->items[l->n++] = item;
}

static uint64_t hash(const struct model_state *s)
{
    const unsigned char *at = (const unsigned char *)s;
    uint64_t h = 0x9e3779b97f4a7c15, word;

    for (size_t left = sizeof(*s), n; left; left -= n, at += n) {
        n = left < sizeof(word) ? left : sizeof(word);
        word = 0;
        memcpy(&word, at, n);
        h = (h ^ word) * 0xff51afd7ed558ccd;
        h ^= h >> 32;
    }
    return h;
}

/* The state's number; a new one if it is not known; NONE if there is no room. */
static uint32_t intern(struct explorer *e, const struct model_state *s)
{
    size_t slot = hash(s) & e->mask;

    for (; e->table[slot]; slot = (slot + 1) & e->mask)
        if (!memcmp(&e->states[e->table[slot] - 1], s, sizeof(*s)))
            return e->table[slot] - 1;
    if (e->n == e->max) {
        e->full = true;
        return NONE;
    }
    e->states[e->n] = *s;
    e->level[e->n] = UINT8_MAX;
    e->table[slot] = ++e->n;
    return e->n - 1;
}

static void on_step(void *arg, const struct model_step *step)
{
    struct explorer *e = arg;
    unsigned level = e->at_level + step->cost;
    uint32_t to;

    if (e->wrong || e->full || level > e->faults)
        return;
    e->nsteps++;
    if (step->wrong) {
        e->wrong = step->wrong;
        e->last = *step;
        return;
    }
    to = intern(e, step->next);
    if (to == NONE)
        return;
    if (step->sure) {
        append(&e->edges, to << WAY_BITS | step->sure);
        e->edges.items[e->count_place]++;
    }
    if (level >= e->level[to])
        return;
    e->level[to] = level;
    e->parent[to] = e->at;
    append(&e->todo[level], to);
}

static void visit(struct explorer *e, uint32_t at)
{
    append(&e->order, at);
    e->count_place = e->edges.n;
    append(&e->edges, 0);
    e->at = at;
    model_steps(e->m, &e->states[at], on_step, e);
}

/* Fewest faults first. A state may be found with one fault and then with none. */
static void visit_all(struct explorer *e)
{
    for (e->at_level = 0; e->at_level <= e->faults; e->at_level++) {
        struct list *todo = &e->todo[e->at_level];

        for (size_t i = 0; i < todo->n && !e->wrong && !e->full; i++)
            if (e->level[todo->items[i]] == e->at_level)
                visit(e, todo->items[i]);
        if (e->wrong || e->full)
            return;
    }
}

/* From which states the end can be reached: backwards along the edges until nothing changes. */
static void find_live(struct explorer *e)
{
    size_t *places = malloc((e->order.n + 1) * sizeof(*places));
    bool changed = true;

    if (!places)
        abort();
    for (size_t i = 0, place = 0; i < e->order.n; i++) {
        places[i] = place;
        place += 1 + e->edges.items[place];
        if (model_finished(e->m, &e->states[e->order.items[i]]))
            e->live[e->order.items[i]] = MODEL_ANY_WAY;
    }
    while (changed) {
        changed = false;
        for (size_t i = e->order.n; i-- > 0;) {
            const uint32_t *edge = &e->edges.items[places[i]];
            uint8_t *live = &e->live[e->order.items[i]], was = *live;

            for (uint32_t left = *edge++; left && *live != MODEL_ANY_WAY; left--, edge++)
                *live |= *edge & MODEL_ANY_WAY & e->live[*edge >> WAY_BITS];
            changed |= *live != was;
        }
    }
    free(places);
}

static void print_segment(FILE *out, const struct splice_segment *g)
{
    if (g->seq || g->ack || g->len)
        fprintf(out, " [%02x..%02x ack %02x%s%s%s]", g->seq, (num)(g->seq + g->len), g->ack,
                g->fin ? " FIN" : "", g->kept ? " kept" : "", g->mapped ? " mapped" : "");
}

static void print_state(FILE *out, const struct model_state *s)
{
    const struct splice_conn *c = &s->conn;

    fprintf(out,
            "\n      client una %02x nxt %02x rcv %02x; socket una %02x nxt %02x rcv %02x"
            "; published %02x %02x; M %u N %u kmax %02x kack %02x ksnd %02x",
            s->client.una, s->client.nxt, s->client.rcv, s->server.una, s->server.nxt,
            s->server.rcv, s->server.boundary.consumed, s->server.boundary.sent, c->M, c->N,
            c->kmax, c->kack, c->ksnd);
    if (c->outstanding)
        fprintf(out, " outstanding %02x+%u %02x+%u", c->req_start, c->req_len, c->rep_start,
                c->rep_len);
    fprintf(out, "\n");
}

/* The step that made `to` from `from`: a trace keeps states alone. */
struct search {
    const struct model_state *to;
    FILE *out;
    unsigned best;
    const char *what;
    struct splice_segment segment;
};

static void on_search(void *arg, const struct model_step *step)
{
    struct search *s = arg;

    if (step->wrong || step->cost >= s->best || memcmp(step->next, s->to, sizeof(*s->to)))
        return;
    s->best = step->cost;
    s->what = step->what;
    s->segment = step->segment;
}

static void print_trace(struct explorer *e, FILE *out, uint32_t to)
{
    struct list path = {0};
    struct search s = {.out = out};

    for (; to != NONE; to = e->parent[to])
        append(&path, to);
    for (size_t i = path.n - 1; i-- > 0;) {
        s.to = &e->states[path.items[i]];
        s.best = UINT8_MAX;
        model_steps(e->m, &e->states[path.items[i + 1]], on_search, &s);
        fprintf(out, "%s%s", s.best ? "* " : "  ", s.what);
        print_segment(out, &s.segment);
        print_state(out, s.to);
    }
    free(path.items);
}

static void judge(struct explorer *e, struct explore_result *r)
{
    size_t size;
    FILE *out = open_memstream(&r->trace, &size);

    if (!out)
        abort();
    r->wrong = e->wrong;
    if (e->wrong) {
        r->faults = e->at_level + e->last.cost;
        print_trace(e, out, e->at);
        fprintf(out, "%s%s", e->last.cost ? "* " : "  ", e->last.what);
        print_segment(out, &e->last.segment);
        fprintf(out, "\n");
    }
    for (size_t i = 0; i < e->order.n && !r->wrong; i++) {
        uint32_t at = e->order.items[i];

        if (e->live[at] == MODEL_ANY_WAY)
            continue;
        r->wrong = "the end cannot be reached any more";
        r->faults = e->level[at];
        print_trace(e, out, at);
    }
    fclose(out);
}

int explore(const struct model *m, unsigned faults, size_t max_states, struct explore_result *r)
{
    struct explorer e = {.m = m, .faults = faults, .max = max_states, .mask = 1};
    struct model_state first;

    while (e.mask < max_states * 2)
        e.mask *= 2;
    e.table = calloc(e.mask--, sizeof(*e.table));
    e.states = malloc(max_states * sizeof(*e.states));
    e.parent = malloc(max_states * sizeof(*e.parent));
    e.level = malloc(max_states);
    e.live = calloc(max_states, 1);
    if (!e.table || !e.states || !e.parent || !e.level || !e.live)
        abort();
    memset(r, 0, sizeof(*r));
    model_start(m, &first);
    e.level[intern(&e, &first)] = 0;
    e.parent[0] = NONE;
    append(&e.todo[0], 0);
    visit_all(&e);
    if (!e.full) {
        if (!e.wrong)
            find_live(&e);
        judge(&e, r);
    }
    r->bound = faults;
    r->nstates = e.n;
    r->nsteps = e.nsteps;
    free(e.table);
    free(e.states);
    free(e.parent);
    free(e.level);
    free(e.live);
    for (unsigned i = 0; i <= faults; i++)
        free(e.todo[i].items);
    free(e.order.items);
    free(e.edges.items);
    return e.full ? -ENOSPC : 0;
}
