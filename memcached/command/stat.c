/* SPDX-License-Identifier: BSD-3-Clause */
#include "command/stat.h"

#include <inttypes.h>

#include "command/command.h"

void stat_add(struct stat_sink *sink, const char *key, const char *format, ...)
{
    va_list args;

    reply_printf(sink->reply, "STAT %s ", key);
    va_start(args, format);
    reply_vprintf(sink->reply, format, args);
    va_end(args);
    reply_copy(sink->reply, SLICE("\r\n"));
}

unsigned int stat_conditions(const struct command_config *config)
{
    return (config->maxconns_fast ? WHEN_MAXCONNS_FAST : 0u) |
           (config->idle_timeout ? WHEN_IDLE_TIMEOUT : 0u) |
           (config->slab_reassign ? WHEN_SLAB_REASSIGN : 0u) |
           (config->lru_crawler ? WHEN_LRU_CRAWLER : 0u) |
           (config->segmented ? WHEN_SEGMENTED : 0u) | (config->temp ? WHEN_TEMP : 0u);
}

static void add_row(struct stat_sink *sink, const char *prefix, const struct stat_row *row,
                    const void *object)
{
    const char *field = (const char *)object + row->offset;
    uint64_t value = 0;

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
        reply_printf(sink->reply, "STAT %s%s %s\r\n", prefix, row->name,
                     *(const char *const *)(const void *)field);
        return;
    case STAT_ZERO:
        break;
    }
    reply_printf(sink->reply, "STAT %s%s %" PRIu64 "\r\n", prefix, row->name, value);
}

void stat_rows(struct stat_sink *sink, const char *prefix, const struct stat_row *rows,
               size_t nrows, const void *object, unsigned int conditions)
{
    size_t i;

    for (i = 0; i < nrows; i++) {
        if (rows[i].when == 0 || (rows[i].when & conditions)) {
            add_row(sink, prefix, &rows[i], object);
        }
    }
}
