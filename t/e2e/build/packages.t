#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""tools/packages and tools/build, which ./run and ./check call first: the packages that they
name on other systems, who owns the tree after root has built in it, and which error a failed
build shows."""
import os
import pwd
import re
import shutil
import subprocess

import server
import tap

SRCDIR = os.environ["SRCDIR"]
WITHOUT = ("--disable-bmc", "--disable-tls", "--disable-sasl", "--disable-seccomp",
           "--disable-extstore")

if os.geteuid() != 0:
    tap.skip_all("needs root, which mounts and builds for others")


def run(*words, user=None, **environment):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
                          stderr=subprocess.STDOUT, user=user, group=user and
                          pwd.getpwnam(user).pw_gid, extra_groups=[] if user else None,
                          env=dict(os.environ, **environment), cwd="/")
    return done.returncode, done.stdout.decode("utf-8", "replace")


def commands_but(*hidden):
    """A folder with every command of this system except these."""
    folder = os.path.join(server.scratch(), "but-" + "-".join(hidden))
    os.mkdir(folder)
    for place in "/bin", "/sbin", "/usr/bin", "/usr/sbin":
        for name in os.listdir(place):
            if not name.startswith("dpkg") and name not in hidden:
                target = os.path.join(folder, name)
                if not os.path.lexists(target):
                    os.symlink(os.path.join(place, name), target)
    return folder


def modules_but(hidden):
    """A folder with every module that pkg-config knows except this one."""
    folder = os.path.join(server.scratch(), "modules")
    os.mkdir(folder)
    _, places = run("pkg-config", "--variable", "pc_path", "pkg-config")
    for place in filter(os.path.isdir, places.strip().split(":")):
        for name in os.listdir(place):
            if name != hidden + ".pc" and not os.path.lexists(os.path.join(folder, name)):
                os.symlink(os.path.join(place, name), os.path.join(folder, name))
    return folder


def packages_on(system, path, *words, **environment):
    """Runs tools/packages on another distribution, with this /etc/os-release."""
    release = os.path.join(server.scratch(), "os-release")
    with open(release, "w", encoding="utf-8") as file:
        file.write(system)
    script = 'mount --bind "$0" /etc/os-release && PATH=$1 && shift && exec "$@"'
    return run("unshare", "-m", "--propagation", "private", "sh", "-c", script, release, path,
               os.path.join(SRCDIR, "tools/packages"), *words, **environment)


SYSTEMS = (
    ("Fedora", "ID=fedora\n", ": dnf install libevent-devel clang"),
    ("CentOS Stream", 'ID="centos"\nID_LIKE="rhel fedora"\n', ": dnf install libevent-devel clang"),
    ("Arch", "ID=arch\n", ": pacman -S libevent clang"),
    ("Alpine", "ID=alpine\n", ": apk add libevent-dev clang"),
    ("another system", "ID=other\n", ", as Debian calls them: libevent-dev clang"),
)


@tap.case
def without_dpkg_packages_are_named():
    path, modules = commands_but("clang"), modules_but("libevent")
    for name, system, wanted in SYSTEMS:
        found = packages_on(system, path, "--install", "run", PKG_CONFIG_PATH="/nowhere",
                            PKG_CONFIG_LIBDIR=modules)
        tap.is_(found, (1, "packages: these are missing%s\n" % wanted),
                "%s: exactly the missing packages are named, as that system names them" % name)


@tap.case
def without_dpkg_nothing_is_missing():
    path = commands_but()
    for what in "run", "demo", "check":
        status, text = packages_on("ID=fedora\n", path, "--install", what)
        tap.is_(status, 0, "./%s goes on if nothing is missing" % what)
        tap.like(text, "nothing is missing", "tools/packages says that nothing is missing")
    status, text = packages_on("ID=fedora\n", path, "clients")
    tap.is_((status, "dpkg" in text), (1, True), "a list that only Debian has cannot be checked")


@tap.case
def all_are_printed_on_demand():
    packages = os.path.join(SRCDIR, "tools/packages")
    _, text = run(packages, "--all", "run")
    tap.is_([name for name in ("gcc", "clang", "libbpf-dev") if name not in text.split()], [],
            "--all prints those that are installed as well")
    tap.is_(run(packages, "run"), (0, ""), "without it these are none")


def copy_of_sources():
    """As a user has it who is not root."""
    folder = os.path.join(server.scratch(), "sources")
    made = re.compile(r"(\.git|build.*|configure|autom4te\.cache)$")
    shutil.copytree(SRCDIR, folder, symlinks=True, ignore=lambda place, names: [
        name for name in names if place == SRCDIR and made.match(name)])
    run("chown", "-R", server.USER, folder)
    os.chmod(os.path.dirname(folder), 0o755)
    return folder


def owners(folder):
    return {pwd.getpwuid(os.lstat(os.path.join(parent, name)).st_uid).pw_name
            for parent, folders, names in os.walk(folder) for name in folders + names}


@tap.case
def built_files_belong_to_the_owner_of_the_sources():
    source = copy_of_sources()
    build = os.path.join(source, "tools/build"), os.path.join(source, "build"), "libbase.a"
    status, text = run(*build, *WITHOUT)
    tap.is_(status, 0, "root builds in a user's tree")
    if status:
        tap.diag(text)
    tap.is_(owners(source), {server.USER}, "all files are the user's")
    os.utime(os.path.join(source, "memcached/base/clock.c"))
    status, text = run(*build, user=server.USER)
    tap.is_(status, 0, "the user builds in it afterwards")
    with open(os.path.join(source, "memcached/base/clock.c"), "a", encoding="utf-8") as file:
        file.write("#error the new one\n")
    status, text = run(*build, user=server.USER)
    if not tap.is_((status, "the new one" in text), (1, True), "a failed build shows its error"):
        tap.diag(text)
    run("chown", "-R", "root", build[1])
    status, text = run(*build, user=server.USER)
    tap.is_((status, "the new one" in text), (1, False), "it shows no older error")
    tap.like(text, r"cannot write .*root.*sudo chown -R",
             "a file that root wrote is reported, with the command that helps")


tap.run()
