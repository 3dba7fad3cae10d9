#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The bytes of a TLS connection: cut into records and packets in any way, and ended by either
side."""
import random
import re
import select
import socket
import ssl
import struct
import threading

import child
import client
import server
import tap
import tls

HELLO = b"\x16\x03\x01"
RECORD = 16384

tls.needed()
CA = tls.Authority()
PAIR = CA.issue("server")


def start(*arguments, **more):
    return server.Server(*tls.options(PAIR, **more), *arguments, context=CA.context(), udp=False)


def raw(memcached):
    return socket.create_connection(("127.0.0.1", memcached.port), timeout=client.SECONDS)


def manual(memcached, context=None, size=1 << 20):
    return tls.Manual("127.0.0.1", memcached.port, context or CA.context()).handshake(size)


def end_of(sock):
    """Everything until the server closes or resets."""
    data = b""
    try:
        while True:
            more = sock.recv(1 << 16)
            if not more:
                return data
            data += more
    except ConnectionResetError:
        return data


def reset(sock):
    """Closes so that the other side gets a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def still_serves(memcached, name):
    other = memcached.stream()
    tap.is_(other.ask(b"version\r\n")[:8], b"VERSION ", name)
    other.close()


# --- records and packets -------------------------------------------------------


@tap.case
def values_of_all_sizes():
    sizes = [0, 1, 100, RECORD - 40, *range(RECORD - 3, RECORD + 4), 2 * RECORD - 1, 2 * RECORD,
             65535, 524288, 1048000]
    for size in (16, 1, 4, 64):
        with start(wbuf_size=size) as memcached:
            c, wrong = memcached.stream(), []
            for n in sizes:
                value = random.Random(n).randbytes(n)
                if c.set(b"k%d" % n, value) != b"STORED\r\n" or c.get(b"k%d" % n) != value:
                    wrong.append(n)
            tap.is_(wrong, [], "ssl_wbuf_size=%d: values up to 1 MB are stored and returned" % size)
            line = b"get " + b" ".join(b"k%d" % n for n in sizes) + b"\r\n"
            answer = c.all(line)
            wanted = b"".join(b"VALUE k%d 0 %d\r\n%s\r\n" % (n, n, random.Random(n).randbytes(n))
                              for n in sizes) + b"END\r\n"
            tap.ok(answer == wanted, "one get returns all of them")


def exchange(sock, data, total):
    """Sends while it receives, up to that many bytes. In one thread: a TLS session must not be
    used by two."""
    sock.setblocking(False)
    got = bytearray()
    while len(got) < total:
        before = len(data), len(got)
        try:
            data = data[sock.send(data[:1 << 14]):]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        try:
            part = sock.recv(1 << 16)
            if not part:
                break
            got += part
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        if (len(data), len(got)) == before:
            select.select([sock], [sock] if data else [], [], 1)
    return bytes(got)


@tap.case
def many_commands_before_an_answer_is_read():
    with start() as memcached, memcached.stream() as c:
        c.set(b"k", b"v" * 1000)
        one = b"VALUE k 0 1000\r\n" + b"v" * 1000 + b"\r\nEND\r\n"
        got = exchange(c.sock, b"get k\r\n" * 10000, len(one) * 10000)
        tap.ok(got == one * 10000, "10,000 pipelined gets are answered in order")


@tap.case
def answers_wait_for_a_slow_reader():
    with start() as memcached:
        value = random.Random(1).randbytes(1000000)
        c, control = memcached.stream(), memcached.stream()
        control.set(b"k", value)
        c.send(b"get k\r\n" * 50)
        tap.ok(server.wait_for(lambda: "conn_mwrite" in control.stats("conns").values()),
               "the server waits for a slow reader")
        tap.is_(control.set(b"other", b"v"), b"STORED\r\n", "other clients are served meanwhile")
        one = b"VALUE k 0 1000000\r\n" + value + b"\r\nEND\r\n"
        tap.is_(sum(c.exactly(len(one)) != one for _ in range(50)), 0,
                "every byte of the answers is right")
        tap.is_(c.get(b"other"), b"v", "the connection can be used afterwards")


