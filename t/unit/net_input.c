/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection's input: what is unread survives the turns of others in the worker's buffer. */
#include <string.h>

#include "net/input.h"
#include "t/lib/tap.h"

enum { SIZE = 1024 };

static char buffer[SIZE];
static struct input worker = {.ptr = buffer, .size = SIZE};

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

    input_init(&a);
    input_init(&b);
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
    const char *kept;

    memset(text, 'x', SIZE - 1);
    text[SIZE - 1] = '\0';
    input_init(&input);
    input_borrow(&input, &worker);
    receive(&input, text);
    receive(&input, "y");
    ok(input_make_room(&input) && input.now == &input.own && input.now->size == 2 * SIZE,
       "a full buffer is followed by one of twice the size, of the connection's own");
    receive(&input, "z");
    text[0] = '\0';
    ok(input_return(&input) && input.now->end == SIZE + 1, "which it keeps");
    kept = input.own.ptr;
    input_borrow(&input, &worker);
    ok(input.now == &input.own && input.own.ptr == kept, "and is served from");
    input.now->start = SIZE;
    ok(input_make_room(&input) && holds(&input, "z") && input.now->start == 0,
       "room is made by moving what is unread to the front");
    input_free(&input);
    ok(!input.own.ptr && input.now == &input.own, "nothing is left");
}

int main(void)
{
    two_connections_take_turns();
    much_input_stays_where_it_is();
    return done();
}
