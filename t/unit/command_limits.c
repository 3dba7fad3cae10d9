/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands with large values, many keys and little memory. */
#include "store/store_items.h"
#include "t/unit/command_client.h"

#define END       "END\r\n"
#define TOO_LARGE "SERVER_ERROR object too large for cache\r\n"
#define NO_MEMORY "SERVER_ERROR out of memory storing object\r\n"

static bool no_memory;

/* Replaces the C library's realloc, by which the replies grow. */
void *reallocarray(void *array, size_t n, size_t width)
{
    size_t size;

    return no_memory || __builtin_mul_overflow(n, width, &size) ? NULL : realloc(array, size);
}

/* A storage line with `n` bytes of value, whose bytes depend on their position. Freed by the
 * caller. */
static char *storage_line(const char *verb, const char *key, size_t n, const char *rest,
                          size_t *len)
{
    char *line = malloc(n + 512);
    int head;

    if (!line)
        die("malloc");
    head = sprintf(line, "%s %s 0 0 %zu%s\r\n", verb, key, n, rest);
    for (size_t i = 0; i < n; i++)
        line[(size_t)head + i] = (char)('a' + i * 31 % 26);
    memcpy(line + (size_t)head + n, "\r\n", 2);
    *len = (size_t)head + n + 2;
    return line;
}

static bool stores(struct server *server, const char *verb, size_t n, const char *answer)
{
    size_t len;
    char *line = storage_line(verb, "big", n, "", &len);
    bool same = strcmp(server_ask(server, line, len), answer) == 0;

    free(line);
    return same;
}

