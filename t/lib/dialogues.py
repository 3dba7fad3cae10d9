# SPDX-License-Identifier: BSD-3-Clause
"""dialogues: requests that random streams seldom contain, sent to both servers one by one.

Each request has a connection of its own; compared are the bytes of the answer and whether the
connection is closed. Where 1.6.18 has to differ is in t/differences.md, and left out here.
"""
import struct

import binary as b
import server
import tap

MOST = b"18446744073709551615"
OVER = b"x" * 2000000 # no item is so large
NOOP = b.request("noop", opaque=b.Binary.NOOP)


def stored(value, then):
    return b"set n 0 0 %d\r\n%s\r\n%s\r\nget n\r\n" % (len(value), value, then)


def ends():
    """quit and HTTP: lines that close the connection, and lines that only look like them."""
    for line in (b"quit", b" quit", b"quit ", b"Quit", b"GET / HTTP/1.1", b"HTTP/1.1",
                 b"POST /a HTTP/1.0", b"HTTP/1.1 200 OK", b"POST / HTTP/1.1 x", b"x http/1.1",
                 b"x aHTTP/1", b"get HTTP/1.1", b"get a HTTP/1.1", b"set a 0 0 1 HTTP/1.1",
                 b"incr a HTTP/1.1", b"touch a HTTP/1.1", b"delete HTTP/1.1", b"mg a HTTP/1.1",
                 b"stats HTTP/1.1"):
        yield line + b"\r\n"
        yield line + b"\n"


