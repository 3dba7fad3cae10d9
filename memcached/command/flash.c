/* SPDX-License-Identifier: BSD-3-Clause */
/* flash: the command `extstore`, which changes the rules by which values go to flash. */
#include <stdlib.h>

#include "base/num.h"
#include "command/call.h"
#include "store/store_flash.h"

typedef bool rule_setter(struct store_flash_rules *rules, const struct request *request);

static bool read_number(struct slice text, uint32_t *out)
{
    uint64_t number;

    if (!num_parse_u64(text, &number) || number > UINT32_MAX)
        return false;
    *out = (uint32_t)number;
    return true;
}

#define NUMBER_RULE(field)                                                                         \
    static bool set_##field(struct store_flash_rules *rules, const struct request *request)        \
    {                                                                                              \
        return read_number(request->tokens[2], &rules->field);                                     \
    }

NUMBER_RULE(item_size)
NUMBER_RULE(item_age)
NUMBER_RULE(low_ttl)
NUMBER_RULE(recache_rate)
NUMBER_RULE(compact_under)
NUMBER_RULE(drop_under)

static bool set_drop_unread(struct store_flash_rules *rules, const struct request *request)
{
    uint32_t on;

    if (!read_number(request->tokens[2], &on))
        return false;
    rules->drop_unread = on != 0;
    return true;
}

static bool set_max_frag(struct store_flash_rules *rules, const struct request *request)
{
    struct slice word = request->tokens[2];
    char text[32];
    char *end;
    double value;

    if (word.len >= sizeof(text))
        return false;
    memcpy(text, word.ptr, word.len);
    text[word.len] = '\0';
    value = strtod(text, &end);
    if (end == text || *end || !(value >= 0))
        return false;
    rules->max_frag = value;
    return true;
}

/* CLASS N: keeps N chunks of a class free; 0: automatic. */
static bool set_free_memchunks(struct store_flash_rules *rules, const struct request *request)
{
    uint32_t clsid, n;

    if (request->ntokens < 4 || !read_number(request->tokens[2], &clsid) ||
        !read_number(request->tokens[3], &n) || clsid >= MC_CLASSES)
        return false;
    rules->free_chunks[clsid] = n;
    return true;
}

static const struct {
    struct slice name;
    rule_setter *set;
} rows[] = {
    {{"free_memchunks", 14}, set_free_memchunks},
    {{"item_size", 9}, set_item_size},
    {{"item_age", 8}, set_item_age},
    {{"low_ttl", 7}, set_low_ttl},
    {{"recache_rate", 12}, set_recache_rate},
    {{"compact_under", 13}, set_compact_under},
    {{"drop_under", 10}, set_drop_under},
    {{"max_frag", 8}, set_max_frag},
    {{"drop_unread", 11}, set_drop_unread},
};

enum command_next command_extstore(struct call *call)
{
    struct store *store = call->local->commands->store;
    const struct request *request = call->request;
    struct store_flash_rules rules;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (slice_equal(request->tokens[1], rows[i].name)) {
            store_flash_rules(store, &rules);
            if (!rows[i].set(&rules, request))
                break;
            store_set_flash_rules(store, &rules);
            return answer(call, SLICE("OK\r\n"));
        }
    }
    return answer(call, SLICE("ERROR\r\n"));
}
