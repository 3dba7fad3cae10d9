/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/stores.h"

#include <stdlib.h>
#include <string.h>

#include "bench/options.h"
#include "bench/stream.h"

enum { WINDOW = 1 << 12 }; /* stores of a connection without a reply */

struct stores_connection {
    struct stream stream;
    uint32_t next, oldest;
    struct store window[WINDOW];
};

void stores_init(struct stores *stores, const struct items *items,
                 const struct sockaddr_in *address, size_t n)
{
    *stores = (struct stores){.items = items, .n = n};
    stores->connections = calloc(n, sizeof(*stores->connections));
    if (n && !stores->connections)
        fail("out of memory");
    for (size_t i = 0; i < n; i++)
        stream_open(&stores->connections[i].stream, address);
}

void stores_fini(struct stores *stores)
{
    for (size_t i = 0; i < stores->n; i++)
        stream_close(&stores->connections[i].stream);
    free(stores->connections);
}

void stores_add(struct stores *stores, const struct store *store, uint32_t version)
{
    struct stores_connection *connection = &stores->connections[stores->turn];
    char *room = stream_reserve(&connection->stream,
                                items_length(stores->items, store->index) + ITEMS_KEY_MAX + 64);

    if (connection->next - connection->oldest == WINDOW)
        fail("%d sets wait for their replies", WINDOW);
    connection->window[connection->next++ % WINDOW] = *store;
    stream_put(&connection->stream, items_set(stores->items, store->index, version, "", room));
    stream_flush(&connection->stream);
    stores->turn = (stores->turn + 1) % stores->n;
    stores->open++;
}

bool stores_turn(struct stores *stores,
                 void (*done)(void *ctx, const struct store *store, bool stored), void *ctx)
{
    size_t before = stores->open, n;
    const char *text;

    for (size_t i = 0; i < stores->n && stores->open; i++) {
        struct stores_connection *connection = &stores->connections[i];

        if (connection->next == connection->oldest)
            continue;
        stream_flush(&connection->stream);
        stream_receive(&connection->stream);
        while ((n = stream_reply(&connection->stream, &text))) {
            if (connection->oldest == connection->next)
                fail("a reply that nobody asked for");
            stores->open--;
            done(ctx, &connection->window[connection->oldest++ % WINDOW],
                 n == 8 && memcmp(text, "STORED\r\n", n) == 0);
            stream_take(&connection->stream, n);
        }
    }
    return stores->open != before;
}

size_t stores_poll(const struct stores *stores, struct pollfd *fds)
{
    size_t n = 0;

    for (size_t i = 0; i < stores->n; i++)
        if (stores->connections[i].next != stores->connections[i].oldest)
            fds[n++] = (struct pollfd){.fd = stores->connections[i].stream.fd, .events = POLLIN};
    return n;
}
