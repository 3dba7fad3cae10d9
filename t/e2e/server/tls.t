#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""TLS for an operator: options, certificates and their renewal, listeners, statistics."""
import os
import select
import signal
import socket
import ssl
import subprocess
import threading

import client
import server
import tap
import tls
from daemon import Daemon

USAGE, OSERR = 64, 71
V1_0, V1_1, V1_2, V1_3 = (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2,
                          ssl.TLSVersion.TLSv1_3)
RSA = ("rsa:2048",)

tls.needed()
CA = tls.Authority()
OTHER_CA = tls.Authority("Another CA")
PAIR = CA.issue("server")
SECOND = CA.issue("second")
OWN = CA.issue("client")
FOREIGN = OTHER_CA.issue("foreigner")


def start(pair=PAIR, *arguments, context=None, **more):
    return server.Server(*tls.options(pair, **more), *arguments, context=context or CA.context(),
                         udp=False)


def greets(memcached, context):
    """Whether a client with that context is served. False: TLS failed or the connection was
    closed."""
    other = None
    try:
        other = client.tcp(memcached.host, memcached.port, context)
        return other.ask(b"version\r\n").startswith(b"VERSION ")
    except (OSError, client.Closed):
        return False
    finally:
        if other:
            other.close()


def certificate_for(memcached, context=None):
    """The name in the certificate that a new connection gets."""
    other = client.tcp(memcached.host, memcached.port, context or CA.context())
    try:
        return dict(pair[0] for pair in other.sock.getpeercert()["subject"])["commonName"]
    finally:
        other.close()


def refused(words, status, text):
    port = server.free_port()
    got, _, error = server.run("-p", port, "-U", "0", "-l", "127.0.0.1", *words)
    name = " ".join(words).replace(CA.dir + "/", "")
    tap.is_(got, status, "%s: status %d" % (name, status))
    tap.ok(text in error and error.count("\n") == 1, "the message is one line: " + text.strip("/"))
    if text not in error:
        tap.diag(error)


# --- options ----------------------------------------------------------------


@tap.case
def settings():
    with start(verify_mode=1, ca_cert=CA.cert, ciphers="HIGH", wbuf_size=8, session_cache=True,
               min_version=3) as memcached:
        rows = memcached.stream().stats_list("settings")
        mine = [row for row in rows if row[0].startswith("ssl_")]
        tap.is_(mine, [("ssl_enabled", "yes"), ("ssl_chain_cert", PAIR[0]), ("ssl_key", PAIR[1]),
                       ("ssl_verify_mode", "1"), ("ssl_keyformat", "1"), ("ssl_ciphers", "HIGH"),
                       ("ssl_ca_cert", CA.cert), ("ssl_wbuf_size", "8192"),
                       ("ssl_session_cache", "yes"), ("ssl_min_version", "tlsv1.3")],
                "stats settings shows the given options, in memcached's order")
    for mode, shown in ((0, "0"), (1, "1"), (2, "3"), (3, "7")):
        with start(context=CA.context(OWN), verify_mode=mode, ca_cert=CA.cert) as memcached:
            tap.is_(memcached.stats("settings")["ssl_verify_mode"], shown,
                    "ssl_verify_mode=%d is shown as OpenSSL's flags, as memcached does" % mode)
    with server.Server() as memcached:
        mine = {k: v for k, v in memcached.stats("settings").items() if k.startswith("ssl_")}
        tap.is_(mine, {"ssl_enabled": "no", "ssl_chain_cert": "NULL", "ssl_key": "NULL",
                       "ssl_verify_mode": "0", "ssl_keyformat": "1", "ssl_ciphers": "NULL",
                       "ssl_ca_cert": "NULL", "ssl_wbuf_size": "16384",
                       "ssl_session_cache": "no", "ssl_min_version": "tlsv1.2"},
                "stats settings shows the defaults without -Z")
        c = memcached.stream()
        tap.is_(c.ask(b"refresh_certs\r\n"), b"Error TLS not enabled\r\n",
                "refresh_certs without -Z answers that TLS is off")
        tap.is_(c.stats("tls"), {"ssl_enabled": "no"}, "stats tls without -Z says so")
        tap.ok("time_since_server_cert_refresh" not in c.stats(),
               "stats without -Z has no key of TLS")


