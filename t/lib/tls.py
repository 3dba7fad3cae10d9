# SPDX-License-Identifier: BSD-3-Clause
"""tls: certificates, made by the openssl program, and clients that use them.

With T_TLS set, server.Server starts its server with -Z and its streams use TLS: so tests of the
protocol become tests of TLS.
"""
import functools
import os
import shutil
import socket
import ssl
import subprocess

import client
import server
import tap


def _openssl(*words):
    run = subprocess.run(["openssl", *words], stdin=subprocess.DEVNULL, capture_output=True,
                         check=False)
    if run.returncode != 0:
        raise RuntimeError("openssl %s: %s" % (" ".join(words), run.stderr.decode()))


def needed():
    """Skips the test where TLS is missing."""
    if not shutil.which("openssl"):
        tap.skip_all("openssl is missing: apt-get install openssl")
    if not server.is_built_with("enable-ssl"):
        tap.is_(server.run("-Z")[::2], (64, "This server is not built with SSL support.\n"),
                "a build without TLS names the reason")
        tap.run()


class Authority:
    """A CA in a directory of its own, and the certificates that it has signed. The server's user
    may read all of them.
    """

    def __init__(self, name="Test CA"):
        self.dir = server.scratch()
        self.cert, self.key = self.path("ca.pem"), self.path("ca.key")
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-keyout", self.key, "-out", self.cert, "-days", "2", "-subj", "/CN=" + name)

    def path(self, name):
        return os.path.join(self.dir, name)

    def issue(self, name, kind=("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), days=2):
        """(certificate, key) for localhost, in files of that name."""
        cert, key, request = (self.path(name + end) for end in (".pem", ".key", ".csr"))
        _openssl("req", "-newkey", *kind, "-nodes", "-keyout", key, "-out", request,
                 "-subj", "/CN=" + name, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        _openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key,
                 "-CAcreateserial", "-out", cert, "-days", str(days), "-copy_extensions", "copy")
        os.chmod(key, 0o644)
        return cert, key

    def context(self, pair=None, trusted=None, lowest=None, highest=None):
        """A client's settings: it trusts this CA (or another's file), and presents `pair`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(trusted or self.cert)
        context.check_hostname = False
        if pair:
            context.load_cert_chain(*pair)
        if highest is not None:
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.maximum_version = highest
        context.minimum_version = ssl.TLSVersion.TLSv1 if lowest is None else lowest
        return context


def options(pair, **more):
    """The words for -Z with that (certificate, key)."""
    words = ["ssl_chain_cert=%s" % pair[0], "ssl_key=%s" % pair[1]]
    words += ["ssl_%s=%s" % (key, value) if value is not True else "ssl_%s" % key
              for key, value in more.items()]
    return ["-Z", "-o", ",".join(words)]


@functools.lru_cache(maxsize=None)
def everywhere():
    """(options, context) of the servers of this test, with T_TLS set."""
    authority = Authority()
    return options(authority.issue("server")), authority.context()


class Manual:
    """A client that decides when which bytes of TLS are sent: `session` writes to `out` and
    reads what `pump` has received.
    """

    def __init__(self, host, port, context):
        self.sock = socket.create_connection((host, port), timeout=client.SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = context.wrap_bio(self.incoming, self.out)

    def pump(self):
        data = self.sock.recv(1 << 16)
        if data:
            self.incoming.write(data)
        else:
            self.incoming.write_eof()

    def push(self, size=1 << 20):
        """Sends what TLS has written, so many bytes at a time."""
        data = self.out.read()
        for start in range(0, len(data), size):
            self.sock.sendall(data[start:start + size])

    def until(self, action, size=1 << 20):
        """Repeats an action of the session until TLS has received enough."""
        while True:
            try:
                result = action()
                self.push(size)
                return result
            except ssl.SSLWantReadError:
                self.push(size)
                self.pump()

    def handshake(self, size=1 << 20):
        self.until(self.session.do_handshake, size)
        return self

    def write(self, data, size=1 << 20):
        self.session.write(data)
        self.push(size)

    def line(self):
        got = b""
        while not got.endswith(b"\r\n"):
            got += self.until(lambda: self.session.read(1))
        return got

    def close(self):
        self.sock.close()
