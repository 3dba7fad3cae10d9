#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Real clients, each with a session in which every result is checked: those of Debian's packages
always; with T_CLIENTS=all, as in ./check --all, all of them. memccapable has a test of its own.
"""

import sessions
import tap


def three_in_python(program, origin):
    for name, words in (("pymemcache", ("tcp",)), ("pylibmc", ("text",)), ("pylibmc", ("binary",)),
                        ("bmemcached", ())):
        title = " ".join((name,) + words + (origin,))
        sessions.alone(title, sessions.python(program, name, "PORT", *words))


@tap.case
def python_clients_of_debian():
    three_in_python(sessions.python_of_debian(), "of Debian")


@sessions.where_there_is("go")
def gomemcache():
    sessions.alone("gomemcache", [sessions.go(), "PORT"])


@sessions.everywhere
def python_clients_of_pypi():
    three_in_python(sessions.python_of_pypi(), "of PyPI")


@sessions.everywhere
def memjs():
    sessions.alone("memjs", sessions.node() + ["PORT"])


@sessions.everywhere
def spymemcached():
    words = sessions.java()
    for protocol in ("text", "binary"):
        sessions.alone("spymemcached " + protocol, words + ["PORT", protocol])


@sessions.everywhere
def memcache_of_rust():
    program = sessions.rust()
    for title, url in (("text", "memcache://127.0.0.1:PORT?protocol=ascii"),
                       ("binary", "memcache://127.0.0.1:PORT"),
                       ("binary over UDP", "memcache+udp://127.0.0.1:PORT")):
        sessions.alone("memcache of Rust " + title, [program, url])


tap.run(sessions.SECONDS)
