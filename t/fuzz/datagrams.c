/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/fuzz/datagrams.h"

#include <stdio.h>
#include <string.h>

enum { KEYS = 96 };

uint32_t draw(struct random *random, uint32_t below)
{
    random->state ^= random->state << 13;
    random->state ^= random->state >> 7;
    random->state ^= random->state << 17;
    return (uint32_t)((random->state >> 32) * below >> 32);
}

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

/* One of KEYS keys of many lengths, sometimes another one. */
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

/* Of seconds: of one digit to eight. */
static void put_seconds(struct datagram *datagram, struct random *random)
{
    uint32_t n = 1 + draw(random, draw(random, 4) ? 3 : 8);
    char digit;

    while (n-- > 0) {
        digit = (char)('0' + draw(random, 10));
        put(datagram, &digit, 1);
    }
}

/* A flag of mg: most often one that the kernel knows, now and then any. */
static void put_flag(struct datagram *datagram, struct random *random)
{
    char flag =
        draw(random, 60) ? "vfctskqOvfctskqOhlNR"[draw(random, 20)] : (char)draw(random, 256);
    uint32_t n = flag == 'O' ? (draw(random, 20) ? draw(random, 12) : draw(random, 40)) : 0;

    if (!draw(random, 80))
        flag = "uTEbxX"[draw(random, 6)];
    put(datagram, &flag, 1);
    if ((flag == 'N' || flag == 'R') && draw(random, 20)) {
        put_seconds(datagram, random);
        return;
    }
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

void datagram_make(struct datagram *datagram, struct random *random)
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