def lines():
    """Lengths around 1,024 and 2,048, with and without an end."""
    for n in (1000, 1022, 1023, 1024, 1025, 1500, 2045, 2046, 2047, 2048, 2049, 2100, 4000):
        for start in (b"x", b"set a 0 0 1", b"get a", b"gets a", b"gat 0 a", b"mg a", b"delete a",
                      b"touch a 0", b"incr a 1", b"ms a 1"):
            yield start.ljust(n) + b"\r\nx\r\n"
        yield b"x" * n + b"\r\n"
        yield b"get " + b"a " * (n // 2) + b"\r\n"
        yield b"gat 0 " + b"a " * (n // 2) + b"\r\n"
        yield b"get " + b"a " * (n // 2)
        if n <= 1024 or n > 2048:
            yield b"x" * n


def numbers():
    """Counters, times and flags at their limits."""
    for value in (MOST, b"18446744073709551614", b"18446744073709551616", b"9223372036854775807",
                  b"9223372036854775808", b"9999999999999999999", b"10000000000000000000",
                  b"184467440737095516150", b"0" * 29 + b"1", b"+7", b" 7", b"7 ", b"7\t", b"\t7",
                  b"-7", b"7\r\n", b"0x7", b"7.0", b"00010", b"-1", b"x", b"", b"1" * 1000):
        for then in (b"incr n 1", b"incr n " + MOST, b"decr n 1", b"decr n " + MOST,
                     b"incr n 9223372036854775808"):
            yield stored(value, then)
    for delta in (b"18446744073709551616", b"-1", b"-18446744073709551615", b"+1", b"01", b"1x"):
        yield stored(b"5", b"incr n " + delta)
    for n in (b"4294967295", b"4294967296", b"4294967301", b"9223372036854775808", MOST,
              b"18446744073709551616", b"-1", b"-4294967296", b"+5", b"5x", b"x", b"0", b"007",
              b"0x1", b"1.0"):
        yield b"set f %s 0 1\r\nx\r\nget f\r\n" % n
        yield b"md f\r\nms f 1 F%s\r\nx\r\nmg f f\r\n" % n
    for n in (b"2147483647", b"2147483648", b"4294967295", b"4294967296", b"4294967396",
              b"9223372036854775807", b"9223372036854775808", b"-2147483648", b"-2147483649",
              b"-4294967296", b"99999999999999999999", b"0", b"1000", b"-1", b"2592000", b"2592001",
              b"x", b"1x"):
        yield b"delete e\r\nset e 0 %s 1\r\nx\r\nget e\r\n" % n
        yield b"set e 0 0 1\r\nx\r\ntouch e %s\r\nget e\r\n" % n
        yield b"set e 0 0 1\r\nx\r\ngat %s e\r\nget e\r\n" % n
        yield b"md e\r\nms e 1 T%s\r\nx\r\nmg e v\r\n" % n
        yield b"md g\r\nmg g N%s v\r\n" % n


def others():
    """Commands without a key; values that outgrow the largest item."""
    large = b"x" * 700000
    for join in (b"append a 0 0 700000", b"prepend a 0 0 700000", b"ms a 700000 MA",
                 b"ms a 700000 MP", b"ms a 700000 MA q O1 k"):
        yield (b"set a 0 0 700000\r\n" + large + b"\r\n" + join + b"\r\n" + large +
               b"\r\nmg a s\r\n")
    for words in (b"x", b"-1", b"", b"3", b"0 x", b"0 0 0", b"noreply", b"noreply noreply",
                  b"0 noreply", b"x noreply", b"4294967296"):
        yield b"verbosity %s\r\n" % words
    yield b"verbosity 0\r\n"
    for words in (b"64", b"7", b"8", b"-1", b"0", b"1000000001", b"x", b"64 x", b"noreply",
                  b"64 noreply", b"7 noreply", b"x noreply", b"64 64 64"):
        yield b"cache_memlimit %s\r\n" % words
    yield b"cache_memlimit 64\r\n"
    for words in (b"reset", b"reset x", b"reset noreply", b"detail", b"detail x", b"malloc",
                  b"maps", b"noreply", b"cachedump", b"cachedump 1", b"cachedump x 1",
                  b"cachedump 1 x", b"cachedump 300 1", b"sizes", b"sizes x",
                  b"sizes_enable", b"sizes_disable", b"ITEMS"):
        yield b"stats %s\r\n" % words
    for line in (b"misbehave", b"shutdown", b"shutdown x", b"extstore", b"set k 0 0 noreply",
                 b"cas k 0 0 1 noreply", b"add k 0 0 noreply"):
        yield line + b"\r\n"
    for words in (b"", b" 0", b" -1", b" noreply", b" x", b" 1x", b" 0 0", b" x noreply",
                  b" 0 0 0", b" -2147483648"):
        yield b"set a 0 0 1\r\nx\r\nflush_all%s\r\nget a\r\n" % words


# None after a get that gives the reader the win: in the same read 1.6.18 then counts in a new item,
# which is not stale.
STATES = (
    b"delete K", b"set K 7 0 2\r\n15", b"set K 7 0 2\r\nab", b"set K 7 -1 2\r\n15",
    b"set K 7 0 2\r\n15\r\nflush_all", b"set K 7 0 2\r\n15\r\ntouch K -1",
    b"set K 7 0 2\r\n15\r\ngat -1 K", b"set K 7 0 2\r\n15\r\nmd K I T100",
    b"set K 7 0 2\r\n99\r\nmd K I T100", b"set K 7 0 2\r\n15\r\nmd K I T-1",
    b"delete K\r\nmg K N50", b"delete K\r\nmg K N50\r\nmg K", b"set K 7 0 2\r\n15\r\nmg K T-1",
    b"set K 7 0 1048000\r\n" + b"1" * 1048000)
COMMANDS = (
    b"get K", b"get K x K", b"gat 100 K", b"gat -1 K", b"touch K 100", b"touch K -1",
    b"touch K 100 noreply", b"delete K", b"delete K noreply", b"incr K 1", b"decr K 20",
    b"incr K 1 noreply", b"add K 0 0 1\r\n9", b"add K 0 -1 1\r\n9", b"replace K 0 0 1\r\n9",
    b"append K 0 0 1\r\n9", b"prepend K 0 -1 1 noreply\r\n9", b"cas K 0 0 1 99999999\r\n9",
    b"set K 0 -1 1\r\n9", b"set K 0 0 1\r\n99", b"set K 0 0 1 noreply\r\n99",
    b"set K 0 0 2000000\r\n" + OVER, b"set K 0 0 2000000 noreply\r\n" + OVER,
    b"append K 0 0 2000000\r\n" + OVER, b"append K 0 0 2000\r\n" + b"x" * 2000,
    b"set K 0 1 noreply", b"mg K v f", b"mg K v N30", b"mg K v N30\r\nmg K v", b"mg K T30 v",
    b"mg K T-1 v", b"mg K R1000 v\r\nmg K v", b"ms K 1\r\n9", b"ms K 1 MA\r\n9", b"ms K 1 MP\r\n9",
    b"ms K 1 ME\r\n9", b"ms K 1 MR\r\n9", b"ms K 1 MA N30\r\n9", b"ms K 1 C99999999\r\n9",
    b"ms K 1 C99999999 I\r\n9", b"ms K 1 T-1\r\n9", b"ms K 1\r\n99",
    b"ms K 2000000\r\n" + OVER, b"md K", b"md K q", b"md K I T30\r\nmg K v",
    b"md K C99999999", b"md K I C99999999", b"ma K v", b"ma K N0 J13 v", b"ma K MD D20 v",
    b"ma K T30 v")


def states():
    """Each command on an item in each state, and what is there afterwards."""
    for state in STATES:
        for i, command in enumerate(COMMANDS):
            dialogue = state + b"\r\n" + command + b"\r\nmg K v f s k\r\n"
            yield dialogue.replace(b"K", b"state%d" % i)


def answer(where, request):
    """(the bytes, closed?) to a short text that may be no whole request."""
    stream = where.stream()
    stream.send(request)
    data = b""
    try:
        # The one worker answers a request on another connection after it has answered this one.
        for _ in range(2):
            control = where.stream()
            control.ask(b"version\r\n")
            control.close()
        stream.sock.setblocking(False)
        while True:
            part = stream.sock.recv(1 << 20)
            if not part:
                return data, True
            data += part
    except BlockingIOError:
        return data, False
    except ConnectionResetError:
        return data, True
    finally:
        stream.close()


def whole_answer(where, request):
    """The answer to requests that leave the connection open."""
    stream = where.stream()
    try:
        return stream.all(request)
    finally:
        stream.close()


def compare(name, requests, pair, ask=whole_answer):
    wrong, count = [], 0
    for request in requests:
        count += 1
        answers = [ask(where, request) for where in pair]
        if answers[0] != answers[1]:
            wrong.append((request[:100], len(request), answers))
    for request, size, answers in wrong[:5]:
        tap.diag("%r (%d bytes)\n  ours   %.300r\n  theirs %.300r" % ((request, size) +
                                                                    tuple(answers)))
    tap.is_(len(wrong), 0, "%s: %d dialogues have the same answers" % (name, count))


def delayed_flush(pair):
    """flush_all with a time in the future, on servers that have not been flushed before."""
    seen = []
    for where in pair:
        c = where.stream()
        first = c.all(b"set old 0 0 1\r\nx\r\nflush_all 2\r\nget old\r\n")
        c.all(b"set between 0 0 1\r\nx\r\n")
        gone = server.wait_for(lambda: c.get(b"old") is None)
        second = c.all(b"get old between\r\n")
        # Nothing that is set within the second of the flush stays.
        stays = server.wait_for(lambda: c.set(b"new", b"y") and c.get(b"new") == b"y")
        seen.append((first, gone, second, stays, c.all(b"get old between new\r\n")))
    tap.is_(seen[0], seen[1],
            "flush_all 2 removes at its time what was set before, and nothing later")


COUNTS = """cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses get_expired get_flushed
delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval
touch_hits touch_misses auth_cmds auth_errors curr_items total_items evictions reclaimed threads
expired_unfetched evicted_unfetched limit_maxbytes conn_yields hash_power_level hash_bytes
hash_is_expanding slab_global_page_pool malloc_fails accepting_conns listen_disabled_num
pointer_size max_connections rejected_connections reserved_fds slabs_moved""".split()
# What depends on the layout of items or on time; t/e2e/server/slab-classes.t has the chunks.
APART = ("mem_requested", "age", "lrutail_reflocked", "hits_to_hot", "hits_to_warm", "hits_to_cold",
         "chunk_size", "total_chunks", "free_chunks")
SCRIPT = (
    b"".join(b"set k%d 0 0 %d\r\n%s\r\n" % (size, size, b"v" * size)
             for size in (1, 500, 1000, 5000, 20000, 70000, 300000)) +
    b"get k1 k500 none k1\r\ngets k1000\r\ngat 0 k500\r\ngats 0 none\r\ntouch k1 0\r\n"
    b"touch none 0\r\nset n 0 0 1\r\n5\r\nincr n 1\r\ndecr n 1\r\nincr none 1\r\ndecr none 1\r\n"
    b"delete none\r\nset d 0 0 1\r\nx\r\ndelete d\r\nadd k1 0 0 1\r\nx\r\nadd a 0 0 1\r\nx\r\n"
    b"replace none 0 0 1\r\nx\r\nappend a 0 0 1\r\nx\r\nprepend none 0 0 1\r\nx\r\n"
    b"cas none 0 0 1 1\r\nx\r\ncas a 0 0 1 1\r\nx\r\nset a 0 0 1\r\nxyz\r\nset b 0 -1 1\r\nx\r\n"
    b"get b\r\nset c 0 0 1\r\nx\r\nmg k1 v\r\nmg none v\r\nms m 1\r\nx\r\nmd m\r\nma n\r\nme n\r\n"
    b"mg n T0\r\nmg new N30\r\nset big 0 0 1100000\r\n" + b"x" * 1100000 + b"\r\nfoo\r\nget\r\n")


def without(rows):
    return {key: value for key, value in rows if not key.endswith(APART)}


def counts(pair):
    """The same statistics after the same commands, except those that depend on the layout."""
    rows = []
    for where in pair:
        c = where.stream()
        c.all(SCRIPT)
        stats = c.stats()
        rows.append(({key: stats[key] for key in COUNTS}, without(c.stats_list("items")),
                     without(c.stats_list("slabs"))))
    for which, name in enumerate(("stats", "stats items", "stats slabs")):
        mine, theirs = rows[0][which], rows[1][which]
        different = {key: (mine.get(key), theirs.get(key)) for key in mine | theirs
                     if mine.get(key) != theirs.get(key)}
        tap.is_(different, {}, "%s: %d keys have the same values" % (name, len(mine)))


def datagram_answer(udp, data):
    """The answers to a datagram, before the answer to the noop in a second datagram. The frames
    that 1.6.18 sends without an answer are ignored.
    """
    ident = udp.send(data)
    last = udp.send(NOOP)
    found = b""
    while True:
        datagram = udp.recv_raw()
        got, _, count, _ = struct.unpack("!HHHH", datagram[:8])
        if got == last:
            return found
        if got == ident and count:
            found += datagram[8:]


def compare_datagrams(name, datagrams, plain, pair):
    """plain: which part of an answer is compared."""
    sockets = [where.udp() for where in pair]
    wrong, count = [], 0
    for data in datagrams:
        count += 1
        try:
            answers = [plain(datagram_answer(udp, data)) for udp in sockets]
        except (TimeoutError, ValueError) as error:
            answers = [repr(error), ""]
            sockets = [where.udp() for where in pair]
        if answers[0] != answers[1]:
            wrong.append((data[:80], answers))
    tap.is_(wrong[:3], [], "%s: %d datagrams have the same answers" % (name, count))


def text_datagrams():
    """Datagrams that end early or that have a line which closes a connection."""
    for data in (b"g", b"get", b"get a", b"get a\r", b"get a\r\nget", b" ", b"\r", b"x" * 1500,
                 b"get " + b"a " * 900, b"quit\r\n", b"quit\r\nget a\r\n",
                 b"get a\r\nquit\r\nget a\r\n", b"GET / HTTP/1.1\r\nget a\r\n", b"\n", b"\n\n\n",
                 b"delete a\r\nset", b"\x80", b"\x80\r\n", b"\x80get a\r\n"):
        yield data