@tap.case
def statistics():
    with start(PAIR, "-o", "no_lru_crawler,no_lru_maintainer") as memcached:
        keys = [key for key, _ in memcached.stream().stats_list()]
        tap.is_(len(keys), 72, "stats has 72 keys under memcached's test suite's options")
        at = keys.index("time_since_server_cert_refresh")
        tap.is_(keys[at + 1], "bytes", "time_since_server_cert_refresh comes before bytes")


@tap.case
def refused_options():
    junk = CA.path("junk.pem")
    with open(junk, "w", encoding="ascii") as file:
        file.write("this is no certificate\n")
    gone, cert, key = CA.path("gone"), PAIR[0], PAIR[1]
    refused(["-Z"], USAGE, "Error loading the certificate chain: -o ssl_chain_cert is needed")
    refused(tls.options((gone, key)), USAGE, "Error loading the certificate chain: %s : " % gone)
    refused(tls.options((junk, key)), USAGE, "Error loading the certificate chain: %s : " % junk)
    refused(tls.options((CA.dir, key)), USAGE, "Error loading the certificate chain: ")
    refused(tls.options((cert, gone)), USAGE, "Error loading the key: %s : " % gone)
    refused(tls.options((cert, junk)), USAGE, "Error loading the key: %s : " % junk)
    refused(tls.options((cert, SECOND[1])), USAGE, "key values mismatch")
    refused(["-Z", "-o", "ssl_chain_cert=" + cert], USAGE, "Error loading the key: %s : " % cert)
    refused(tls.options(PAIR, keyformat=2), USAGE, "Error loading the key: %s : " % key)
    refused(tls.options(PAIR, keyformat=3), USAGE, "bad ssl filetype")
    for path in (gone, junk):
        refused(tls.options(PAIR, ca_cert=path), USAGE,
                "Error loading the CA certificate: %s : " % path)
    refused(tls.options(PAIR, ciphers="nonsense"), USAGE,
            "Error setting the provided cipher(s): nonsense")
    refused(tls.options(PAIR) + ["-p", "0"], USAGE,
            "ERROR: You cannot enable SSL without a TCP port.")
    refused(["-l", "notls:127.0.0.2"], OSERR, "'notls' option is valid only when SSL is enabled")


# --- certificates and keys ----------------------------------------------------


def join(path, *parts):
    """One file made of several."""
    with open(path, "wb") as file:
        for part in parts:
            with open(part, "rb") as source:
                file.write(source.read())


@tap.case
def forms_of_keys():
    der, both = CA.path("server.der"), CA.path("both.pem")
    subprocess.run(["openssl", "pkey", "-in", PAIR[1], "-outform", "DER", "-out", der], check=True)
    join(both, *PAIR)
    with start((PAIR[0], der), keyformat=2) as memcached:
        tap.is_(certificate_for(memcached), "server",
                "a key in DER form is read with ssl_keyformat=2")
    with server.Server("-Z", "-o", "ssl_chain_cert=" + both, context=CA.context()) as memcached:
        tap.is_(certificate_for(memcached), "server",
                "a key in the file of the certificate is read")
    with start(CA.issue("rsa", RSA)) as memcached:
        tap.is_(certificate_for(memcached), "rsa", "an RSA key is read")


@tap.case
def a_chain_of_certificates():
    between, request = CA.path("between.pem"), CA.path("between.csr")
    leaf, chain, known = (CA.path(name + ".pem") for name in ("leaf", "chain", "known"))
    extension = CA.path("between.ext")
    with open(extension, "w", encoding="ascii") as file:
        file.write("basicConstraints=CA:TRUE\n")
    key = CA.issue("between")[1]
    subprocess.run(["openssl", "x509", "-req", "-in", request, "-CA", CA.cert, "-CAkey", CA.key,
                    "-CAcreateserial", "-extfile", extension, "-out", between], check=True,
                   stderr=subprocess.DEVNULL)
    leaf_key = CA.issue("leaf")[1]
    subprocess.run(["openssl", "x509", "-req", "-in", CA.path("leaf.csr"), "-CA", between,
                    "-CAkey", key, "-CAcreateserial", "-out", leaf], check=True,
                   stderr=subprocess.DEVNULL)
    join(chain, leaf, between)
    join(known, CA.cert, between)
    with start((chain, leaf_key)) as memcached:
        tap.is_(certificate_for(memcached), "leaf",
                "the chain is sent: the client has only the root")
    with server.Server(*tls.options((leaf, leaf_key)),
                       context=CA.context(trusted=known)) as memcached:
        tap.ok(not greets(memcached, CA.context()),
               "without the intermediate certificate the client refuses")


