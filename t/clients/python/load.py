# SPDX-License-Identifier: BSD-3-Clause
"""Gets without an end, for bench/clients: load.py CLIENT HOST PORT AT-ONCE KEYS

CLIENT is a client of PyPI: in Python's words below. AT-ONCE: gets in flight; KEYS: of each get.
Every value is compared.
"""
import asyncio
import itertools
import sys

HOST, PORT, AT_ONCE, NKEYS = sys.argv[2], *map(int, sys.argv[3:6])
ITEMS = 1000
SECONDS = 3600 # the bench stops a client while it measures another


def value(key):
    return key.ljust(100, b".")


def check(key, found):
    found = found.encode() if isinstance(found, str) else found
    if found != value(key):
        sys.exit("load: %r has the value %r" % (key, found))


def key_lists():
    """The keys of one get after the other."""
    places = (number * 7 % ITEMS for number in itertools.count())
    while True:
        yield ["load:%03d" % next(places) for _ in range(NKEYS)]


def repeat(get, get_many):
    """By functions of one key and of many."""
    for keys in key_lists():
        found = {keys[0]: get(keys[0])} if NKEYS == 1 else get_many(keys)
        for key in keys:
            check(key.encode(), found.get(key))


def pymemcache():
    from pymemcache.client.base import Client
    c = Client((HOST, PORT), no_delay=True)
    repeat(c.get, c.get_many)


def pylibmc(binary=False):
    import pylibmc as library
    c = library.Client(["%s:%d" % (HOST, PORT)], binary=binary,
                       behaviors={"tcp_nodelay": True, "_poll_timeout": SECONDS * 1000})
    repeat(c.get, c.get_multi)


def pylibmc_binary():
    pylibmc(binary=True)


def bmemcached():
    import bmemcached as library
    c = library.Client(["%s:%d" % (HOST, PORT)], socket_timeout=SECONDS)
    repeat(c.get, c.get_multi)


def meta_memcache():
    import meta_memcache as library
    c = library.CacheClient.cache_client_from_servers(
        servers=[library.ServerAddress(HOST, PORT)],
        connection_pool_factory_fn=library.connection_pool_factory_builder(recv_timeout=SECONDS))

    def get_many(keys):
        return {key.key: found for key, found in c.multi_get(map(library.Key, keys)).items()}

    repeat(lambda key: c.get(library.Key(key)), get_many)


async def asynchronous(many):
    import aiomcache as library
    c = library.Client(HOST, PORT, pool_size=AT_ONCE)

    async def ask():
        for keys in key_lists():
            encoded = [key.encode() for key in keys]
            for key, found in zip(encoded, await many(c, encoded)):
                check(key, found)

    await asyncio.gather(*(ask() for _ in range(AT_ONCE)))


def aiomcache():
    async def many(c, keys):
        return [await c.get(keys[0])] if NKEYS == 1 else await c.multi_get(*keys)

    asyncio.run(asynchronous(many))


{function.__name__: function for function in (
    pymemcache, pylibmc, pylibmc_binary, bmemcached, meta_memcache, aiomcache)}[sys.argv[1]]()