@tap.case
def commands_behind_a_dump():
    """Dumps, each longer than one turn sends, between replies that fill the socket."""
    with start(wbuf_size=1) as memcached, memcached.stream() as c:
        c.send(b"".join(b"set k%d 0 0 1 noreply\r\nx\r\n" % n for n in range(1000)))
        c.set(b"part", b"v" * 100000)
        got = exchange(c.sock, b"".join(
            b"get part %0240d\r\nlru_crawler metadump all\r\n" % n for n in range(200)) +
            b"get last\r\nquit\r\n", 1 << 30)
        tap.is_((got.count(b"VALUE part "), got.count(b"key=k"), got.count(b"END\r\n")),
                (200, 200000, 401), "commands that wait behind dumps are executed")


@tap.case
def tiny_records_and_packets():
    text = b"set k 0 0 300\r\n" + b"v" * 300 + b"\r\nget k\r\n"
    answer = [b"STORED\r\n", b"VALUE k 0 300\r\n", b"v" * 300 + b"\r\n", b"END\r\n"]
    with start() as memcached:
        m = manual(memcached)
        for i in range(len(text)):
            m.write(text[i:i + 1])
        tap.is_([m.line() for _ in answer], answer, "records of one byte are accepted")
        m.close()
        m = manual(memcached, size=1)
        tap.is_(m.session.version(), "TLSv1.3", "a handshake that arrives byte by byte succeeds")
        m.write(text, size=1)
        tap.is_([m.line() for _ in answer], answer, "requests in packets of one byte are answered")
        m.close()
        m = manual(memcached)
        for line in text.splitlines(keepends=True):
            m.session.write(line)
        m.push()
        tap.is_([m.line() for _ in answer], answer, "several records in one packet are answered")
        m.close()


@tap.case
def bytes_inside_the_tls_library_are_processed():
    with start("-R", "1", "-t", "1") as memcached:
        m, control = manual(memcached), memcached.stream()
        m.write(b"set k 0 0 1\r\nv\r\n" * 6)
        tap.is_([m.line() for _ in range(6)], [b"STORED\r\n"] * 6,
                "-R 1: six sets of one record are all answered")
        tap.is_(control.stats()["conn_yields"], "5", "they take six turns")
        for _ in range(500):
            m.session.write(b"get k\r\n" * 10)
        m.push()
        got = [m.line() for _ in range(3 * 5000)]
        tap.is_(got, [b"VALUE k 0 1\r\n", b"v\r\n", b"END\r\n"] * 5000,
                "500 records of ten gets are answered")
        m.close()


@tap.case
def more_than_one_turn_reads():
    with start("-t", "1") as memcached:
        m = manual(memcached)
        value = b"v" * 900000
        m.session.write(b"set k 0 0 900000\r\n" + value + b"\r\nversion\r\n")
        thread = threading.Thread(target=m.push)
        thread.start()
        tap.is_((m.line(), m.line()[:8]), (b"STORED\r\n", b"VERSION "),
                "a value of many records is stored, and the command behind it executed")
        thread.join()
        other = manual(memcached)
        other.session.write(b"set big 0 0 3000000\r\n" + b"v" * 3000000 + b"\r\nversion\r\n")
        thread = threading.Thread(target=other.push)
        thread.start()
        tap.is_((other.line(), other.line()[:8]),
                (b"SERVER_ERROR object too large for cache\r\n", b"VERSION "),
                "a value that is skipped is, too")
        thread.join()


@tap.case
def random_cuts():
    dice = random.Random(51)
    with start("-t", "1") as memcached:
        control, wrong = memcached.stream(), []
        for turn in range(30):
            m = manual(memcached)
            values = [dice.randbytes(dice.choice((1, 10, 1000, 20000))) for _ in range(20)]
            text = b"".join(b"set k%d 0 0 %d\r\n%s\r\nget k%d\r\n" % (i, len(v), v, i)
                            for i, v in enumerate(values))
            wanted = b"".join(b"STORED\r\nVALUE k%d 0 %d\r\n%s\r\nEND\r\n" % (i, len(v), v)
                              for i, v in enumerate(values))
            while text:
                cut = dice.choice((1, 7, 100, 5000, RECORD))
                m.session.write(text[:cut])
                text = text[cut:]
            thread = threading.Thread(target=m.push, args=(dice.choice((100, 1500, 17000)),))
            thread.start()
            got = b""
            while len(got) < len(wanted):
                got += m.until(lambda: m.session.read(1 << 16))
            thread.join()
            if got != wanted:
                wrong.append(turn)
            m.close()
        tap.is_(wrong, [], "commands cut at random into records and packets are answered")
        tap.is_(control.stats("tls")["ssl_proto_errors"], "0", "there is no TLS error")


# --- the end --------------------------------------------------------------------


