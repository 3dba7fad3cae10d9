#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Several servers on one interface: the kernel answers for each of them while others come, go and
die."""
import array
import concurrent.futures
import contextlib
import ctypes
import fcntl
import multiprocessing
import os
import pwd
import socket
import stat
import struct

import client
import kernel
import netns
import openfiles
import server
import tap
from kernel import answer

DROP = ["-o", "drop_privileges"] if "no_drop_privileges" in server.run("-h")[1] else []
STRANGER = 65533 # neither root nor the user of the servers
FOLDER = "/run/memcachedsr-share"
SO_NETNS_COOKIE = 71
BACKLOG = 32 # connections that wait for a server's thread
GETS = 200 # at least, while another server comes or goes


class Ground:
    """Two machines, and servers that all have sv0."""

    def __init__(self):
        self.pair = netns.Pair()
        netns.enter(self.pair.client)
        self.all = []

    def add(self, mode=None, tcp=False, **options):
        one = kernel.Machines(*DROP, pair=self.pair, mode=mode, words=["tcp=on"] if tcp else [],
                              **options)
        self.all.append(one)
        return one

    def start(self):
        """A server alone."""
        return server.Server(*DROP, "-X", "bmc=sv0", namespace=self.pair.server, threads=1,
                             host=self.pair.address(), listen="0.0.0.0")

    def refused(self, words, say, name, *arguments):
        port = server.free_port(self.pair.server)
        arguments = arguments or ("-p", port, "-U", port, "-l", "0.0.0.0")
        status, _, error = server.run(*arguments, "-X", words, namespace=self.pair.server)
        tap.ok(status is not None and 0 < status < 128, "%s: status %s" % (name, status))
        tap.like(error, say, "%s: the message has the reason" % name)

    def shared(self, name, n):
        """Each has noticed so many servers on the interface."""
        seen = lambda: [one.server.stats("bmc")["sv0:servers"] for one in self.all]
        server.wait_for(lambda: seen() == [str(n)] * n)
        tap.is_(seen(), [str(n)] * n, name)

    def program(self):
        xdp = netns.link("sv0", self.pair.server).get("xdp")
        return xdp and xdp["prog"]["id"]

    def clean(self, name):
        tap.is_((self.program(), netns.tc_programs("sv0", self.pair.server)), (None, []),
                "%s: nothing is attached after the last server" % name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.all:
            if one.server.alive():
                one.server.stop()
        self.pair.close()


def fresh(one, value, name):
    """A write is acknowledged, and the kernel answers with it."""
    one.tcp.set(b"k", value)
    one.same(b"get k\r\n", answer((b"k", value)), name)


def fresh_again(one, value, name):
    """As fresh, soon after this server or another has attached again: an event of an interface,
    and attaching makes one, expires the return paths, and the kernel then passes gets until the
    server has replied once more. No reply is old."""
    one.tcp.set(b"k", value)
    replies = []

    def by_kernel():
        one.meet()
        replies.append(one.by_kernel(b"get k\r\n"))
        return replies[-1][1]

    tap.ok(server.wait_for(by_kernel), "%s: the kernel answers" % name)
    tap.is_({reply for reply, _ in replies}, {answer((b"k", value))}, "%s: no reply is old" % name)


def by_tcp(one, name):
    """The kernel answers gets of a TCP connection."""
    one.tcp.set(b"t", b"over tcp")
    before = int(one.server.stats("bmc")["tcp_answered"])
    right = all(one.tcp.get(b"t") == b"over tcp" for _ in range(20))
    after = int(one.server.stats("bmc")["tcp_answered"])
    tap.ok(right and after - before >= 10, "%s: the kernel answers over TCP (%d of 20)"
           % (name, after - before))


def all_fresh(servers, value, name, check=fresh):
    for i, one in enumerate(servers):
        check(one, b"%s %d" % (value, i), "%s: server %d" % (name, i + 1))


def again(one):
    """Starts a server that has ended, with the same ports."""
    one.options["port"] = one.server.port
    one.start()


def during(one, event, name):
    """Every get of one server is answered with the last value, before, while and after an event
    happens to another."""
    wrong = []
    done, gets = None, 0
    before = one.counts()["answered"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        while gets < GETS or not done.done():
            if gets == GETS // 2:
                done = pool.submit(event)
            gets += 1
            value = b"%d" % gets
            one.tcp.set(b"k", value)
            got = one.udp.ask(b"get k\r\n"), one.tcp.get(b"k")
            if got != (answer((b"k", value)), value):
                wrong.append((got, value))
    done.result()
    tap.is_(wrong, [], "%s: no get is lost, none is stale" % name)
    grown = one.counts()["answered"] - before
    tap.ok(grown > gets // 2, "%s: the kernel answers them (%d of %d)" % (name, grown, gets))


def counted(first, second, name):
    """Each counts its own packets."""
    before = first.counts()
    for _ in range(5):
        second.udp.ask(b"get k\r\n")
    after = first.counts()
    tap.is_(after["packets_seen"], before["packets_seen"],
            "%s: gets of one are not counted by the other" % name)


def at_home(one, command):
    """The answer to a connection from the server's machine."""
    with netns.inside(one.pair.server):
        own = one.server.stream()
    with contextlib.closing(own):
        return own.ask(command)


