# SPDX-License-Identifier: BSD-3-Clause
"""auth: what the tests of authentication need: users, configurations, the clients' side of SASL."""
import base64
import hashlib
import hmac
import os
import socket
import subprocess

import binary as b
import server

USER, PASSWORD = b"user", b"pass word"
REALM = socket.gethostname()
MECHANISMS = "plain cram-md5 scram-sha-1 scram-sha-256"
NOT_BY_UDP = ("-X bmc= answers UDP from whoever asks: with authentication (-S, -Y) it can answer "
              "TCP alone (without -U, with the word tcp=on)")


def write(path, data):
    """Replaces the file as an editor does, readable by the server's user."""
    data = data if isinstance(data, bytes) else data.encode()
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.chmod(path + ".new", 0o644)
    os.rename(path + ".new", path)
    return path


def add_user(database, user=USER, password=PASSWORD, realm=REALM):
    subprocess.run(["saslpasswd2", "-p", "-c", "-a", "memcached", "-f", database, "-u", realm,
                    user.decode()], input=password, check=True,
                   env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin"))
    os.chmod(database, 0o644)


def configuration(mechanisms=MECHANISMS, name="memcached.conf"):
    """A directory with a configuration and a database with one user: what SASL_CONF_PATH names."""
    folder = server.scratch()
    add_user(os.path.join(folder, "sasldb"))
    write(os.path.join(folder, name),
          "mech_list: %s\nsasldb_path: %s/sasldb\n" % (mechanisms, folder))
    return folder


def start(*arguments, env=None, conf=None, **options):
    """A server with -S."""
    env = dict(env or {}, SASL_CONF_PATH=conf or configuration())
    return server.Server("-S", *arguments, env=env, binary=True, **options)


def plain(user=USER, password=PASSWORD, authorize=b""):
    return b"\0".join((authorize, user, password))


def auth(mechanism, data=b"", **header):
    return b.request("sasl_auth", mechanism, data, **header)


def step(mechanism, data=b"", **header):
    return b.request("sasl_step", mechanism, data, **header)


LOGIN = auth(b"PLAIN", plain())
WRONG = auth(b"PLAIN", plain(password=b"wrong"))
IN = b.Reply(b.OPCODES["sasl_auth"], b.OK, 0, 0, b"", b"", b"Authenticated")
OUT = b.error("sasl_auth", b.AUTH_ERROR, b"Auth failure.")


def logged_in(memcached):
    """A connection that has logged in."""
    c = b.Binary(memcached.stream())
    if c.ask(LOGIN) != IN:
        raise RuntimeError("the right password is refused")
    return c


def cram_md5(c, user=USER, password=PASSWORD):
    """RFC 2195. The last reply."""
    challenge = c.ask(auth(b"CRAM-MD5"))
    if challenge.status != 0x21:
        return challenge
    digest = hmac.new(password, challenge.value, hashlib.md5).hexdigest().encode()
    return c.ask(step(b"CRAM-MD5", user + b" " + digest))


def _fields(message):
    return dict(part.split(b"=", 1) for part in message.split(b","))


def scram(c, mechanism=b"SCRAM-SHA-256", user=USER, password=PASSWORD):
    """RFC 5802; checks the server's proof as well. Returns the replies."""
    digest = {b"SCRAM-SHA-1": "sha1", b"SCRAM-SHA-256": "sha256"}[mechanism]
    bare = b"n=" + user + b",r=" + base64.b64encode(os.urandom(12))
    first = c.ask(auth(mechanism, b"n,," + bare))
    if first.status != 0x21:
        return [first]
    told = _fields(first.value)
    salted = hashlib.pbkdf2_hmac(digest, password, base64.b64decode(told[b"s"]), int(told[b"i"]))
    without_proof = b"c=biws,r=" + told[b"r"]
    signed = b",".join((bare, first.value, without_proof))
    key = hmac.new(salted, b"Client Key", digest).digest()
    signature = hmac.new(hashlib.new(digest, key).digest(), signed, digest).digest()
    proof = bytes(x ^ y for x, y in zip(key, signature))
    second = c.ask(step(mechanism, without_proof + b",p=" + base64.b64encode(proof)))
    if second.status != 0x21:
        return [first, second]
    server_key = hmac.new(salted, b"Server Key", digest).digest()
    if base64.b64decode(_fields(second.value)[b"v"]) != \
            hmac.new(server_key, signed, digest).digest():
        raise ValueError("the server does not prove that it knows the password")
    return [first, second, c.ask(step(mechanism))]
