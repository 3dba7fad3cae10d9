/* SPDX-License-Identifier: BSD-3-Clause */
#include "command/stat.h"

#include <inttypes.h>
#include <stdio.h>

#include "command/call.h"
#include "store/store_crawler.h"
#include "store/store_tuning.h"

enum { STAT_KEY_MAX = 128 };

/* The header and the key of a binary answer, whose value takes `nvalue` bytes. */
static void begin_binary(struct stat_sink *sink, const char *key, int nvalue)
{
    struct binary_header head = {
        .id = *sink->binary, .nkey = (uint8_t)strlen(key), .nvalue = (uint32_t)nvalue};
    char bytes[PROTO_BINARY_HEADER];

    proto_render_binary(bytes, &head);
    reply_copy(sink->reply, (struct slice){bytes, sizeof(bytes)});
    reply_copy(sink->reply, (struct slice){key, head.nkey});
}

static void stat_vadd(struct stat_sink *sink, const char *key, const char *format, va_list args)
{
    va_list again;
    int nvalue;

    if (!sink->binary) {
        reply_printf(sink->reply, "STAT %s ", key);
        reply_vprintf(sink->reply, format, args);
        reply_copy(sink->reply, SLICE("\r\n"));
        return;
    }
    va_copy(again, args);
    nvalue = vsnprintf(NULL, 0, format, again);
    va_end(again);
    begin_binary(sink, key, nvalue > 0 ? nvalue : 0);
    reply_vprintf(sink->reply, format, args);
}

void stat_add(struct stat_sink *sink, const char *key, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    stat_vadd(sink, key, format, args);
    va_end(args);
}

unsigned int stat_conditions(const struct commands *commands)
{
    const struct command_config *config = &commands->config;
    struct store_tuning tuning;

    store_tuning(commands->store, &tuning);
    return (config->maxconns_fast ? WHEN_MAXCONNS_FAST : 0u) |
           (config->idle_timeout ? WHEN_IDLE_TIMEOUT : 0u) |
           (config->slab_reassign ? WHEN_SLAB_REASSIGN : 0u) |
           (store_crawler_running(commands->store) ? WHEN_LRU_CRAWLER : 0u) |
           (config->lru_segmented ? WHEN_SEGMENTED : 0u) | (tuning.temp ? WHEN_TEMP : 0u) |
           (config->tls ? WHEN_TLS : 0u) | (config->flash ? WHEN_FLASH : 0u);
}

static void add_row(struct stat_sink *sink, const char *prefix, const struct stat_row *row,
                    const void *object)
{
    const char *field = (const char *)object + row->offset;
    char key[STAT_KEY_MAX];
    uint64_t value = 0;

    snprintf(key, sizeof(key), "%s%s", prefix, row->name);

    switch ((enum stat_type)row->type) {
    case STAT_U64:
        value = *(const uint64_t *)(const void *)field;
        break;
    case STAT_U32:
        value = *(const uint32_t *)(const void *)field;
        break;
    case STAT_BOOL:
        value = *(const bool *)field;
        break;
    case STAT_TEXT:
        stat_add(sink, key, "%s", *(const char *const *)(const void *)field);
        return;
    case STAT_ZERO:
        break;
    }
    stat_add(sink, key, "%" PRIu64, value);
}

void stat_rows(struct stat_sink *sink, const char *prefix, const struct stat_row *rows,
               size_t nrows, const void *object, unsigned int conditions)
{
    size_t i;

    for (i = 0; i < nrows; i++)
        if (rows[i].when == 0 || (rows[i].when & conditions))
            add_row(sink, prefix, &rows[i], object);
}
