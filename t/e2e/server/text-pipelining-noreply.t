#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Commands in pieces of any length: pipelined, split between any two bytes, and without a reply."""
import threading

import server
import tap

memcached = server.Server(threads=1)
c = memcached.stream()

# A dialogue that brings a connection into every state, and its answers.
DIALOGUE = (
    (b"set split 7 0 12\r\nhello\r\nworld\r\n", b"STORED\r\n"),
    (b"get split\r\n", b"VALUE split 7 12\r\nhello\r\nworld\r\nEND\r\n"),
    (b"get split none split\r\n",
     b"VALUE split 7 12\r\nhello\r\nworld\r\n" * 2 + b"END\r\n"),
    (b"add split 0 0 1\r\nx\r\n", b"NOT_STORED\r\n"),
    (b"append split 0 0 1 noreply\r\n!\r\n", b""),
    (b"foo\r\n", b"ERROR\r\n"),
    (b"get split\n", b"VALUE split 7 13\r\nhello\r\nworld!\r\nEND\r\n"),
    (b"set n 0 0 2\n41\r\n", b"STORED\r\n"),
    (b"incr n 1\r\n", b"42\r\n"),
    (b"delete n\r\n", b"DELETED\r\n"),
    (b"set split 0 0 0\r\n\r\n", b"STORED\r\n"),
    (b"touch split 0\r\n", b"TOUCHED\r\n"),
    (b"get split\r\n", b"VALUE split 0 0\r\n\r\nEND\r\n"),
)
REQUESTS = b"".join(request for request, _ in DIALOGUE)
ANSWERS = b"".join(answer for _, answer in DIALOGUE)


@tap.case
def pipelined_commands_are_answered_in_order():
    tap.is_(c.all(REQUESTS), ANSWERS, "a dialogue in one piece has all its answers")
    tap.is_(c.all(REQUESTS * 500), ANSWERS * 500, "the dialogue 500 times over has all its answers")


@tap.case
def a_dialogue_may_be_split_anywhere():
    wrong = []
    for at in range(1, len(REQUESTS)):
        c.send(REQUESTS[:at])
        # The answer to a request on another connection proves that the first part was read.
        memcached.stats("conns")
        if c.all(REQUESTS[at:]) != ANSWERS:
            wrong.append(at)
    tap.is_(wrong, [], "split in two at each of %d places it has its answers" % (len(REQUESTS) - 1))
    for byte in range(len(REQUESTS)):
        c.send(REQUESTS[byte:byte + 1])
    tap.is_(c.all(b""), ANSWERS, "one byte at a time it has its answers")
    for size in (2, 3, 5, 7, 11, 13):
        for start in range(0, len(REQUESTS), size):
            c.send(REQUESTS[start:start + size])
        tap.is_(c.all(b""), ANSWERS, "%d bytes at a time it has its answers" % size)


@tap.case
def pieces_of_large_buffers():
    many = b"".join(b"set key%d 0 0 %d\r\n%s\r\n" % (i, i * 7 % 3000, b"v" * (i * 7 % 3000))
                    for i in range(1000))
    for size in (1000, 1024, 1448, 2047, 2048, 2049, 16384, 65536):
        for start in range(0, len(many), size):
            c.send(many[start:start + size])
        tap.is_(c.all(b""), b"STORED\r\n" * 1000,
                "1,000 sets in pieces of %d bytes are answered" % size)
    wrong = [i for i in range(1000) if c.get(b"key%d" % i) != b"v" * (i * 7 % 3000)]
    tap.is_(wrong, [], "all values are stored")


@tap.case
def answers_larger_than_socket_buffers():
    value = b"0123456789abcdef" * 4096
    c.set(b"large", value)
    one = b"VALUE large 0 %d\r\n%s\r\n" % (len(value), value)
    other = memcached.stream()
    # The client does not read while it writes: the server has to keep what it cannot send.
    writer = threading.Thread(target=other.send, args=(b"get large\r\n" * 500,))
    writer.start()
    memcached.stats()
    got = other.exactly(500 * len(one + b"END\r\n"))
    writer.join()
    tap.ok(got == (one + b"END\r\n") * 500, "500 pipelined gets of 64 KiB, read late, are complete")
    got = other.all(b"get%s\r\n" % (b" large" * 500))
    tap.ok(got == one * 500 + b"END\r\n", "one get of 500 keys of 64 KiB is complete")


@tap.case
def noreply_suppresses_the_answer():
    c.set(b"q", b"0")
    requests = (b"set q 0 0 1 noreply\r\n1\r\n", b"add q 0 0 1 noreply\r\n2\r\n",
                b"replace q 0 0 1 noreply\r\n3\r\n", b"append q 0 0 1 noreply\r\n4\r\n",
                b"prepend q 0 0 1 noreply\r\n2\r\n", b"incr q 5 noreply\r\n",
                b"decr q 1 noreply\r\n", b"incr none 5 noreply\r\n", b"touch q 0 noreply\r\n",
                b"delete none noreply\r\n", b"cas q 0 0 1 1 noreply\r\n9\r\n",
                b"verbosity 0 noreply\r\n")
    for request in requests:
        tap.is_(c.all(request), b"", "%r is not answered" % request)
    tap.is_(c.get(b"q"), b"238", "each was executed")
    c.all(b"delete q noreply\r\n")
    tap.is_(c.get(b"q"), None, "delete noreply deletes")
    c.set(b"q", b"0")
    tap.is_(c.all(b"flush_all noreply\r\n"), b"", "flush_all noreply is not answered")
    tap.is_(c.get(b"q"), None, "it flushes")
    tap.is_(c.all(b"set q 0 0 1 NOREPLY\r\na\r\n"), b"STORED\r\n",
            "another word does not suppress the answer")
    tap.is_(c.all(b"set big 0 0 2000000 noreply\r\n%s\r\nget q\r\n" % (b"x" * 2000000)),
            b"VALUE q 0 1\r\na\r\nEND\r\n",
            "a too large value with noreply is skipped without an answer")


@tap.case
def resets_in_any_state_do_no_harm():
    for at in range(0, len(REQUESTS), 3):
        other = memcached.stream()
        other.send(REQUESTS[:at])
        other.close()
    tap.is_(c.all(REQUESTS), ANSWERS, "after resets at every third byte the server answers")
    tap.ok(server.wait_for(lambda: int(c.stats()["curr_connections"]) <=
                           int(baseline["curr_connections"])),
           "none of these connections is left")


@tap.case
def a_busy_connection_yields():
    with server.Server("-R", "1", threads=1, udp=False) as other, other.stream() as d:
        d.ask(b"version\r\n")
        before = int(other.stats()["conn_yields"])
        d.send(b"".join(b"set y%d 0 0 1\r\nx\r\n" % i for i in range(6)))
        d.exactly(len(b"STORED\r\n") * 6)
        tap.is_(int(other.stats()["conn_yields"]) - before, 5,
                "6 pipelined sets at -R 1 yield 5 times")
        got = d.all(b"get y0\r\n" * 1000)
        tap.is_(got, b"VALUE y0 0 1\r\nx\r\nEND\r\n" * 1000, "1,000 gets are all answered")
    with server.Server("-R", "20", threads=1, udp=False) as other, other.stream() as d:
        d.all(b"get a\r\n" * 15)
        tap.is_(other.stats()["conn_yields"], "0", "15 gets at -R 20 do not yield")


c.ask(b"version\r\n")
baseline = c.stats()
tap.run(ends=memcached)
