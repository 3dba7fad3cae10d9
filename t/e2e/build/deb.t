#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: all
"""The Debian packages, of the programs that this build tree has: checked by lintian, and installed
over stock memcached in an overlay of this machine's root. `./check --all` builds them as packagers
do; packaging/test-deb does more, in a Debian that it boots."""
import glob
import os
import re
import subprocess

import overlay
import server
import tap
from overlay import run, works

SRCDIR = os.environ["SRCDIR"]
BUILDDIR = os.path.abspath(os.environ.get("BUILDDIR", "."))
OUT = server.scratch()
DEBS = os.environ.get("T_DEBS") # a folder with packages that are built already
# What stock's wrapper makes of each line, as far as it makes words of it.
LINES = (
    ("-m 64", ["-m", "64"]), ("  -m 64  ", ["-m", "64"]), ("-m 5#6", ["-m", "5"]),
    ("-p 11211 # trailing", ["-p", "11211"]), ("# -v", []), ("", []), ("-d", []), ("   -d  ", []),
    ("-dv", []), ("-d -m 64", []), ("-v -c 55", ["-v", "-c", "55"]),
    ("--listen=::1", ["--listen=::1"]),
    ('-s "/tmp/a b"', ["-s", "/tmp/a b"]), ("-D '$HOME `id` *'", ["-D", "$HOME `id` *"]),
    (r"-D a\ b", ["-D", "a b"]), ("logfile /var/log/memcached.log", []), ("-m 5\r", ["-m", "5"]),
    ("-l 127.0.0.1,[::1]", ["-l", "127.0.0.1,[::1]"]), ("-X bmc=eth0", ["-X", "bmc=eth0"]),
)

if os.geteuid() != 0:
    tap.skip_all("needs root, which mounts and changes its root")
if not os.path.exists(os.path.join(BUILDDIR, "bmc/bmc")):
    tap.skip_all("the tree is built without the kernel path, which the packages have")


def package(name):
    return glob.glob(os.path.join(OUT, name + "_*.deb"))[0]


def in_overlay(script):
    """Its output; all that it changes ends with it."""
    debs = os.path.join(OUT, "debs")
    os.makedirs(debs, exist_ok=True)
    for name in "memcached", "memcached-bmc":
        if not os.path.exists(os.path.join(debs, name + ".deb")):
            os.link(package(name), os.path.join(debs, name + ".deb"))
    return overlay.in_overlay(debs, script)


@tap.case
def they_are_built():
    if DEBS:
        works("they are copied", "sh", "-c", 'cp "$0"/*.deb "$1"', DEBS, OUT)
    else:
        works("packaging/deb builds them", os.path.join(SRCDIR, "packaging/deb"), "--built",
              BUILDDIR, OUT, env=dict(os.environ, DEB_BUILD_OPTIONS="noautodbgsym"))
    text = works("lintian finds no error", "lintian", "--allow-root", "--fail-on", "error",
                 package("memcached"), package("memcached-bmc"))
    tap.diag(text)
    _, version = run("dpkg-deb", "-f", package("memcached"), "Version")
    tap.like(version, r"^1:1\.5\.19\+", "the version has an epoch, which no stock version has")
    _, text = run("dpkg-deb", "-c", package("memcached"))
    for path in ("etc/init.d/memcached", "lib/systemd/system/memcached.service",
                 "lib/systemd/system/memcached@.service", "usr/bin/memcached",
                 "usr/include/memcached/protocol_binary.h", "usr/lib/tmpfiles.d/memcached.conf",
                 "usr/share/doc/memcached/README.Debian", "usr/share/doc/memcached/NEWS.Debian.gz",
                 "usr/share/man/man1/memcached.1.gz", "usr/share/memcached/memcached.conf.default",
                 "usr/share/memcached/scripts/memcached-tool",
                 "usr/share/memcached/scripts/systemd-memcached-wrapper"):
        tap.ok(re.search(r" \./%s( ->.*)?$" % re.escape(path), text, re.M), path + " is in it")
    tap.ok("usr/bin/bmc" not in text, "bmc is not")
    _, text = run("dpkg-deb", "-c", package("memcached-bmc"))
    for path in "usr/bin/bmc", "usr/share/man/man1/bmc.1.gz", "lib/systemd/system/bmc.service":
        tap.ok("./" + path in text, path + " is in memcached-bmc")