def two_servers(mode, tcp, ends=True):
    name = "%s%s" % (mode or "native", ", tcp=on" if tcp else "")
    with Ground() as ground:
        first = ground.add(mode, tcp)
        alone = ground.program()
        second = ground.add(mode, tcp)
        if mode != "tc":
            tap.ok(ground.program() not in (None, alone), name + ": the link has another program")
            tap.like(second.server.log(), "bmc: sv0: XDP .* shared by 2 servers",
                     name + ": the second one says that it shares")
            tap.ok(server.logged(first.server, "bmc: sv0: 2 servers share XDP"),
                   name + ": the first one says so, too")
            ground.shared(name + ": so does `stats bmc`", 2)
        all_fresh(ground.all, b"v", name)
        counted(first, second, name)
        for one in ground.all if tcp else ():
            by_tcp(one, name)
        tap.is_(at_home(first, b"bmc off\r\n"), b"OK\r\n", name + ": `bmc off` of one")
        tap.is_(first.by_kernel(b"get none\r\n"), (b"END\r\n", False), name + ": it is off")
        fresh(second, b"on", name + ": leaves the other on")
        at_home(first, b"bmc on\r\n")
        if not ends:
            return
        during(first, second.server.stop, name + ", SIGTERM to the second")
        during(first, lambda: again(second), name + ", the second again")
        all_fresh(ground.all, b"w", name + ", the second again")
        during(second, first.server.kill, name + ", SIGKILL to the first")
        silent(first, name)
        during(second, lambda: again(first), name + ", the first again")
        all_fresh(ground.all, b"x", name + ", the first again")
        for one in ground.all:
            one.server.stop()
        ground.clean(name)


def silent(one, name):
    """No program answers for a server that has ended."""
    probe = client.Udp(one.pair.address(), one.server.port, 0.2)
    with contextlib.suppress(TimeoutError, ConnectionRefusedError):
        tap.is_(probe.ask(b"get k\r\n"), None, name + ": the dead server does not answer")
        return
    tap.ok(True, name + ": the dead server does not answer")


@tap.case
def native_and_tcp():
    two_servers(None, True)


@tap.case
def generic():
    two_servers("skb", False, ends=False)


@tap.case
def tc():
    two_servers("tc", True)


@tap.case
def three():
    with Ground() as ground:
        first, second, third = (ground.add() for _ in range(3))
        ground.shared("three servers share the interface", 3)
        all_fresh(ground.all, b"v", "three")
        first.server.kill()
        second.server.kill()
        fresh(third, b"w", "the last one, when the others were killed")
        again(first)
        tap.is_(first.tcp.stats("bmc")["sv0:servers"], "2", "a dead one is not counted")
        again(second)
        all_fresh(ground.all, b"x", "three again")
        for one in (first, third, second):
            one.server.kill()
        tap.ok(server.wait_for(lambda: ground.program() is None),
               "nothing is attached after all were killed")