@tap.case
def verification_of_clients():
    anyone = {"no certificate": None, "a good one": OWN, "another CA's": FOREIGN}
    served = {0: {"no certificate", "a good one", "another CA's"},
              1: {"no certificate", "a good one"}, 2: {"a good one"}, 3: {"a good one"}}
    for mode, good in served.items():
        with start(context=CA.context(OWN), verify_mode=mode, ca_cert=CA.cert) as memcached:
            control = memcached.stream()
            for version in (V1_2, V1_3):
                for name, pair in anyone.items():
                    context = CA.context(pair)
                    context.minimum_version = context.maximum_version = version
                    tap.is_(greets(memcached, context), name in good,
                            "ssl_verify_mode=%d, %s, %s" % (mode, version.name, name))
            errors = int(control.stats("tls")["ssl_handshake_errors"])
            tap.is_(errors, 2 * (3 - len(good)), "each failure is counted")


@tap.case
def certificate_requests():
    with start(context=CA.context(OWN), verify_mode=2, ca_cert=CA.cert) as memcached:
        run = subprocess.run(["openssl", "s_client", "-connect", "127.0.0.1:%d" % memcached.port,
                              "-tls1_2"], input=b"", capture_output=True, check=False)
        tap.like(run.stdout, r"Acceptable client certificate CA names\n.*CN ?= ?Test CA",
                 "the names of the CAs in ssl_ca_cert are sent to clients")
    warned = tls.options(PAIR, verify_mode=2)
    with server.Server(*warned, listen="notls:127.0.0.1", udp=False) as memcached:
        tap.like(memcached.log(),
                 "ssl_verify_mode without ssl_ca_cert: no client certificate",
                 "a mode without ssl_ca_cert, which refuses every client, is logged at the start")


@tap.case
def minimum_version():
    every = (V1_0, V1_1, V1_2, V1_3)
    for minimum, more in ((None, {}), (3, {}), (2, {}), (1, {"ciphers": "ALL:@SECLEVEL=0"}),
                          (0, {"ciphers": "ALL:@SECLEVEL=0"})):
        if minimum is not None:
            more = dict(more, min_version=minimum)
        with start(**more) as memcached:
            for number, version in enumerate(every):
                context = CA.context(lowest=version, highest=version)
                want = number >= (2 if minimum is None else minimum)
                tap.is_(greets(memcached, context), want, "ssl_min_version=%s: %s is %s" %
                        (minimum, version.name, "served" if want else "refused"))


@tap.case
def ciphers():
    with start(ciphers="ECDHE-ECDSA-AES128-GCM-SHA256") as memcached:
        context = CA.context(highest=V1_2)
        other = client.tcp(memcached.host, memcached.port, context)
        tap.is_(other.sock.cipher()[0], "ECDHE-ECDSA-AES128-GCM-SHA256",
                "ssl_ciphers selects the ciphers of TLS 1.2")
        context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
        tap.ok(not greets(memcached, context), "a client without such a cipher is refused")
        tap.ok(greets(memcached, CA.context()), "TLS 1.3 has its own ciphers")


@tap.case
def session_resumption():
    def resumes(memcached, version):
        """[first, second]: whether each connection resumed a session."""
        context = CA.context(OWN, highest=version, lowest=version)
        session, found = None, []
        for _ in range(2):
            other = client.tcp(memcached.host, memcached.port, context, session)
            other.ask(b"version\r\n")
            found.append(other.sock.session_reused)
            session = other.sock.session
            other.sock.unwrap()
            other.close()
        return found

    for mode in (0, 2):
        with start(context=CA.context(OWN), session_cache=True, verify_mode=mode,
                   ca_cert=CA.cert) as memcached, memcached.stream() as control:
            for version in (V1_2, V1_3):
                tap.is_(resumes(memcached, version), [False, True],
                        "ssl_session_cache, mode %d: %s resumes the session" % (mode, version.name))
            tap.is_(control.stats("tls")["ssl_resumed_sessions"], "2", "the resumption is counted")
            control.ask(b"refresh_certs\r\n")
            control.ask(b"stats reset\r\n")
            tap.is_(control.stats("tls")["ssl_resumed_sessions"], "0",
                    "stats reset sets the count to 0")
    with start() as memcached:
        for version in (V1_2, V1_3):
            tap.is_(resumes(memcached, version), [False, False],
                    "without ssl_session_cache %s begins a new session" % version.name)