@tap.case
def close_notify():
    with start() as memcached:
        m = manual(memcached)
        m.write(b"version\r\nquit\r\n")
        m.line()
        tap.is_(m.until(lambda: m.session.read(10)), b"",
                "after quit the server sends close_notify")
        m.close()
        m = manual(memcached)
        m.session.write(b"set k 0 0 1\r\nv\r\n")
        try:
            m.session.unwrap()
        except ssl.SSLWantReadError:
            pass
        m.push()
        tap.is_(m.line(), b"STORED\r\n",
                "close_notify in the packet of the last command: it is answered")
        m.until(m.session.unwrap)
        tap.is_(end_of(m.sock), b"", "the server sends close_notify, and closes the connection")
        m = manual(memcached)
        m.write(b"version\r\n")
        m.sock.shutdown(socket.SHUT_WR)
        tap.is_(m.line()[:8], b"VERSION ", "a client may end without close_notify")
        still_serves(memcached, "the server still answers")


@tap.case
def ends_within_a_command():
    with start("-t", "1") as memcached, memcached.stream() as control:
        value = b"x" * 500000
        control.set(b"big", value)
        for name, end in (("close", lambda s: s.close()), ("reset", reset)):
            for sent in (0, 1, 70, 16000, 200000):
                m = manual(memcached)
                m.session.write(b"set k 0 0 500000\r\n" + value)
                m.sock.sendall(m.out.read()[:sent])
                end(m.sock)
            m = manual(memcached)
            m.write(b"get big\r\n" * 100)
            end(m.sock)
        before = int(control.stats()["curr_connections"])
        tap.ok(server.wait_for(lambda: control.stats()["curr_connections"] == "1" or before <= 1),
               "clients that disconnect within a value or an answer leave no connection")
        tap.is_(control.get(b"k"), None, "half a value is not stored")
        tap.is_(control.get(b"big"), value, "other clients are served")


@tap.case
def damaged_records():
    with start() as memcached, memcached.stream() as control:

        def settled():
            """A connection whose handshake the server has completed."""
            m = manual(memcached)
            m.write(b"version\r\n")
            m.line()
            return m

        m = settled()
        m.session.write(b"set k 0 0 1\r\nv\r\n")
        data = bytearray(m.out.read())
        data[-1] ^= 1
        m.sock.sendall(data)
        end_of(m.sock)
        tap.is_(control.get(b"k"), None, "a record with a flipped bit is rejected")
        tap.ok(server.wait_for(lambda: control.stats("tls")["ssl_proto_errors"] == "1"),
               "the error is counted")
        m = settled()
        m.sock.sendall(b"get k\r\n" * 10)
        end_of(m.sock)
        tap.is_(control.stats("tls")["ssl_proto_errors"], "2",
                "plain text within a session is rejected")
        tap.is_(control.stats("tls")["ssl_handshake_errors"], "0",
                "neither counts as a handshake error")


# --- handshakes -----------------------------------------------------------------


