# SPDX-License-Identifier: BSD-3-Clause
"""sessions: real clients' sessions against a server, and how the clients get here.

A session is a program of t/clients that speaks TAP. Debian's clients are used as they are; with
T_CLIENTS=all also those that their own registries have, built in BUILDDIR/clients.
"""
import os
import re
import shutil
import subprocess

import server
import tap

ALL = os.environ.get("T_CLIENTS") == "all"
SECONDS = 600 if ALL else 120

SOURCES = os.path.join(os.path.abspath(os.environ.get("SRCDIR") or
                                       os.path.join(os.path.dirname(__file__), "..", "..")),
                       "t", "clients")
BUILT = os.path.join(os.path.abspath(os.environ.get("BUILDDIR") or
                                     os.path.join(SOURCES, "..", "..", "build")), "clients")
CHECK = re.compile(r"(not )?ok \d+ - (.*)")


def everywhere(function):
    """A case that only T_CLIENTS=all runs."""
    return tap.case(function) if ALL else function


def where_there_is(tool):
    """A case that runs if its tool is there, and with T_CLIENTS=all in any case."""
    return tap.case if shutil.which(tool) else everywhere


def _copy(name):
    """The session's sources in the build tree, where the tools may write beside them."""
    target = os.path.join(BUILT, name)
    shutil.copytree(os.path.join(SOURCES, name), target, dirs_exist_ok=True)
    return target


def step(*words, folder, **environment):
    """A build's step; without the files that it makes there is no session to run."""
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
    folder = os.path.join(BUILT, "python")
    program = os.path.join(folder, "bin", "python")
    if not os.path.exists(os.path.join(folder, "bin", "pip")):
        os.makedirs(BUILT, exist_ok=True)
        step("python3", "-m", "venv", folder, folder=BUILT)
    step(program, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
          "-r", os.path.join(SOURCES, "requirements.txt"), folder=BUILT)
    return program


def python(program, name, *words):
    """The command that runs a session in Python."""
    return [program, "-B", os.path.join(SOURCES, name, "session.py")] + list(words)


def go():
    folder = _copy("gomemcache")
    step("go", "build", "-buildvcs=false", "-o", "session", folder=folder, GOTOOLCHAIN="local",
          GOWORK="off")
    return os.path.join(folder, "session")


def node():
    folder = _copy("memjs")
    step("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", folder=folder)
    return ["node", os.path.join(folder, "session.js")]


def java():
    folder = _copy("spymemcached")
    step("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib",
          folder=folder)
    step("javac", "-cp", "lib/*", "Session.java", folder=folder)
    return ["java", "-cp", folder + "/lib/*:" + folder, "Session"]


def rust():
    folder = _copy("memcache-rs")
    step("cargo", "build", "--quiet", "--locked", folder=folder,
          CARGO_TARGET_DIR=os.path.join(folder, "target"))
    return os.path.join(folder, "target", "debug", "session")


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
    """The session with a server of its own, whose port follows the words."""
    with server.Server(*arguments) as memcached:
        session(name, list(words[:1]) + [str(word).replace("PORT", str(memcached.port))
                                         for word in words[1:]])