@tap.case
def eight_at_once():
    """Each finds the others, in whatever order they come; there is no room for a ninth."""
    with Ground() as ground:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            started = [pool.submit(ground.start) for _ in range(8)]
            machines = [each.result() for each in started]
        with contextlib.ExitStack() as stack:
            for each in machines:
                stack.enter_context(each)
            control = [stack.enter_context(contextlib.closing(each.stream())) for each in machines]
            tap.ok(server.wait_for(lambda: [each.stats("bmc")["sv0:servers"] for each in control] ==
                                   ["8"] * 8),
                   "eight servers that start at once share the interface")
            tap.is_([each.stats("bmc")["detached"] for each in control], ["0"] * 8,
                    "none was detached meanwhile")
            for each, one in zip(machines, control):
                one.set(b"k", b"%d" % each.port)
                kernel.meet(ground.pair.address(), each.port)
                udp = each.udp()
                tap.ok(server.wait_for(lambda: udp.get(b"k") == b"%d" % each.port and
                                       one.stats("bmc")["answered_xdp"] != "0"),
                       "the kernel answers for each")
                udp.close()
            ground.refused("bmc=sv0", "sv0: another XDP program", "a ninth")


@tap.case
def the_memory_of_a_dead_one_is_freed():
    with Ground() as ground:
        first = ground.add()
        program = ground.program()
        ground.add()
        first.server.kill()

        def gone():
            with contextlib.suppress(RuntimeError):
                netns.sh("bpftool", "prog", "show", "id", program)
                return False
            return True

        tap.ok(server.wait_for(gone), "the kernel frees the program of a server that was killed")


@tap.case
def one_that_was_stopped():
    """A server that does not answer is left out, and comes back by itself."""
    with Ground() as ground:
        first = ground.add("native")
        first.server.pause()
        ground.refused("bmc=sv0", "sv0: another XDP program", "while the first one is stopped")
        first.server.resume()
        second = ground.add("native")
        second.server.pause()
        third = ground.add("native")
        fresh(third, b"v", "one that comes while another is stopped")
        second.server.resume()
        tap.ok(server.wait_for(lambda: second.tcp.stats("bmc")["reattached"] == "1"),
               "the one that was stopped joins them again")
        all_fresh(ground.all, b"w", "after it", fresh_again)


@tap.case
def detached_by_another_process():
    with Ground() as ground:
        for tcp in (False, True):
            ground.add("native", tcp)
        netns.cut(ground.program(), "sv0", ground.pair.server)
        tap.ok(server.wait_for(lambda: all(one.tcp.stats("bmc")["reattached"] == "1"
                                           for one in ground.all)), "both attach again")
        all_fresh(ground.all, b"v", "after the link was detached", fresh_again)
        ours = ground.program()
        other = netns.replace(ours, "sv0", ground.pair.server)
        tap.ok(server.wait_for(lambda: all(one.tcp.stats("bmc")["reattached"] == "2"
                                           for one in ground.all)), "both attach again")
        tap.ok(ground.program() != other, "the program that replaced theirs is gone")
        all_fresh(ground.all, b"w", "after the link's program was replaced", fresh_again)


@tap.case
def an_interface_that_is_created_again():
    """With tcp=on, with which filters can be attached again before Linux 6.6, too."""
    with Ground() as ground:
        for _ in range(2):
            ground.add("native", True)
        netns.ip("link del sv0", ground.pair.server)
        os.close(ground.pair.passes.pop())
        ground.pair.add_link(0)
        for one in ground.all:
            tap.ok(server.wait_for(lambda one=one: one.server.stats("bmc")["sv0:state"] == "up"),
                   "attached again")
            one.tcp, one.udp = one.server.stream(), one.server.udp()
        all_fresh(ground.all, b"v", "an interface that was created again", fresh_again)
        ground.shared("they share it again, without the privilege to load programs", 2)


