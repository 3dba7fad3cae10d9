#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Real clients that authenticate by SASL: their whole sessions, and clients that are refused."""
import os
import subprocess

import auth
import server
import sessions
import tap

if "sasl" not in server.run("-h", user=False)[1].lower():
    tap.ok(True, "a build without SASL has no such clients")
    tap.run()

USER, PASSWORD = auth.USER.decode(), auth.PASSWORD.decode()


def python(name, *words):
    return sessions.python(sessions.python_of_debian(), name, *words)


@tap.case
def bmemcached():
    with auth.start() as memcached:
        sessions.session("bmemcached", python("bmemcached", memcached.port, USER, PASSWORD))


@tap.case
def pylibmc():
    """libmemcached uses libsasl2, which takes the first mechanism that both sides support."""
    for mechanisms in ("plain", "cram-md5", "scram-sha-256", auth.MECHANISMS):
        with auth.start(conf=auth.configuration(mechanisms)) as memcached:
            sessions.session("pylibmc, " + mechanisms,
                             python("pylibmc", memcached.port, "binary", USER, PASSWORD))


@tap.case
def by_the_password_file_alone():
    folder = server.scratch()
    path = auth.write(os.path.join(folder, "pwdb"), "%s:%s\n" % (USER, PASSWORD))
    env = {"MEMCACHED_SASL_PWDB": path, "SASL_CONF_PATH": ""}
    with server.Server("-S", env=env, binary=True) as memcached:
        sessions.session("bmemcached", python("bmemcached", memcached.port, USER, PASSWORD))
        sessions.session("pylibmc", python("pylibmc", memcached.port, "binary", USER, PASSWORD))


def memcstat(port, password):
    """Exit status and standard output of libmemcached's tool."""
    done = subprocess.run(["memcstat", "--servers=127.0.0.1:%d" % port, "--binary",
                           "--username=" + USER, "--password=" + password], check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=100)
    return done.returncode, done.stdout.decode("latin-1")


@tap.case
def clients_that_are_refused():
    with auth.start(conf=auth.configuration("plain")) as memcached:
        status, out = memcstat(memcached.port, PASSWORD)
        tap.ok(status == 0 and "pointer_size" in out,
               "memcstat with the password prints statistics")
        status, out = memcstat(memcached.port, "wrong")
        tap.ok("pointer_size" not in out, "memcstat with another password prints none")
        script = ("import bmemcached, sys\n"
                  "c = bmemcached.Client(('127.0.0.1:%d',), 'user', 'wrong')\n"
                  "try:\n    c.set('k', 'v')\n"
                  "except bmemcached.exceptions.MemcachedException as error: sys.exit(error.code)\n"
                  % memcached.port)
        done = subprocess.run([sessions.python_of_debian(), "-c", script], check=False, timeout=100)
        tap.is_(done.returncode, 0x20, "bmemcached raises the server's error")


tap.run(sessions.SECONDS)
