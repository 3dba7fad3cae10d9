/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stat: tables of statistics. A row names one number or text of a struct that the caller has
 * filled; the tables define what `stats` shows, in which order, and when.
 */
#ifndef COMMAND_STAT_H
#define COMMAND_STAT_H

#include <stddef.h>
#include <stdint.h>

#include "command/command.h"

struct stat_sink {
    struct reply *reply;
    const struct binary_id *binary; /* not NULL: the binary request that is answered */
};

/* Conditions of rows that only some servers show; each server has a set of them. */
enum stat_when {
    WHEN_MAXCONNS_FAST = 1 << 0,
    WHEN_IDLE_TIMEOUT = 1 << 1,
    WHEN_SLAB_REASSIGN = 1 << 2,
    WHEN_LRU_CRAWLER = 1 << 3,
    WHEN_SEGMENTED = 1 << 4,
    WHEN_TEMP = 1 << 5,
    WHEN_TLS = 1 << 6,
    WHEN_FLASH = 1 << 7,
};

enum stat_type {
    STAT_U64,
    STAT_U32,
    STAT_BOOL,
    STAT_TEXT,
    STAT_ZERO, /* an event that cannot happen in this server */
};

struct stat_row {
    const char *name;
    uint16_t offset;
    uint8_t type;
    uint8_t when; /* 0: always */
};

struct commands;
unsigned int stat_conditions(const struct commands *commands);
/* Adds the rows of `object`, each name with the prefix. */
void stat_rows(struct stat_sink *sink, const char *prefix, const struct stat_row *rows,
               size_t nrows, const void *object, unsigned int conditions);

struct call;
/* Adds the statistics of one kind; the caller ends the answer. */
typedef void stat_function(struct call *call, struct stat_sink *sink);
/* Finds a kind by name, of those that the binary protocol shows. NULL: none. stats.c */
stat_function *stat_find_binary(struct slice word);
/* `stats` without an argument. general.c */
stat_function stat_general;

#endif
