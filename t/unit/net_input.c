/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection's input: what is unread survives the turns of others in the worker's buffer. */
#include <string.h>

#include "net/input.h"
#include "t/lib/tap.h"

enum { SIZE = 1024 };

static char buffer[SIZE];
static struct input worker = {.ptr = buffer, .size = SIZE};
static struct input_memory memory;

/* What the socket would have written. */
static void receive(struct conn_input *input, const char *text)
{
    size_t n = strlen(text);

    memcpy(input->now->ptr + input->now->end, text, n);
    input->now->end += n;
}

static int holds(const struct conn_input *input, const char *text)
{
    struct slice rest = input_unread(input->now);

    return rest.len == strlen(text) && memcmp(rest.ptr, text, rest.len) == 0;
}

static void two_connections_take_turns(void)
{
    struct conn_input a, b;

    input_init(&a, &memory);
    input_init(&b, &memory);
    input_borrow(&a, &worker);
    receive(&a, "done half of a");
    a.now->start += 5;
    ok(input_return(&a) && holds(&a, "half of a"), "a keeps what it has not executed");
    ok(a.now == &a.own && a.own.ptr != buffer, "in a buffer of its own");
    input_borrow(&b, &worker);
    ok(b.now == &worker && holds(&b, ""), "b gets the worker's buffer, which is empty");
    receive(&b, "overwrites it");
    b.now->start = b.now->end;
    ok(input_return(&b) && !b.own.ptr, "b has executed all and keeps no buffer");
    input_borrow(&a, &worker);
    ok(a.now == &worker && holds(&a, "half of a") && !a.own.ptr, "a finds its bytes again");
    input_return(&a);
    input_free(&a);
    input_free(&b);
}

static void much_input_stays_where_it_is(void)
{
    char text[SIZE];
    struct conn_input input;
    const char *place;

    memset(text, 'x', SIZE - 1);
    text[SIZE - 1] = '\0';
    input_init(&input, &memory);
    input_borrow(&input, &worker);
    receive(&input, text);
    receive(&input, "y");
    ok(input_make_room(&input) && input.now == &input.own && input.now->size == 2 * SIZE,
       "a full buffer is followed by one of twice the size, of the connection's own");
    receive(&input, "z");
    text[0] = '\0';
    ok(input_return(&input) && input.now->end == SIZE + 1, "which it keeps");
    place = input.own.ptr;
    input_borrow(&input, &worker);
    ok(input.now == &input.own && input.own.ptr == place, "and is served from");
    input.now->start = SIZE;
    ok(input_make_room(&input) && holds(&input, "z") && input.now->start == 0,
       "room is made by moving what is unread to the front");
    input_free(&input);
    ok(!input.own.ptr && input.now == &input.own, "nothing is left");
}

/* Fills the buffer with a line that does not end, until there is no more room; returns its size. */
static size_t fill(struct conn_input *input)
{
    input_borrow(input, &worker);
    while (input_make_room(input))
        input->now->end = input->now->size;
    return input->own.size;
}

static void endless_lines_have_a_limit(void)
{
    struct conn_input a, b, c;
    size_t na, nb;

    input_init(&a, &memory);
    input_init(&b, &memory);
    input_init(&c, &memory);
    na = fill(&a);
    nb = fill(&b);
    ok(na >= INPUT_KEPT_MAX / 4 && na + nb == memory.kept && memory.kept <= INPUT_KEPT_MAX,
       "a line grows until all lines together reach the limit (%zu and %zu bytes)", na, nb);
    memory.kept += INPUT_KEPT_MAX;
    ok(fill(&c) == INPUT_SHORT, "beyond it a connection still gets a short buffer");
    memory.kept -= INPUT_KEPT_MAX;
    input_free(&a);
    ok(fill(&b) > nb, "and a line may grow again when another has ended");
    input_free(&b);
    input_free(&c);
    ok(memory.kept == 0, "when all have ended nothing is kept");
}

/* read_buf_mem_limit */
static void short_lines_have_a_limit_too(void)
{
    struct input_memory few = {.limit = 2048};
    struct conn_input inputs[9];
    size_t n = 0;
    bool kept;

    do {
        input_init(&inputs[n], &few);
        input_borrow(&inputs[n], &worker);
        receive(&inputs[n], "get ab");
        kept = input_return(&inputs[n]);
    } while (kept && ++n < 9);
    ok(!kept && n == 8 && few.kept == few.limit, "with a limit so many keep half a line (%zu)", n);
    input_borrow(&inputs[0], &worker);
    inputs[0].now->start = inputs[0].now->end;
    ok(input_return(&inputs[0]) && few.kept < few.limit, "who ends it gives its share back");
    input_borrow(&inputs[8], &worker);
    ok(input_return(&inputs[8]), "who has sent whole lines needs none");
    input_borrow(&inputs[8], &worker);
    receive(&inputs[8], "get ab");
    ok(input_return(&inputs[8]), "and the share goes to the next one");
    for (size_t i = 0; i < 9; i++)
        input_free(&inputs[i]);
}

int main(void)
{
    two_connections_take_turns();
    much_input_stays_where_it_is();
    endless_lines_have_a_limit();
    short_lines_have_a_limit_too();
    return done();
}