@tap.case
def a_session_ends_with_its_certificates():
    with start(session_cache=True) as memcached:
        for version in (V1_2, V1_3):
            context = CA.context(highest=version, lowest=version)
            first = client.tcp(memcached.host, memcached.port, context)
            first.ask(b"refresh_certs\r\n")
            second = client.tcp(memcached.host, memcached.port, context, first.sock.session)
            second.ask(b"version\r\n")
            tap.ok(not second.sock.session_reused,
                   "%s: a session from before refresh_certs is not resumed" % version.name)


# --- renewal --------------------------------------------------------------------


class Files:
    """A server's certificate and key in files of their own, which are replaced."""

    def __init__(self, pair):
        self.dir = server.scratch()
        self.pair = os.path.join(self.dir, "cert.pem"), os.path.join(self.dir, "cert.key")
        self.become(pair)

    def become(self, pair):
        for source, target in zip(pair, self.pair):
            with open(source, "rb") as file:
                data = file.read()
            with open(target + ".new", "wb") as file:
                file.write(data)
            os.rename(target + ".new", target)


@tap.case
def refresh_certs():
    files = Files(PAIR)
    with start(files.pair) as memcached, memcached.stream() as old:
        tap.is_(certificate_for(memcached), "server", "a client gets the first certificate")
        files.become(SECOND)
        tap.is_(certificate_for(memcached), "server",
                "a new file without refresh_certs has no effect")
        tap.is_(old.ask(b"refresh_certs\r\n"), b"OK\r\n", "refresh_certs reads the new file")
        tap.is_(certificate_for(memcached), "second", "new connections get the new certificate")
        tap.is_(old.set(b"k", b"v" * 100000), b"STORED\r\n", "the old connection goes on")
        tap.is_(old.all(b"refresh_certs noreply\r\n"), b"", "noreply suppresses the answer")
        tap.is_(old.stats("tls")["ssl_cert_refreshes"], "2", "refreshes are counted")


@tap.case
def a_failed_refresh_changes_nothing():
    files = Files(PAIR)
    with start(files.pair) as memcached, memcached.stream() as c:
        files.become((SECOND[0], PAIR[1]))
        tap.like(c.ask(b"refresh_certs\r\n"),
                 r"\AError loading the key: %s : error:.*mismatch\r\n" % files.pair[1],
                 "a key that does not belong to its certificate is refused")
        tap.is_(certificate_for(memcached), "server", "the old pair is kept")
        with open(files.pair[0], "wb") as file:
            file.write(b"half a certif")
        tap.like(c.ask(b"refresh_certs\r\n"),
                 r"\AError loading the certificate chain: \S+ : error:",
                 "a truncated certificate is refused")
        os.unlink(files.pair[0])
        tap.like(c.ask(b"refresh_certs\r\n"), r"\AError loading the certificate chain: "
                 r".*No such file or directory\r\n", "a missing file is refused")
        tap.is_(certificate_for(memcached), "server", "the old pair is kept")
        stats = c.stats("tls")
        tap.is_((stats["ssl_cert_refreshes"], stats["ssl_cert_refresh_errors"]), ("0", "3"),
                "failures are counted")
        files.become(SECOND)
        tap.is_(c.ask(b"refresh_certs\r\n"), b"OK\r\n", "with good files it succeeds again")
        tap.is_(certificate_for(memcached), "second", "the new pair is used")


@tap.case
def a_refresh_asks_nobody_for_a_passphrase():
    files, locked = Files(PAIR), CA.path("locked.key")
    subprocess.run(["openssl", "pkey", "-aes256", "-passout", "pass:secret", "-in", PAIR[1],
                    "-out", locked], check=True)
    os.chmod(locked, 0o644)
    filtered = "no_drop_privileges" in server.run("-h")[1]
    for words in ([], ["-o", "drop_privileges"] if filtered else []):
        files.become(PAIR)
        with start(files.pair, *words) as memcached, memcached.stream() as c:
            files.become((PAIR[0], locked))
            tap.like(c.ask(b"refresh_certs\r\n"),
                     r"\AError loading the key: %s : error:" % files.pair[1],
                     " ".join(["a key with a passphrase is refused", *words]))
            tap.is_(c.get(b"k"), None, "the server goes on")
            tap.is_(certificate_for(memcached), "server", "with the old pair")