def nothing_is_before(ground, number, name):
    """Each says so at a look that comes after an address was added, and a reply: the order itself
    it has no right to read."""
    before = ground.all[0].tcp.stats("bmc")["addresses_ipv4"]
    netns.sh("ip", "addr", "add", "10.78.0.%d/32" % number, "dev", "sv0",
             namespace=ground.pair.server)
    for one in ground.all:
        tap.ok(server.wait_for(lambda one=one: int(one.tcp.stats("bmc")["addresses_ipv4"]) ==
                               int(before) + 1), "%s: a server has looked" % name)
        tap.ok(server.wait_for(one.is_in_order), "%s: nothing is before it" % name)
        tap.ok("before the server's programs" not in one.server.log(),
               "%s: the log is silent" % name)


@tap.case
def their_programs_on_tc():
    """Servers know each other's without CAP_SYS_ADMIN, with which they could read their names."""
    with Ground() as ground:
        for _ in range(2):
            ground.add("native", True, prefix=("setpriv", "--bounding-set", "-sys_admin"))
        first, second = ground.all
        nothing_is_before(ground, 1, "two servers")
        for program in netns.tc_programs("sv0", ground.pair.server):
            if isinstance(program, int):
                netns.cut(program, "sv0", ground.pair.server)
        tap.ok(server.wait_for(lambda: all(len(netns.tc_programs("sv0", ground.pair.server, [hook]))
                                           >= 2 for hook in ("ingress", "egress"))),
               "both are attached again, in whatever order")
        nothing_is_before(ground, 2, "attached again")
        shown = links(ground.pair.server)
        tap.is_(len(shown), 4, "each has shown its programs of both directions")
        first.server.kill()
        again(first)
        left = links(ground.pair.server)
        tap.ok(len(left) == 4 and len(left & shown) == 2,
               "what one has shown that has ended is removed when another starts")


@tap.case
def a_stuck_process_has_the_lock():
    with Ground() as ground, open(os.path.join(FOLDER, "lock"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        one = ground.add()
        tap.like(one.server.log(), "bmc: no other server can share its interfaces: no socket in "
                 "%s: Connection timed out .a stuck process has the folder's lock: "
                 "`fuser -v %s/lock` names it; end it" % (FOLDER, FOLDER),
                 "a server does not wait for ever, and says whom to end")
        fcntl.flock(lock, fcntl.LOCK_UN)
        fresh(one, b"v", "it works alone")


@tap.case
def ports_in_use():
    with Ground() as ground:
        first = ground.add(listen=ground.pair.address())
        port = first.server.port
        ground.refused("bmc=sv0", "sv0: another memcached .* has the same port",
                       "the same port at another address", "-p", port, "-U", port, "-l",
                       "fd77:0::1")
        fresh(first, b"v", "the first one goes on")
        second = ground.add("native")
        ground.refused("bmc=sv0,mode=skb", "sv0: another XDP program", "another mode")
        all_fresh((first, second), b"w", "both go on")


def sockets(namespace):
    """Those of the servers of a network namespace, by their numbers."""
    with netns.inside(namespace), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as some:
        cookie, = struct.unpack("Q", some.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8))
    return sorted(os.path.join(FOLDER, each) for each in os.listdir(FOLDER)
                  if each.startswith("%d-" % cookie))


def links(namespace):
    """What the servers of a network namespace have shown of their programs."""
    own = {os.path.basename(path) for path in sockets(namespace)}
    return {each for each in os.listdir(FOLDER) if each.startswith("tc-")
            and os.readlink(os.path.join(FOLDER, each)) in own}


def become(user, group, capable):
    """Changes this process's user, and what is left of root's capabilities."""
    os.setgroups([])
    os.setresgid(group, group, group)
    if user:
        os.setresuid(user, user, user)
    if not capable:
        header = struct.pack("Ii", 0x20080522, 0)
        if ctypes.CDLL(None, use_errno=True).capset(header, bytes(24)):
            raise OSError(ctypes.get_errno(), "capset")


def asks(path, index, user=0, group=0, capable=True, program=None):
    """What a process of this user gets that asks for an interface: the number of descriptors, or
    the error."""
    def ask(out):
        become(user, group, capable)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
                one.settimeout(20)
                one.connect(path)
                request = struct.pack("IIIIHH", 0x6d633032, index, 0, 0, 0, 0)
                fds = [] if program is None else [program]
                one.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                         array.array("i", fds))] if fds else [])
                _, more, _, _ = one.recvmsg(100, socket.CMSG_SPACE(16))
                out.send(sum(len(each[2]) for each in more) // 4)
        except OSError as error:
            out.send(type(error).__name__)

    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=ask, args=(theirs,))
    process.start()
    theirs.close()
    result = ours.recv()
    process.join()
    return result