@tap.case
def it_takes_the_place_of_stock():
    status, text = in_overlay(r"""
set -e
grep -q . /etc/memcached.conf # of stock, which the tests need
echo "# an edit" | tee -a /etc/memcached.conf >>/etc/default/memcached
md5sum /etc/memcached.conf /etc/default/memcached >/edited
dpkg -i /packages/*.deb && md5sum -c /edited && echo edits stay
dpkg-query -W -f '${Version}\n' memcached
dpkg -i /packages/memcached.deb && md5sum -c /edited && echo edits stay again
dpkg --verify memcached && systemd-analyze verify /lib/systemd/system/memcached.service \
    /lib/systemd/system/bmc.service && echo units are right
dpkg --remove memcached && md5sum -c /edited && echo edits stay when it is removed
dpkg --purge memcached && ! ls /etc/memcached.conf /etc/default/memcached /etc/init.d/memcached \
    /usr/share/memcached && ! getent passwd memcache && echo purged
dpkg -i /packages/memcached.deb && getent passwd memcache
cmp /etc/memcached.conf /usr/share/memcached/memcached.conf.default && echo the default conf
""")
    tap.is_(status, 0, "stock, ours, ours again, removed, purged, installed")
    for line in ("edits stay", "edits stay again", "units are right",
                 "edits stay when it is removed", "purged", "the default conf"):
        tap.ok("\n%s\n" % line in text, line)
    if status:
        tap.diag(text)


@tap.case
def files_that_the_operator_deleted():
    status, text = in_overlay(r"""
set -e
rm /etc/memcached.conf /etc/default/memcached # of stock
for turn in over_stock again; do
    dpkg -i /packages/memcached.deb
    cmp /etc/memcached.conf /usr/share/memcached/memcached.conf.default
    ! ls /etc/default/memcached || exit 1
    rm /etc/memcached.conf
done
""")
    tap.is_(status, 0, "/etc/memcached.conf is made again, as by stock, /etc/default/memcached not")
    if status:
        tap.diag(text)


@tap.case
def the_default_conf_shows_the_kernel_path():
    with open(os.path.join(SRCDIR, "packaging/debian/share/memcached.conf.default"),
              encoding="utf-8") as file:
        lines = file.read().split("\n")
    for line in "-u memcache", "-l 127.0.0.1", "-p 11211", "# -U 11211", "# -X bmc=eth0":
        tap.ok(line in lines, "the line '%s' is there" % line)


@tap.case
def lines_of_the_conf():
    script = r"""
mount --bind /echo /usr/bin/memcached
n=0
while [ -e "/packages/$n" ]; do
    /usr/share/memcached/scripts/systemd-memcached-wrapper "/packages/$n" || echo "status $?"
    n=$((n + 1))
done
"""
    debs = os.path.join(OUT, "debs")
    os.makedirs(debs, exist_ok=True)
    confs = ["-u x\n%s\n" % line for line, _ in LINES] + ["-m 1\n", "-u x\n-D it's\n"]
    for i, conf in enumerate(confs):
        with open(os.path.join(debs, str(i)), "w", encoding="utf-8", newline="") as file:
            file.write(conf)
    _, text = in_overlay("dpkg --force-all -i /packages/memcached.deb >/dev/null 2>&1\n"
                              "printf '#!/usr/bin/python3\\nimport sys\\nprint(sys.argv[1:])\\n' "
                              ">/echo; chmod 755 /echo" + script)
    got = text.rstrip("\n").split("\n")
    for (line, words), found in zip(LINES, got):
        tap.is_(found, str(["-u", "x"] + words), "the line %r" % line)
    tap.is_(got[len(LINES)], "['-m', '1', '-u', 'root']", "without -u: root")
    tap.is_(got[-2:], ["/packages/%d:2: a quote is not closed: -D it's" % (len(LINES) + 1),
                       "status 64"], "an open quote is named, with file and line")
    for i in range(len(confs)):
        os.unlink(os.path.join(debs, str(i)))


