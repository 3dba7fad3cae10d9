/* SPDX-License-Identifier: BSD-3-Clause */
/* frame: the header of a UDP datagram, four big-endian 16-bit numbers. */
#include "proto/proto.h"

enum { FRAME_BYTES = 8 };

/*
 * The first words of replies to text. A number is missing: it is answered ERROR, which ends the
 * loop.
 */
static const char reply_words[][16] = {
    "ERROR",  "CLIENT_ERROR", "SERVER_ERROR", "VALUE",   "END",     "STORED", "NOT_STORED",
    "EXISTS", "NOT_FOUND",    "DELETED",      "TOUCHED", "VERSION", "STAT",   "RESET",
    "ITEM",   "PREFIX",       "BUSY",         "OK",      "VA",      "HD",     "EN",
    "NF",     "NS",           "EX",           "MN",      "ME"};

static uint16_t load16(const char *p)
{
    return (uint16_t)((unsigned char)p[0] << 8 | (unsigned char)p[1]);
}

static void store16(char *p, uint16_t value)
{
    p[0] = (char)(value >> 8);
    p[1] = (char)value;
}

bool proto_parse_frame(struct slice datagram, struct udp_frame *frame)
{
    if (datagram.len <= FRAME_BYTES || load16(datagram.ptr + 4) != 1)
        return false;
    frame->id = load16(datagram.ptr);
    frame->sequence = load16(datagram.ptr + 2);
    frame->count = 1;
    frame->reserved = load16(datagram.ptr + 6);
    return true;
}

bool proto_is_reply(struct slice bytes)
{
    char word[sizeof(reply_words[0])] = {0};
    size_t n = 0;

    if (bytes.len == 0 || bytes.ptr[0] < 'A' || bytes.ptr[0] > 'Z')
        return false;
    while (n < bytes.len && n < sizeof(word) && bytes.ptr[n] > ' ') {
        word[n] = bytes.ptr[n];
        n++;
    }
    for (size_t i = 0; i < sizeof(reply_words) / sizeof(reply_words[0]); i++)
        if (memcmp(word, reply_words[i], sizeof(word)) == 0)
            return true;
    return false;
}

void proto_render_frame(char out[8], const struct udp_frame *frame)
{
    store16(out, frame->id);
    store16(out + 2, frame->sequence);
    store16(out + 4, frame->count);
    store16(out + 6, frame->reserved);
}