@tap.case
def handshakes_that_fail():
    dice = random.Random(7)
    with start("-t", "1") as memcached:
        control, context = memcached.stream(), CA.context()
        incoming, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            context.wrap_bio(incoming, out).do_handshake()
        except ssl.SSLWantReadError:
            pass
        hello, errors = out.read(), 0

        def failed(name, wanted, *data):
            nonlocal errors
            sock = raw(memcached)
            try:
                for part in data:
                    sock.sendall(part)
                sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass # the server may close before all of it is sent
            answer = end_of(sock)
            errors += wanted
            tap.ok(server.wait_for(
                lambda: control.stats("tls")["ssl_handshake_errors"] == str(errors)),
                "%s: %s" % (name, "one more handshake error is counted" if wanted else "no error"))
            tap.ok(answer[:1] in (b"", b"\x15", b"\x16"), "%s: no plain text is returned" % name)

        failed("a connection without a byte", 0)
        failed("plain text", 1, b"version\r\nget k\r\n")
        failed("a binary request", 1, b"\x80\x0b" + bytes(22))
        failed("HTTP", 1, b"GET / HTTP/1.1\r\n\r\n")
        failed("zeroes", 1, bytes(1000))
        ssl2 = bytes.fromhex("802e01000200150000001001008002008003") + bytes(30)
        failed("an SSL 2 hello", 1, ssl2)
        failed("half a hello", 1, hello[:len(hello) // 2])
        failed("a ClientHello and no more", 1, hello)
        failed("a hello twice", 1, hello, hello)
        failed("a record that is too long", 1, HELLO + b"\xff\xff" + bytes(70000))
        for turn in range(20):
            damaged = bytearray(hello)
            for _ in range(10):
                damaged[dice.randrange(5, len(damaged))] = dice.randrange(256)
            failed("damaged hello %d" % turn, 1, bytes(damaged))
        still_serves(memcached, "other clients are served")


@tap.case
def a_slow_handshake_does_not_delay_others():
    with start("-t", "1") as memcached:
        slow = tls.Manual("127.0.0.1", memcached.port, CA.context())
        try:
            slow.session.do_handshake()
        except ssl.SSLWantReadError:
            hello = slow.out.read()
        served = 0
        for i in range(0, len(hello), 20):
            slow.sock.sendall(hello[i:i + 20])
            other = memcached.stream()
            served += other.set(b"k", b"v") == b"STORED\r\n"
            other.close()
        tap.is_(served, (len(hello) + 19) // 20, "other clients are served between its pieces")
        slow.handshake()
        slow.write(b"get k\r\n")
        tap.is_(slow.line(), b"VALUE k 0 1\r\n", "the handshake succeeds in the end")
        slow.close()


@tap.case
def two_hundred_connections():
    with start("-c", "1024") as memcached:
        many = [memcached.stream() for _ in range(200)]
        for number, c in enumerate(many):
            c.send(b"set k%d 0 0 1000\r\n%s\r\n" % (number, b"%d" % (number % 10) * 1000))
        tap.is_({c.line() for c in many}, {b"STORED\r\n"}, "200 connections work at a time")
        wrong = [number for number, c in enumerate(many)
                 if c.get(b"k%d" % (199 - number)) != b"%d" % ((199 - number) % 10) * 1000]
        tap.is_(wrong, [], "each gets what another has set")
        half = [raw(memcached) for _ in range(100)]
        for sock in half:
            sock.sendall(HELLO + b"\x02\x00")
        tap.is_(many[0].get(b"k0"), b"0" * 1000,
                "they work beside 100 that stopped in the handshake")
        for sock in half:
            sock.close()
        for c in many:
            c.close()
        tap.ok(server.wait_for(lambda: int(memcached.stats()["curr_connections"]) <= 2),
               "after they are closed none is left")


class Dialog(child.Talker):
    """openssl s_client, which takes commands: R renegotiates, K updates the keys."""

    def __init__(self, memcached, *words):
        super().__init__(["sh", "-c", 'exec "$@" 2>&1', "sh", "openssl", "s_client", "-connect",
                          "127.0.0.1:%d" % memcached.port, *words], "openssl s_client")

    def until(self, pattern):
        """Whether such a line arrives."""
        for line in self.process.stdout:
            if re.search(pattern, line):
                return True
        return False


@tap.case
def changes_within_a_session():
    with start() as memcached:
        dialog = Dialog(memcached, "-tls1_3")
        dialog.until(rb"Verify return code")
        dialog.tell(b"version")
        tap.ok(dialog.until(rb"^VERSION "), "openssl s_client is served")
        for _ in range(3):
            dialog.tell(b"K")
            dialog.until(rb"^KEYUPDATE")
            dialog.tell(b"version")
            tap.ok(dialog.until(rb"^VERSION "), "it is served after an update of the keys")
        dialog.kill()
        dialog = Dialog(memcached, "-tls1_2")
        dialog.until(rb"Verify return code")
        dialog.tell(b"version")
        tap.ok(dialog.until(rb"^VERSION "), "TLS 1.2 is served")
        dialog.tell(b"R")
        tap.ok(dialog.until(rb"no renegotiation"), "it does not renegotiate")
        dialog.kill()
        still_serves(memcached, "other clients are served")


# --- what is no request and answer ----------------------------------------------


@tap.case
def a_watcher():
    with start("-t", "2") as memcached:
        watcher, c = memcached.stream(), memcached.stream()
        tap.is_(watcher.ask(b"watch fetchers mutations\r\n"), b"OK\r\n",
                "watch over TLS is answered")
        sender = threading.Thread(target=c.all, args=(b"get miss\r\n" * 5000,))
        sender.start()
        lines = [watcher.until(b"\n") for _ in range(200)]
        sender.join()
        tap.is_([line for line in lines if not re.match(rb"ts=\S+ gid=\d+ |skipped=", line)], [],
                "the watcher gets whole lines")
        watcher.close()
        tap.is_(c.set(b"k", b"v"), b"STORED\r\n", "after it has left other clients are served")


tap.run()