@tap.case
def the_init_script():
    status, text = in_overlay(r"""
export SYSTEMCTL_SKIP_REDIRECT=1 _SYSTEMCTL_SKIP_REDIRECT=1
dpkg -i /packages/memcached.deb >/dev/null 2>&1
printf -- '-u memcache\n-l 127.0.0.1\n-p 11300\n' >/etc/memcached_two.conf
say() { /etc/init.d/memcached "$@" >/dev/null 2>&1; echo "$* $?"; }
say start; say start; say status; say stop two; say status two; say status; say restart two
say status two; ls /run/memcached
setpriv --reuid=nobody --clear-groups /etc/init.d/memcached status >/dev/null 2>&1; echo others $?
say stop; say status
sleep 100 & echo $! >/run/memcached/memcached_two.pid
say status two; say stop two; kill -0 $! && echo sleeps; echo $! >/run/memcached/memcached_two.pid
say start two; [ "$(cat /run/memcached/memcached_two.pid)" = $! ] || echo starts
say stop two; kill $!
say start three; say nonsense
echo ENABLE_MEMCACHED=no >/etc/default/memcached; say start; say status
""")
    wanted = """start 0, start 0, status 0, stop two 0, status two 3, status 3, restart two 0,
status two 0, memcached.pid, memcached_two.pid, others 0, stop 0, status 3, status two 1,
stop two 0, sleeps, start two 0, starts, stop two 0, start three 1, nonsense 2,
start 0, status 3"""
    tap.is_(", ".join(text.strip().split("\n")), " ".join(wanted.split()),
            "each action, with one server and with all")
    tap.is_(status, 0, "it ends")


@tap.case
def programs_that_include_the_header():
    source = os.path.join(OUT, "header.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write(r"""
#include <memcached/protocol_binary.h>
#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>

_Static_assert(sizeof(protocol_binary_request_header) == 24, "header");
_Static_assert(offsetof(protocol_binary_request_header, request.cas) == 16, "cas");
_Static_assert(offsetof(protocol_binary_request_incr, message.body.expiration) == 40, "incr");

int main(void)
{
    protocol_binary_request_set set = {.message.header.request = {
        .magic = PROTOCOL_BINARY_REQ, .opcode = PROTOCOL_BINARY_CMD_SET, .keylen = htons(1),
        .extlen = 8, .bodylen = htonl(10)}};
    protocol_binary_request_getk get = {.message.header.request = {
        .magic = PROTOCOL_BINARY_REQ, .opcode = PROTOCOL_BINARY_CMD_GETK, .keylen = htons(1),
        .bodylen = htonl(1)}};

    fwrite(set.bytes, sizeof(set.bytes), 1, stdout);
    fputs("kv", stdout);
    fwrite(get.bytes, sizeof(get.bytes), 1, stdout);
    fputs("k", stdout);
    return 0;
}
""")
    run("dpkg-deb", "-x", package("memcached"), os.path.join(OUT, "files"))
    program = os.path.join(OUT, "header")
    works("a program that includes the header compiles", os.environ.get("CC", "gcc").split()[0],
          "-Wall", "-Werror", "-I", os.path.join(OUT, "files/usr/include"), "-o", program, source)
    requests = subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout
    with server.Server() as s, s.stream() as stream:
        stream.send(requests)
        replies = stream.exactly(24 + 24 + 4 + 2)
        tap.is_((replies[:8], replies[24:32], replies[-2:]),
                (bytes.fromhex("8101000000000000"), bytes.fromhex("810c000104000000"), b"kv"),
                "the server understands what it builds")


tap.run(600)
