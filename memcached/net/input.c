/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/input.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_ROUND = 256 /* allocates what it keeps in multiples of this */ };

void input_init(struct conn_input *input, struct input_memory *memory)
{
    input->own = (struct input){0};
    input->now = &input->own;
    input->memory = memory;
}

void input_free(struct conn_input *input)
{
    input->memory->kept -= input->own.size;
    free(input->own.ptr);
    input_init(input, input->memory);
}

void input_borrow(struct conn_input *input, struct input *workers)
{
    struct slice kept = input_unread(&input->own);

    if (kept.len > workers->size / 2) {
        input->now = &input->own;
        return;
    }
    workers->start = 0;
    workers->end = kept.len;
    workers->searched = input->own.searched;
    if (input->own.ptr) {
        memcpy(workers->ptr, kept.ptr, kept.len);
        input_free(input);
    }
    input->now = workers;
}

/* Whether a buffer of that size may be added. The old one counts beside it while there are both. */
static bool may_keep(const struct input_memory *memory, size_t size)
{
    size_t most = size > INPUT_SHORT ? INPUT_KEPT_MAX : SIZE_MAX;

    if (memory->limit && memory->limit < most)
        most = memory->limit;
    return memory->kept + size <= most;
}

/* Moves the unread bytes to a buffer of `size` bytes that the connection owns. */
static bool own(struct conn_input *input, size_t size)
{
    struct slice rest = input_unread(input->now);
    char *ptr;

    if (!may_keep(input->memory, size))
        return false;
    ptr = malloc(size);
    if (!ptr)
        return false;
    memcpy(ptr, rest.ptr, rest.len);
    free(input->own.ptr);
    input->memory->kept += size - input->own.size;
    input->own = (struct input){ptr, 0, rest.len, size, input->now->searched};
    input->now = &input->own;
    return true;
}

bool input_return(struct conn_input *input)
{
    struct slice rest = input_unread(input->now);

    if (rest.len == 0) {
        input_free(input);
        return true;
    }
    if (input->now == &input->own)
        return true;
    return own(input, (rest.len + KEPT_ROUND - 1) / KEPT_ROUND * KEPT_ROUND);
}

bool input_make_room(struct conn_input *input)
{
    struct input *in = input->now;
    struct slice rest = input_unread(in);

    if (in->start > 0) {
        memmove(in->ptr, rest.ptr, rest.len);
        in->start = 0;
        in->end = rest.len;
    }
    return in->end < in->size || own(input, in->size * 2);
}
