# SPDX-License-Identifier: BSD-3-Clause
"""sessions: real clients' sessions against a server, and how the clients are installed.

A session is a program of t/clients that prints TAP. Debian's clients are used as they are; with
T_CLIENTS=all also those of the languages' own registries, built in BUILDDIR/clients.
"""
import hashlib
import os
import re
import shutil
import subprocess

import server
import tap

ALL = os.environ.get("T_CLIENTS") == "all"
SECONDS = 600 if ALL else 300

SOURCES = os.path.join(os.path.abspath(os.environ.get("SRCDIR") or
                                       os.path.join(os.path.dirname(__file__), "..", "..")),
                       "t", "clients")
BUILT = os.path.join(os.path.abspath(os.environ.get("BUILDDIR") or
                                     os.path.join(SOURCES, "..", "..", "build")), "clients")
CHECK = re.compile(r"(not )?ok \d+ - (.*)")


def everywhere(function):
    """A case that runs only with T_CLIENTS=all."""
    return tap.case(function) if ALL else function


def where_there_is(tool):
    """A case that runs if its tool exists, and with T_CLIENTS=all in any case."""
    return tap.case if shutil.which(tool) else everywhere


def _digest(folder, steps):
    """Shows whether the sources are still those of the last build."""
    found = hashlib.sha256(repr((folder, steps)).encode())
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for path in (os.path.join(parent, name) for name in sorted(names)):
            with open(path, "rb") as file:
                found.update(path.encode() + b"\0" + file.read() + b"\0")
    return found.hexdigest()


def made(name, *steps, source=None, **environment):
    """The folder of the build tree with the program of that name: its sources, where the tools
    may write beside them, and the outputs of the steps. The steps run once: what they download
    stays, because a test in a network namespace of its own has no network (t/fetch).
    """
    source = source or os.path.join(SOURCES, name)
    target = os.path.join(BUILT, name)
    stamp = os.path.join(target, "made")
    digest = _digest(source, steps)
    try:
        with open(stamp, encoding="utf-8") as file:
            if file.read() == digest:
                return target
    except FileNotFoundError:
        pass
    shutil.copytree(source, target, dirs_exist_ok=True)
    for words in steps:
        step(*words, folder=target, **environment)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(digest)
    return target


def step(*words, folder, **environment):
    """A build's step; the session needs the files that it makes."""
    try:
        done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(os.environ, **environment))
    except FileNotFoundError:
        raise RuntimeError("%s is missing: tools/packages --install clients" % words[0]) from None
    if done.returncode:
        raise RuntimeError("%s in %s: %s" % (" ".join(words), folder,
                                             done.stdout.decode("utf-8", "replace")[-2000:]))


def python_of_debian():
    return "/usr/bin/python3"


def python_of_pypi():
    """A Python with the clients of requirements.txt."""
    python = os.path.join("venv", "bin", "python")
    return os.path.join(made(
        "python", ("python3", "-m", "venv", "venv"),
        (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "-r", "requirements.txt")), python)


def python(program, name, *words):
    """The command that runs a session in Python."""
    return [program, "-B", os.path.join(SOURCES, name, "session.py")] + list(words)


def go_program(name, *steps, **options):
    return made(name, ("go", "build", "-buildvcs=false", "-o", "session"), *steps,
                GOTOOLCHAIN="local", GOWORK="off", **options)


def go(program="session"):
    return os.path.join(go_program("gomemcache", (
        "go", "build", "-buildvcs=false", "-o", "load", "./gets")), program)


def node(program="session"):
    return ["node", os.path.join(made(
        "memjs", ("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")), program + ".js")]


def java(program="Session"):
    folder = made("java", ("mvn", "-q", "-B", "dependency:copy-dependencies",
                           "-DoutputDirectory=lib"),
                  ("javac", "-cp", "lib/*", "Session.java", "Load.java"))
    return ["java", "-cp", folder + "/lib/*:" + folder, program]


def rust_program(name, program="session"):
    return os.path.join(made(name, ("cargo", "build", "--quiet", "--locked"),
                             CARGO_TARGET_DIR="target"), "target", "debug", program)


def rust(program="session"):
    return rust_program("memcache-rs", program)


def session(name, words):
    """Runs a session to its end. Each of its checks is one of this test's."""
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS / 2)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    count = failed = 0
    for line in lines:
        check = CHECK.fullmatch(line)
        if check:
            count += 1
            failed += not tap.ok(not check[1], "%s: %s" % (name, check[2]))
        elif line.startswith("# "):
            tap.diag(line[2:])
    ended = count > 0 and "1..%d" % count in lines and done.returncode == (failed > 0)
    if not tap.ok(ended, "%s: its session runs to its end" % name):
        tap.diag("status %d after %d checks" % (done.returncode, count))
    if failed or not ended:
        tap.diag(done.stderr.decode("utf-8", "replace")[-2000:])


def alone(name, words, *arguments):
    """The session with a server of its own, whose port is added to the words."""
    with server.Server(*arguments) as memcached:
        session(name, list(words[:1]) + [str(word).replace("PORT", str(memcached.port))
                                         for word in words[1:]])