@tap.case
def who_may_ask():
    with Ground() as ground:
        first, second = ground.add(), ground.add()
        index = netns.link("sv0", ground.pair.server)["ifindex"]
        path = sockets(ground.pair.server)[0]
        is_ = os.stat(path)
        user = pwd.getpwnam(server.USER)
        tap.is_((is_.st_uid, is_.st_gid, stat.S_IMODE(is_.st_mode)), (0, user.pw_gid, 0o660),
                "a server's socket is for root and its user's group")
        is_ = os.stat(FOLDER)
        tap.is_((is_.st_uid, stat.S_IMODE(is_.st_mode) & 0o022), (0, 0),
                "it is in a folder of root's")
        program = netns.load_pass()
        tap.is_(asks(path, index, STRANGER, STRANGER, False, program), "PermissionError",
                "another user cannot connect")
        tap.is_(asks(path, index, user.pw_uid, user.pw_gid, False), 0,
                "the servers' user connects, and without an XDP program gets nothing")
        tap.is_(asks(path, index, capable=False), 0, "nor does root without capabilities")
        tap.is_(asks(path, index, capable=False, program=os.open("/dev/null", os.O_RDONLY)), 0,
                "nor with some descriptor")
        tap.is_(asks(path, index, program=program), 3, "root with a program is told how to join")
        os.close(program)
        all_fresh((first, second), b"v", "both go on")


@tap.case
def more_descriptors_than_a_message_has():
    """The kernel puts what fits the buffer into the process, wanted or not."""
    with Ground() as ground:
        first = ground.add()
        path, = sockets(ground.pair.server)
        sent = set()
        for n in range(1, 9):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
                sent.add(openfiles.socket_link(one))
                one.settimeout(20)
                one.connect(path)
                one.sendmsg([bytes(24)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                           array.array("i", n * [one.fileno()]))])
                tap.is_(one.recv(100), b"", "a message with %d descriptors: no answer" % n)
        held = lambda: sent & set(openfiles.links(first.server.process.pid).values())
        server.wait_for(lambda: not held())
        tap.is_(held(), set(), "the server keeps none of them")
        fresh(first, b"v", "it goes on")


