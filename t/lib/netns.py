# SPDX-License-Identifier: BSD-3-Clause
"""netns: a server's machine and a client's, as two network namespaces with veth between.

The client's end of each veth carries an XDP program that passes everything:
XDP_TX on a veth reaches its peer only if that has a program too.
"""
import contextlib
import ctypes
import errno
import fcntl
import itertools
import json
import os
import socket
import struct
import subprocess
import time

import guard
import tap

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000


def _call(function, *arguments):
    result = function(*arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def enter(name):
    """Moves this thread into the namespace."""
    go_back(os.open("/run/netns/" + name, os.O_RDONLY))


def current():
    """This thread's namespace, as a file descriptor for go_back()."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def go_back(fd):
    """Moves this thread into the namespace, and closes the descriptor."""
    try:
        _call(_libc.setns, fd, _CLONE_NEWNET)
    finally:
        os.close(fd)


@contextlib.contextmanager
def inside(name):
    """Runs within the namespace, and returns from it; None: here."""
    if name is None:
        yield
        return
    here = current()
    try:
        enter(name)
        yield
    finally:
        go_back(here)


def sh(*words, namespace=None):
    """A command's output; if it fails, an exception with its messages."""
    words = [str(w) for w in words]
    if namespace:
        words = ["nsenter", "--net=/run/netns/" + namespace] + words
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise RuntimeError("%s: %s" % (" ".join(words), done.stderr.decode().strip()))
    return done.stdout.decode()


def ip(words, namespace=None):
    return sh("ip", *words.split(), namespace=namespace)


# --- bpf(2), as far as a program that passes everything needs it -------------

BPF_CALL = {"x86_64": 321, "aarch64": 280}.get(os.uname().machine, 0)
_PROG_LOAD, _OBJ_PIN, _OBJ_GET_INFO_BY_FD, _PROG_QUERY, _LINK_CREATE = 5, 6, 15, 16, 28
_LINK_UPDATE, _LINK_GET_FD_BY_ID, _LINK_DETACH = 29, 30, 34
_PROG_TYPE_XDP, _ATTACH_XDP, _TCX_INGRESS, _TCX_EGRESS = 6, 37, 46, 47
_BEFORE = 1 << 3 # BPF_F_BEFORE
_PROG_TYPE_SCHED_CLS = 3
_XDP_FLAGS_SKB_MODE = 1 << 1
_HAS_FRAGS = 1 << 5 # or an MTU above a page refuses it
# r0 = XDP_PASS; exit
_PASS = struct.pack("<BBhi", 0xb7, 0, 0, 2) + struct.pack("<BBhi", 0x95, 0, 0, 0)


def _note(n):
    """r2 = -n; bpf_xdp_adjust_meta(r1, r2)"""
    return struct.pack("<BBhi", 0xb7, 2, 0, -n) + struct.pack("<BBhi", 0x85, 0, 0, 54)


def _bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    return _call(_libc.syscall, BPF_CALL, command, buffer, len(attributes))


def _load(kind, code, flags, name, expected=0):
    instructions = ctypes.create_string_buffer(code, len(code))
    license_ = ctypes.create_string_buffer(b"GPL")
    return _bpf(_PROG_LOAD, struct.pack("<IIQQIIQII16sII", kind, len(code) // 8,
                                        ctypes.addressof(instructions),
                                        ctypes.addressof(license_), 0, 0, 0, 0, flags, name, 0,
                                        expected))


def load_pass(notes=0):
    """An XDP program that passes everything: its file descriptor. notes: with so many bytes of
    metadata, which it does not write."""
    return _load(_PROG_TYPE_XDP, (_note(notes) if notes else b"") + _PASS, _HAS_FRAGS, b"test_pass",
                 _ATTACH_XDP)


def program_id(fd):
    info = ctypes.create_string_buffer(256)
    _bpf(_OBJ_GET_INFO_BY_FD, struct.pack("<IIQ", fd, len(info), ctypes.addressof(info)))
    return struct.unpack_from("<I", info, 4)[0]


def attach_pass(interface, namespace=None, generic=False, notes=0):
    """A link, as a file descriptor: closing it, or the end of the process, detaches."""
    with inside(namespace):
        index = socket.if_nametoindex(interface)
        program = load_pass(notes)
        try:
            return _bpf(_LINK_CREATE, struct.pack("<IIII", program, index, _ATTACH_XDP,
                                                  _XDP_FLAGS_SKB_MODE if generic else 0))
        finally:
            os.close(program)


def _links(program, interface, namespace):
    """Those that attach a program to one interface, as file descriptors."""
    with inside(namespace):
        index = socket.if_nametoindex(interface)
    for each in json.loads(sh("bpftool", "-j", "link", "show")):
        if each.get("prog_id") != program:
            continue
        fd = _bpf(_LINK_GET_FD_BY_ID, struct.pack("<I", each["id"]))
        info = ctypes.create_string_buffer(256)
        _bpf(_OBJ_GET_INFO_BY_FD, struct.pack("<IIQ", fd, len(info), ctypes.addressof(info)))
        if struct.unpack_from("<I", info, 16)[0] == index:
            yield fd
        os.close(fd)


def cut(program, interface, namespace):
    """Detaches the links of a program from one interface, as an administrator would."""
    for fd in _links(program, interface, namespace):
        detach_link(fd)


def detach_link(fd):
    _bpf(_LINK_DETACH, struct.pack("<I", fd))


def replace(program, interface, namespace):
    """Puts a program that passes everything into its links, which only root can do; returns its
    id."""
    other = load_pass()
    try:
        for fd in _links(program, interface, namespace):
            _bpf(_LINK_UPDATE, struct.pack("<IIII", fd, other, 0, 0))
        return program_id(other)
    finally:
        os.close(other)


def attach_loss(interface, namespace, one_in):
    """Links on both TC hooks that lose one packet in so many, a power of two (Linux 6.6)."""
    # call bpf_get_prandom_u32; r0 &= one_in - 1; if r0 == 0 drop (2), else the next (-1)
    code = b"".join(struct.pack("<BBhi", *words) for words in (
        (0x85, 0, 0, 7), (0x57, 0, 0, one_in - 1), (0x15, 0, 2, 0), (0xb7, 0, 0, -1),
        (0x95, 0, 0, 0), (0xb7, 0, 0, 2), (0x95, 0, 0, 0)))
    with inside(namespace):
        index = socket.if_nametoindex(interface)
        program = _load(_PROG_TYPE_SCHED_CLS, code, 0, b"test_loss")
        try:
            return [_bpf(_LINK_CREATE, struct.pack("<IIIIIIQ", program, index, hook, 0, 0, 0, 0))
                    for hook in (_TCX_INGRESS, _TCX_EGRESS)]
        finally:
            os.close(program)


TC_OK, TC_NEXT = 0, -1 # ends the chain, the packet goes on; asks the next program
_HOOKS = {"ingress": _TCX_INGRESS, "egress": _TCX_EGRESS}


def _load_verdict(verdict, name):
    """A program of TC that says this of every packet."""
    code = struct.pack("<BBhi", 0xb7, 0, 0, verdict) + struct.pack("<BBhi", 0x95, 0, 0, 0)
    return _load(_PROG_TYPE_SCHED_CLS, code, 0, name)


def attach_verdict(interface, namespace, hook, verdict, first=False, name=b"test_verdict"):
    """A link of such a program by TCX (Linux 6.6), as a file descriptor. first: before all."""
    program = _load_verdict(verdict, name)
    try:
        with inside(namespace):
            return _bpf(_LINK_CREATE, struct.pack(
                "<IIIIIIQ", program, socket.if_nametoindex(interface), _HOOKS[hook],
                _BEFORE if first else 0, 0, 0, 0))
    finally:
        os.close(program)


def add_filter(interface, namespace, hook, verdict, priority, protocol="all"):
    """The same by a filter, whose handle is 1."""
    program = _load_verdict(verdict, b"test_filter")
    folder = guard.scratch()
    path = os.path.join(folder, "test_filter") # tc calls the filter so
    name = ctypes.create_string_buffer(path.encode())
    sh("mount", "-t", "bpf", "bpf", folder)
    try:
        _bpf(_OBJ_PIN, struct.pack("<QII", ctypes.addressof(name), program, 0))
        filter_words = ["dev", interface, hook, "protocol", protocol, "pref", priority]
        with contextlib.suppress(RuntimeError): # it is there
            sh("tc", "qdisc", "add", "dev", interface, "clsact", namespace=namespace)
        sh("tc", "filter", "add", *filter_words, "handle", 1, "bpf", "da", "object-pinned", path,
           namespace=namespace)
    finally:
        sh("umount", folder)
        os.close(program)


def come_first(interface, namespace, hook, verdict):
    """Such a program where nothing is attached yet; its links, which a filter does not need."""
    try:
        return [attach_verdict(interface, namespace, hook, verdict)]
    except OSError: # before Linux 6.6
        add_filter(interface, namespace, hook, verdict, 1)
        return []


def fill_tcx(interface, namespace, hook="egress"):
    """Attaches programs to a hook until it is full, and returns their links as file descriptors;
    none before Linux 6.6, which only has filters.
    """
    links = []
    while True:
        try:
            links.append(attach_verdict(interface, namespace, hook, TC_NEXT, name=b"test_next"))
        except OSError:
            return links


# --- what is attached ----------------------------------------------------------

def link(interface, namespace):
    """The interface's entry in the output of `ip link`."""
    text = sh("ip", "-json", "-details", "link", "show", "dev", interface, namespace=namespace)
    return json.loads(text)[0]


def xdp_mode(interface, namespace):
    """"native", "generic", or None: no XDP program on the interface."""
    xdp = link(interface, namespace).get("xdp")
    if not xdp:
        return None
    return {1: "native", 2: "generic", 3: "offload"}.get(xdp["mode"], str(xdp["mode"]))


def _tcx(interface, attach_type):
    """Ids of the programs on a TCX hook."""
    ids = (ctypes.c_uint32 * 64)()
    attributes = ctypes.create_string_buffer(struct.pack(
        "<IIIIQIIQQQQ", socket.if_nametoindex(interface), attach_type, 0, 0,
        ctypes.addressof(ids), len(ids), 0, 0, 0, 0, 0))
    try:
        _call(_libc.syscall, BPF_CALL, _PROG_QUERY, attributes, len(attributes) - 1)
    except OSError:
        return [] # before Linux 6.6, or nothing was ever attached
    return list(ids[:struct.unpack_from("<I", attributes, 24)[0]])


def tc_programs(interface, namespace, hooks=("ingress", "egress")):
    """The programs on the interface's TC hooks: ids of TCX programs, and lines of `tc filter`."""
    with inside(namespace):
        found = [i for hook in hooks for i in _tcx(interface, _HOOKS[hook])]
    for hook in hooks:
        try:
            found += sh("tc", "filter", "show", "dev", interface, hook,
                        namespace=namespace).splitlines()
        except RuntimeError:
            pass # no such hook: no filter
    return found


# --- what an interface leaves to hardware ----------------------------------------

_SIOCETHTOOL = 0x8946
# ETHTOOL_SRXCSUM and those of TXCSUM, SG, TSO, GSO, GRO: what `ethtool -K` switches
_OFFLOADS = (0x15, 0x17, 0x19, 0x1f, 0x24, 0x2c)


def ethtool(namespace, interface, command, value):
    """One of ethtool's commands that set or get a number; returns the number afterwards."""
    with inside(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        data = ctypes.create_string_buffer(struct.pack("II", command, value))
        fcntl.ioctl(some, _SIOCETHTOOL, struct.pack("16sP", interface.encode(),
                                                    ctypes.addressof(data)))
        return struct.unpack("II", data.raw[:8])[1]


def offloads_off(interface, namespace):
    """Every frame is at most as long as the MTU, and its checksums are computed."""
    set_offloads(interface, namespace, False)


def set_offloads(interface, namespace, on):
    """Missing features stay off: a veth has no TSO while its peer has an XDP program."""
    for command in _OFFLOADS:
        try:
            ethtool(namespace, interface, command, int(on))
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise


# --- the machines ----------------------------------------------------------------

_SIOCGIFFLAGS, _IFF_RUNNING = 0x8913, 0x40
START_SECONDS = 60


def _runs(namespace, interface):
    with inside(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        request = struct.pack("16sH22x", interface.encode(), 0)
        return struct.unpack_from("H", fcntl.ioctl(some, _SIOCGIFFLAGS, request), 16)[0] & \
            _IFF_RUNNING


def await_carrier(*ends):
    """Waits until these (namespace, interface), whose peers came up after them, send: a veth is
    told that its peer is up by a thread of the kernel, and drops everything until then."""
    limit = time.monotonic() + START_SECONDS * tap.SLOW
    for namespace, interface in ends:
        while not _runs(namespace, interface):
            if time.monotonic() > limit:
                raise RuntimeError("%s has no carrier" % interface)
            time.sleep(0.001)


def send_frame(raw, frame):
    """By an AF_PACKET socket of a veth: again while its ring is full and the frame not sent."""
    while True:
        try:
            return raw.send(frame)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
        time.sleep(0.001)


_pairs = itertools.count()


def without_dad(namespace):
    """Addresses are usable at once, so that no message about them comes in the middle of a test."""
    with inside(namespace):
        for which in ("all", "default"):
            set_accept_dad(which, 0)


def set_accept_dad(which, value):
    with contextlib.suppress(FileNotFoundError):
        with open("/proc/sys/net/ipv6/conf/%s/accept_dad" % which, "w", encoding="ascii") as file:
            file.write(str(value))


def disable_ipv6(which):
    """of "all" interfaces, or of "default": interfaces to come"""
    with contextlib.suppress(FileNotFoundError):
        with open("/proc/sys/net/ipv6/conf/%s/disable_ipv6" % which, "w",
                  encoding="ascii") as file:
            file.write("1")


class Pair:
    """Two namespaces with `links` veths. On link i the server is 10.77.i.1 and fd77:i::1,
    the client 10.77.i.2 and fd77:i::2; the interfaces are sv<i> and cl<i>."""

    def __init__(self, links=1, mtu=1500):
        if os.geteuid() != 0:
            tap.skip_all("network namespaces need root")
        if not BPF_CALL:
            tap.skip_all("this test does not know the number of bpf(2) on this machine")
        name = "mc-t%d-%d" % (os.getpid(), next(_pairs))
        self.server, self.client = name + "s", name + "c"
        self.passes, self.relays = [], []
        for namespace in (self.server, self.client):
            try:
                sh("ip", "netns", "add", namespace)
            except RuntimeError as error:
                tap.skip_all("no network namespace: %s" % error)
            guard.add("netns", namespace)
            without_dad(namespace)
            sh("ip", "link", "set", "lo", "up", namespace=namespace)
        for i in range(links):
            self.add_link(i, mtu)

    def make(self, i, mtu):
        self.make_bare(i, mtu)
        self.accept(i)

    def make_bare(self, i, mtu):
        # Station addresses without a byte that would end a key: see e2e/kernel/wrong-answers.t.
        sh("ip", "link", "add", "sv%d" % i, "mtu", mtu, "address", "02:4d:43:00:01:%02x" % (64 + i),
           "netns", self.server, "type", "veth", "peer", "name", "cl%d" % i, "mtu", mtu,
           "address", "02:4d:43:00:02:%02x" % (64 + i), "netns", self.client)

    def accept(self, i):
        """The client's end takes what native XDP sends."""
        try:
            self.passes.append(attach_pass("cl%d" % i, self.client))
        except OSError as error:
            tap.skip_all("no XDP program on a veth: %s" % error)

    def add_link(self, i, mtu=1500, bare=False):
        """bare: until `accept` the client's end has no program."""
        (self.make_bare if bare else self.make)(i, mtu)
        for namespace, interface, last in ((self.server, "sv%d" % i, 1),
                                           (self.client, "cl%d" % i, 2)):
            sh("ip", "address", "add", "10.77.%d.%d/24" % (i, last), "dev", interface,
               namespace=namespace)
            sh("ip", "address", "add", "fd77:%d::%d/64" % (i, last), "dev", interface, "nodad",
               namespace=namespace)
            sh("ip", "link", "set", interface, "up", namespace=namespace)
        await_carrier(*self.first_up(i))

    def first_up(self, i):
        """The ends of the link that come up before their peers."""
        return [(self.server, "sv%d" % i)]

    def accept_any_source(self):
        """From now on, at both ends, also one to which the return path is by another interface."""
        for namespace in (self.server, self.client):
            with inside(namespace):
                for which in os.listdir("/proc/sys/net/ipv4/conf"):
                    with open("/proc/sys/net/ipv4/conf/%s/rp_filter" % which, "w",
                              encoding="ascii") as file:
                        file.write("0")

    def interface(self, i=0):
        return "sv%d" % i

    def address(self, i=0):
        return "10.77.%d.1" % i

    def close(self):
        for fd in self.passes:
            os.close(fd)
        for namespace in (self.server, self.client):
            sh("ip", "netns", "del", namespace)
            guard.remove("netns", namespace)


_TUNSETIFF, _TAP = 0x400454ca, 0x1002 # Ethernet frames without a header of tun's own


class TapPair(Pair):
    """The same with tap devices, whose driver has native XDP, and a relay for each pair."""

    def make(self, i, mtu):
        taps = [open_tap(self.server, "sv%d" % i), open_tap(self.client, "cl%d" % i)]
        relay = os.path.join(os.environ.get("BUILDDIR", os.getcwd()), "bench", "relay")
        # The relay ends when its standard input, which this process holds, is closed.
        self.passes += taps
        self.relays.append(subprocess.Popen([relay, *map(str, taps)], stdin=subprocess.PIPE,
                                            pass_fds=taps))

    def first_up(self, i):
        return []

    def close(self):
        for relay in self.relays:
            relay.communicate()
        super().close()


def open_tap(namespace, name):
    """A device that exists as long as this file descriptor."""
    with inside(namespace):
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP))
    return fd