static bool comes_back(struct server *server, size_t n)
{
    char head[64];
    size_t nhead = (size_t)sprintf(head, "VALUE big 0 %zu\r\n", n);
    const char *got = ask(server, "get big\r\n");

    if (server->nout != nhead + n + 2 + strlen(END) || memcmp(got, head, nhead) != 0 ||
        strcmp(got + nhead + n, "\r\n" END) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (got[nhead + i] != (char)('a' + i * 31 % 26))
            return false;
    return true;
}

static void large_values(struct server *server)
{
    static const size_t sizes[] = {1,      1000,   16000,  262144,  400000, 524200,
                                   524288, 524400, 700000, 1000000, 1048000};
    static const size_t steps[] = {1000000, 4096, 1021};

    for (size_t i = 0; i < COUNT(sizes); i++) {
        for (size_t j = 0; j < COUNT(steps); j++) {
            server->step = steps[j];
            ok(stores(server, "set", sizes[i], "STORED\r\n") && comes_back(server, sizes[i]),
               "a value of %zu bytes in steps of %zu is stored and returned", sizes[i], steps[j]);
        }
    }
}

static void too_large_values(struct server *server)
{
    char *line;
    size_t len;

    server->step = 65536;
    ask(server, "set big 0 0 1\r\nx\r\n");
    ok(stores(server, "add", 2000000, TOO_LARGE) && stores(server, "append", 2000000, TOO_LARGE) &&
           stores(server, "replace", 2000000, TOO_LARGE),
       "add, append and replace refuse a value larger than -I");
    ok(strcmp(ask(server, "get big\r\n"), "VALUE big 0 1\r\nx\r\n" END) == 0,
       "a refused add, append or replace keeps the old value");
    ok(stores(server, "set", 2000000, TOO_LARGE), "set refuses a value larger than -I");
    ok(strcmp(ask(server, "get big\r\n"), END) == 0, "a refused set removes the old value");
    ask(server, "set big 0 0 1\r\nx\r\n");
    line = storage_line("set", "big", 2000000, " noreply", &len);
    ok(strcmp(server_ask(server, line, len), "") == 0 && !server->closed,
       "with noreply a too large value is skipped without an answer");
    ok(strcmp(ask(server, "get big\r\n"), END) == 0,
       "a refused set with noreply removes the old value");
    free(line);
    ok(stores(server, "set", 1000000, "STORED\r\n") && stores(server, "append", 1000, "STORED\r\n"),
       "append accepts a value up to -I");
    ok(stores(server, "append", 100000, "NOT_STORED\r\n") &&
           stores(server, "prepend", 100000, "NOT_STORED\r\n") &&
           strncmp(ask(server, "get big\r\n"), "VALUE big 0 1001000\r\n", 21) == 0,
       "append and prepend beyond -I are refused and keep the old value");
}

static void given_up_values(struct server *server)
{
    ask(server, "set k 0 0 1\r\nx\r\n");
    ask(server, "set k 0 0 100\r\nabc");
    ok(server->closed, "a connection closes within a value");
    ok(strcmp(ask(server, "get k\r\n"), "VALUE k 0 1\r\nx\r\n" END) == 0,
       "a value that was not completed leaves the old one");
}

static void full_memory(void)
{
    struct store_config store;
    struct server server;
    bool refused = false;
    char key[32];

    server_defaults(&server, &store);
    store.memory_limit = 8 << 20;
    store.evict = false;
    server_start(&server, &store);
    server.step = 1 << 20;
    for (int i = 0; i < 40 && !refused; i++) {
        size_t len;
        char *line;

        snprintf(key, sizeof(key), "k%d", i);
        line = storage_line("set", key, 500000, "", &len);
        refused = strcmp(server_ask(&server, line, len), NO_MEMORY) == 0;
        free(line);
    }
    ok(refused, "with -M a set into full memory is refused");
    ok(stores(&server, "set", 500000, NO_MEMORY) && !server.closed &&
           strcmp(ask(&server, "get big\r\n"), END) == 0,
       "the body of the refused value is skipped");
    server_stop(&server);
}

/* "get k k k ...", n times. */
static char *get_line(const char *keys, size_t n, size_t *len)
{
    size_t width = strlen(keys);
    char *line = malloc(n * width + 16);

    if (!line)
        die("malloc");
    memcpy(line, "get", 3);
    for (size_t i = 0; i < n; i++)
        memcpy(line + 3 + i * width, keys, width);
    memcpy(line + 3 + n * width, "\r\n", 2);
    *len = 3 + n * width + 2;
    return line;
}

static void many_gets_of_one_key(void)
{
    static const char one[] = "VALUE a 0 1\r\nx\r\n";
    static const char two[] = "VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\ny\r\n";
    struct store_config store;
    struct server server;
    struct store_local *local;
    struct mc_item *item;
    char *line;
    size_t len;

    server_defaults(&server, &store);
    server_start(&server, &store);
    ask(&server, "set a 0 0 1\r\nx\r\nset b 0 0 1\r\ny\r\n");
    line = get_line(" a", 200000, &len);
    server_ask(&server, line, len);
    ok(server.nout == 200000 * strlen(one) + 5,
       "200,000 gets of one key in a request are answered");
    free(line);
    line = get_line(" a b", 100000, &len);
    server_ask(&server, line, len);
    ok(server.nout == 100000 * strlen(two) + 5, "100,000 gets of two keys in turn are answered");
    free(line);
    local = store_local_new(server.store);
    item = local ? store_get(local, SLICE("a"), server.now) : NULL;
    if (ok(item && item->refcount == 2, "all references are released afterwards"))
        store_put(local, item);
    store_local_free(local);
    server_stop(&server);
}

/* Runs one line and leaves the reply as it is. */
static void run_line(struct server *server, const char *line, size_t len)
{
    struct command_pending pending;
    struct request request;

    if (proto_parse_text((struct slice){line, len}, &request) != (ssize_t)len)
        die("no line");
    command_run(server->local, &request, &server->client, server->now, &server->reply, &pending);
}

/* With the table's reference and one more, this many make the store copy the value for new readers.
 */
enum { HOLDERS = (1 << 15) - 2 };

static void copies_are_bounded(void)
{
    static const char failed[] = "SERVER_ERROR out of memory writing get response\r\n";
    struct store_local *holder;
    struct store_config store;
    struct mc_item *item = NULL;
    struct server server;
    char *line;
    size_t len;

    server_defaults(&server, &store);
    server_start(&server, &store);
    server.step = 1 << 20;
    stores(&server, "set", 100000, "STORED\r\n");
    ask(&server, "set b 0 0 1\r\ny\r\n");
    holder = store_local_new(server.store);
    for (int i = 0; i < HOLDERS; i++)
        item = store_get(holder, SLICE("big"), server.now);
    line = get_line(" big b", 1000, &len);
    run_line(&server, line, len);
    ok(server.reply.nbytes == strlen(failed) && !server.reply.failed &&
           memcmp(server.reply.pieces[0].ptr, failed, strlen(failed)) == 0,
       "a reply whose items cannot be referenced is one error line");
    command_release(server.local, &server.reply);
    for (int i = 0; i < HOLDERS; i++)
        store_put(holder, item);
    store_local_free(holder);
    free(line);
    ok(comes_back(&server, 100000), "the connection can be used afterwards");
    server_stop(&server);
}

static void a_hit_is_not_copied(struct server *server)
{
    struct reply held;

    ask(server, "set key 5 0 3\r\nabc\r\n");
    run_line(server, "get key\r\n", 9);
    ok(server->reply.npieces == 3 && server->reply.ntext == 0 && server->reply.nheld == 1,
       "a hit's reply is VALUE, the item's own bytes, END");
    ok(server->reply.pieces[1].ptr == ((struct mc_item *)server->reply.held[0])->wire &&
           server->reply.pieces[1].len == strlen("key 5 3\r\nabc\r\n"),
       "the item's bytes are sent from the item's memory");
    held = server->reply;
    reply_init(&server->reply);
    ask(server, "set key 5 0 3\r\nxyz\r\ndelete key\r\nset other 0 0 3\r\nuvw\r\n");
    ok(memcmp(held.pieces[1].ptr, "key 5 3\r\nabc\r\n", 14) == 0,
       "the bytes stay unchanged while the reply holds the item");
    reply_fini(&server->reply);
    server->reply = held;
    command_release(server->local, &server->reply);
}

/* Sends gets while realloc fails, so that pieces, text and holds cannot grow. */
static void a_reply_without_memory(struct server *server)
{
    static const char failed[] = "SERVER_ERROR out of memory writing get response\r\n";
    char *line;
    size_t len;

    ask(server, "set a 0 0 1\r\nx\r\nset b 0 0 1\r\ny\r\nget a\r\n");
    line = get_line(" a b", 1000, &len);
    no_memory = true;
    ok(strcmp(server_ask(server, line, len), failed) == 0 && !server->closed,
       "a get that runs out of memory is answered with an error, without any of its values");
    ok(strcmp(ask(server, "get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n") == 0,
       "the next small get is answered");
    ok(strcmp(ask(server, "stats\r\n"), "SERVER_ERROR out of memory writing stats\r\n") == 0,
       "stats that run out of memory are answered with an error");
    reply_fini(&server->reply);
    ok(strcmp(ask(server, "get a\r\n"), "") == 0 && server->closed,
       "without memory for the error line the connection closes");
    ok(strcmp(ask(server, "set c 0 0 1\r\nx\r\n"), "") == 0 && server->closed,
       "without memory for the reply to a set the connection closes");
    no_memory = false;
    ok(strcmp(ask(server, "get c a\r\n"), "VALUE c 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\n") == 0,
       "with memory again commands are answered as before");
    free(line);
}

int main(void)
{
    with_server(large_values);
    with_server(too_large_values);
    with_server(given_up_values);
    full_memory();
    many_gets_of_one_key();
    copies_are_bounded();
    with_server(a_hit_is_not_copied);
    with_server(a_reply_without_memory);
    return done();
}