@tap.case
def a_refresh_waits_for_no_fifo():
    for which in range(3):
        files = Files(PAIR)
        paths = *files.pair, os.path.join(files.dir, "ca.pem")
        with open(CA.cert, "rb") as source, open(paths[2], "wb") as file:
            file.write(source.read())
        with start(files.pair, ca_cert=paths[2]) as memcached, memcached.stream() as c:
            os.unlink(paths[which])
            os.mkfifo(paths[which], 0o644)
            tap.is_(c.ask(b"refresh_certs\r\n"),
                    b"Error loading %s: Not a regular file\r\n" % paths[which].encode(),
                    "a FIFO in the place of %s is refused" % os.path.basename(paths[which]))


@tap.case
def sighup_refreshes_certificates():
    files = Files(PAIR)
    with start(files.pair) as memcached, memcached.stream() as control:

        def refreshes(key):
            return int(control.stats("tls")[key])

        files.become(SECOND)
        memcached.signal(signal.SIGHUP)
        tap.ok(server.wait_for(lambda: refreshes("ssl_cert_refreshes") == 1),
               "SIGHUP reads the files again")
        tap.is_(certificate_for(memcached), "second", "new connections get the new certificate")
        os.unlink(files.pair[1])
        memcached.signal(signal.SIGHUP)
        tap.ok(server.wait_for(lambda: refreshes("ssl_cert_refresh_errors") == 1),
               "a failure is counted in stats tls")
        server.logged(memcached, "the old certificates stay")
        tap.like(memcached.log(), r"Error loading the key: .*; the old certificates stay",
                 "a failure is logged")
        tap.is_(certificate_for(memcached), "second", "the certificate is unchanged")


@tap.case
def the_client_authorities_are_refreshed():
    files = Files((CA.cert, CA.key))
    with start(context=CA.context(OWN), verify_mode=2, ca_cert=files.pair[0]) as memcached:
        control = memcached.stream()
        tap.ok(not greets(memcached, CA.context(FOREIGN)),
               "a client with a certificate of another CA is refused")
        files.become((OTHER_CA.cert, OTHER_CA.key))
        tap.is_(control.ask(b"refresh_certs\r\n"), b"OK\r\n", "refresh_certs replaces the CA")
        tap.ok(greets(memcached, CA.context(FOREIGN)), "a client of the new CA is served")
        tap.ok(not greets(memcached, CA.context(OWN)), "a client of the old CA is refused")
        tap.is_(control.set(b"k", b"v"), b"STORED\r\n", "an authenticated connection goes on")