def lingering():
    """A connection with bytes that its other end does not read: to close it as its last owner
    takes as long as it says. It, and the other end."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    one.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            one.send(bytes(1 << 16))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    return one, other


@tap.case
def descriptors_that_take_long_to_close():
    """Neither those that are received, nor one for which a message has no room, nor those of a
    message that is not read, delay the server."""
    with Ground() as ground:
        netns.ip("link set lo up", ground.pair.client)
        first = ground.add()
        path, = sockets(ground.pair.server)
        for words, n in ("one", 1), ("too many", 5):
            linger, other = lingering()
            # The server closes the connection when it has read the first message.
            first.server.pause()
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
                one.connect(path)
                for _ in range(2):
                    one.sendmsg([bytes(24)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                               array.array("i", n * [linger.fileno()]))])
                linger.close()
            first.server.resume()
            address = "10.77.5.%d/24" % n
            known = int(first.server.stats("bmc")["addresses_ipv4"])
            netns.ip("address add %s dev sv0" % address, ground.pair.server)
            tap.ok(server.wait_for(lambda: int(first.server.stats("bmc")["addresses_ipv4"])
                                   == known + 1), "%s: the server notes a new address" % words)
            other.detach()
        fresh(first, b"v", "it goes on")
        first.server.stop()


@tap.case
def a_flood_of_another_user():
    """Connects as often as it can; the names of earlier releases are taken, too."""
    def flood(namespace, stop):
        netns.enter(namespace)
        become(STRANGER, STRANGER, False)
        kept = []
        for number in range(BACKLOG):
            kept.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            kept[-1].bind("\0memcached-bmc-%d" % number)
            kept[-1].listen()
        while not stop.is_set():
            for path in targets:
                one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                one.setblocking(False)
                with contextlib.suppress(OSError):
                    one.connect(path)
                kept.append(one)
            del kept[BACKLOG:-2 * BACKLOG]

    with Ground() as ground:
        first = ground.add()
        targets = sockets(ground.pair.server) + ["\0memcached-bmc-0"]
        context = multiprocessing.get_context("fork")
        stop = context.Event()
        process = context.Process(target=flood, args=(ground.pair.server, stop))
        process.start()
        try:
            for _ in range(4):
                second = ground.add()
                fresh(second, b"v", "one that comes while another user floods the sockets")
                second.server.stop()
        finally:
            stop.set()
            process.join()
        fresh(first, b"w", "the first one goes on")


@tap.case
def a_full_backlog():
    """A server to which no more can connect is there all the same."""
    with Ground() as ground:
        first = ground.add("native")
        path, = sockets(ground.pair.server)
        first.server.pause()
        waiting = []
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
                waiting[-1].setblocking(False)
                waiting[-1].connect(path)
        tap.ok(len(waiting) > BACKLOG, "%d connections wait" % len(waiting))
        with concurrent.futures.ThreadPoolExecutor() as pool:
            come = pool.submit(ground.add, "native")
            server.wait_for(lambda: len(sockets(ground.pair.server)) == 2)
            tap.ok(not server.wait_for(come.done, 0.5), "another server waits, too")
            first.server.resume()
            for one in waiting:
                one.close()
            second = come.result()
        fresh(second, b"v", "it shares the interface")


@tap.case
def the_socket_of_a_dead_one_is_removed():
    with Ground() as ground:
        first, second = ground.add(), ground.add()
        before = sockets(ground.pair.server)
        first.server.kill()
        again(first)
        tap.is_(sockets(ground.pair.server), before, "the next one has its name")
        all_fresh((first, second), b"v", "both")
        for one in ground.all:
            one.server.kill()
        with Ground() as other:
            other.add()
            tap.is_(sockets(ground.pair.server), [], "none is left of those that were killed")


@tap.case
def no_folder():
    """Where /run is read-only, and where others may write to the folder."""
    for script, reason in (
            ("mount -t tmpfs -o ro none /run", "Read-only file system .*RuntimeDirectory="),
            ("mount -t tmpfs none /run && mkdir -m 777 " + FOLDER, "only the owner may write")):
        with Ground() as ground:
            hidden = ["unshare", "--mount", "sh", "-c", script + ' && exec "$@"', "-"]
            first = ground.add(prefix=hidden)
            tap.like(first.server.log(), "bmc: no other server can share its interfaces: no socket "
                     "in %s: .*%s" % (FOLDER, reason), "the server says why: %s" % script)
            fresh(first, b"v", "it works alone")
            ground.refused("bmc=sv0", "sv0: another XDP program .*mc_xdp.*"
                           "a memcached shares it that runs, sees this %s" % FOLDER,
                           "one that does not find it")


@tap.case
def filters():
    """Where TC has no room for links, and before Linux 6.6: each has filters of its own."""
    with Ground() as ground:
        links = netns.fill_tcx("sv0", ground.pair.server)
        first, second = ground.add("tc"), ground.add("tc")

        def handles():
            text = netns.sh("tc", "filter", "show", "dev", "sv0", "egress",
                            namespace=ground.pair.server)
            return text.count("handle ")

        tap.is_(handles(), 2, "there are two filters")
        all_fresh(ground.all, b"v", "both")
        first.server.kill()
        fresh(second, b"w", "the second, when the first was killed")
        again(first)
        tap.is_(handles(), 2, "the filter of the dead one was replaced")
        all_fresh(ground.all, b"x", "both again")
        second.server.kill()
        fresh(first, b"y", "the first, when the second was killed")
        for fd in links:
            os.close(fd)


tap.run()
