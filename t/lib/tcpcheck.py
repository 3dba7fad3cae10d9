# SPDX-License-Identifier: BSD-3-Clause
"""tcpcheck: runs t/tool/tcpcheck against a server, and runs a proxy between them that falsifies
replies."""
import contextlib
import socket
import subprocess
import threading

import child
import kernel
import tap

SECONDS = 600 # the tool itself looks for hangs


def run(host, port, *words):
    """What it counted; "status" is how it ended, "complaints" are what it found."""
    words = [kernel.beside("t/tool/tcpcheck"), "--timeout", 30 * tap.SLOW, *words, host, port]
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, timeout=SECONDS)
    words = done.stdout.decode().split()
    return {**{name: int(number) for name, number in zip(words[::2], words[1::2])},
            "status": done.returncode, "complaints": done.stderr.decode("latin-1")}


class Running(child.Child):
    """A run that goes on when connections fail, until it is told to end."""

    def __init__(self, host, port, *words):
        super().__init__([kernel.beside("t/tool/tcpcheck"), "--go-on", "--seconds", 0, "--timeout",
                          20 * tap.SLOW, *words, host, port], "tcpcheck", stdout=subprocess.PIPE)

    def ends(self):
        """What it has counted, when each connection has what it has asked for."""
        if self.alive():
            self.process.terminate()
        out, _ = self.process.communicate(timeout=SECONDS)
        self.wait()
        return {name: int(number) for name, number in zip(*[iter(out.decode().split())] * 2)}


def judge(found, operations, name):
    """No wrong byte and no hang, in as many operations as were asked for."""
    complaints = found.pop("complaints")
    tap.diag(found)
    if not tap.is_((found["status"], found.get("wrong"), found.get("hangs")), (0, 0, 0),
                   name + ": every byte is right, and nothing hangs"):
        tap.diag(complaints)
    # A reset takes along some replies that were under way, of 32 requests at most.
    least = operations - 32 * found.get("resets", 0)
    tap.ok(found.get("operations", 0) >= least, "%s: %d operations of %d are answered" %
           (name, found.get("operations", 0), operations))


def answered(m, operations, name, by):
    """Runs it against the kernel.Machines, judges, and looks at the row of `stats bmc` that counts
    the answers which the kernel is to have given."""
    judge(run(m.pair.address(), m.server.port, "--operations", operations), operations, name)
    rows = m.tcp.stats("bmc")
    tap.diag({key: rows[key] for key in rows if key.startswith("tcp_") and rows[key] != "0"})
    tap.ok(int(rows[by]) > operations // 100, "%s: the kernel has answered %s" % (name, rows[by]))


class Proxy:
    """Between the connections of this process's namespace and a server. `falsify` is handed the
    number of a piece of what the server sends, from 0 over all connections, and the piece. It
    returns what the client gets instead; None: this connection gets nothing any more."""

    def __init__(self, port, falsify):
        self.port, self.falsify, self.pieces = port, falsify, 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = self.listener.getsockname()
        self._start(self._accept)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR) # which ends its accept()
        self.listener.close()

    @staticmethod
    def _start(function, *arguments):
        threading.Thread(target=function, args=arguments, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                return # the run is over
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start(self._carry, near, far, False)
            self._start(self._carry, far, near, True)

    def _changed(self, piece):
        with self.lock:
            self.pieces += 1
            return self.falsify(self.pieces - 1, piece)

    def _carry(self, source, to, from_server):
        try:
            while True:
                piece = source.recv(1 << 16)
                if not piece:
                    break
                if from_server:
                    piece = self._changed(piece)
                if piece is None:
                    return
                to.sendall(piece)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, to):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