@tap.case
def refresh_under_load_loses_no_connection():
    files = Files(PAIR)
    with start(files.pair) as memcached:
        lasting, stop, wrong, served = memcached.stream(), threading.Event(), [], []

        def visit(number):
            kept, count = memcached.stream(), 0
            while not stop.is_set():
                try:
                    if certificate_for(memcached) not in ("server", "second"):
                        wrong.append("got another certificate")
                    value = b"%d" % count * 5000
                    kept.set(b"k%d" % number, value)
                    if kept.get(b"k%d" % number) != value:
                        wrong.append("another value")
                    count += 1
                except Exception as error:
                    wrong.append(repr(error))
                    break
            served.append(count)

        threads = [threading.Thread(target=visit, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        answers = set()
        for turn in range(40):
            files.become(SECOND if turn % 2 == 0 else PAIR)
            answers.add(lasting.ask(b"refresh_certs\r\n"))
            memcached.signal(signal.SIGHUP)
        tap.ok(server.wait_for(lambda: wrong or int(lasting.stats("tls")["ssl_handshakes"]) > 100),
               "connections are made meanwhile")
        stop.set()
        for thread in threads:
            thread.join()
        tap.is_(answers, {b"OK\r\n"}, "40 refreshes succeed")
        tap.is_(wrong, [], "no connection and no value is lost")
        tap.ok(all(served), "each client was served (%r times)" % served)
        tap.is_(lasting.stats("tls")["ssl_handshake_errors"], "0", "no handshake has failed")


@tap.case
def keys_that_only_root_can_read():
    if os.geteuid() != 0:
        return
    files = Files(PAIR)
    os.chmod(files.pair[1], 0o600)
    with start(files.pair) as memcached:
        tap.ok(greets(memcached, CA.context()), "the key is read before the privileges are dropped")
        tap.like(memcached.stream().ask(b"refresh_certs\r\n"), "Permission denied",
                 "later it cannot be read, which refresh_certs answers")
        tap.ok(greets(memcached, CA.context()), "the old key is kept")


@tap.case
def relative_paths_and_a_daemon():
    files = Files(PAIR)
    words = tls.options(("cert.pem", "cert.key"))
    with Daemon(*words, cwd=files.dir) as daemon:
        c = daemon.stream(CA.context())
        files.become(SECOND)
        tap.is_(c.ask(b"refresh_certs\r\n"), b"OK\r\n",
                "refresh_certs finds them from another directory")
    status, _, error = server.run("-d", "-p", server.free_port(), *words[:-1],
                                  "ssl_chain_cert=gone", cwd=files.dir)
    tap.is_(status, USAGE, "a missing file ends the start before -d goes to the background")
    tap.like(error, "Error loading the certificate chain: gone : ", "the message has the reason")


# --- listeners --------------------------------------------------------------------


@tap.case
def plain_and_tls_listeners():
    plain_port = server.free_port()
    ports = os.path.join(server.scratch(), "ports")
    with server.Server(*tls.options(PAIR), "-l", "notls:127.0.0.1:%d" % plain_port,
                       context=CA.context(), env={"MEMCACHED_PORT_FILENAME": ports}) as memcached:
        plain = client.tcp("127.0.0.1", plain_port)
        secret = memcached.stream()
        tap.is_(secret.set(b"k", b"v"), b"STORED\r\n", "TLS where -l has no prefix")
        tap.is_(plain.get(b"k"), b"v", "plain text behind notls:")
        tap.is_(memcached.udp().get(b"k"), b"v", "UDP is plain")
        tap.is_(client.tcp("127.0.0.1", memcached.port).to_end(b"get k\r\n")[:1] in (b"", b"\x15"),
                True, "plain text on the TLS port is not answered")
        tap.ok(not greets_at(plain_port), "TLS on the plain port is not answered")
        states = plain.stats("conns")
        mine = "tcp:127.0.0.1:%d" % secret.sock.getsockname()[1]
        tap.ok(mine in states.values(), "stats conns lists TLS connections")
        with open(ports, encoding="ascii") as file:
            lines = file.read().splitlines()
        tap.is_(sorted(lines)[:2], sorted(["TCP INET: %d" % memcached.port,
                                           "TCP INET: %d" % plain_port]),
                "the port file has both ports")


def greets_at(port):
    try:
        other = client.tcp("127.0.0.1", port, CA.context())
        other.close()
        return True
    except OSError:
        return False


@tap.case
def a_unix_socket_has_no_tls():
    path = os.path.join(server.scratch(), "socket")
    with server.Server(*tls.options(PAIR), unix=path) as memcached:
        tap.is_(memcached.stream().set(b"k", b"v"), b"STORED\r\n", "-s with -Z is plain text")
        tap.like(memcached.log(), "the unix socket does not use TLS", "the log says so")


@tap.case
def one_too_many():
    with start(PAIR, "-c", "30", "-t", "2") as memcached, memcached.stream() as control:
        held = [socket.create_connection(("127.0.0.1", memcached.port)) for _ in range(40)]
        closed = select.select(held, [], [], client.SECONDS)[0]
        tap.is_({other.recv(100) for other in closed}, {b""},
                "over -c a TLS connection is closed without plain text")
        tap.ok(int(control.stats()["rejected_connections"]) >= len(closed),
               "rejected_connections counts it")


@tap.case
@tap.uninterrupted(2)
def idle_connections():
    with start(PAIR, "-o", "idle_timeout=4") as memcached, memcached.stream() as silent:
        silent.ask(b"version\r\n")
        half = socket.create_connection(("127.0.0.1", memcached.port), timeout=30)
        half.sendall(b"\x16\x03\x01\x02\x00\x01")
        silent.sock.settimeout(30)
        silent.sock.suppress_ragged_eofs = False
        tap.is_(silent.sock.recv(1), b"", "idle_timeout sends close_notify to TLS clients")
        tap.is_(half.recv(1), b"", "it closes connections within the handshake")


@tap.case
def a_reason_is_logged():
    with start(PAIR, "-v") as memcached:
        greets(memcached, OTHER_CA.context())
        tap.ok(server.wait_for(lambda: "TLS handshake failed: " in memcached.log()),
               "-v logs why a handshake failed")


tap.run()
