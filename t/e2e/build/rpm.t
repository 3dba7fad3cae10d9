#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""The RPM packages, of the programs that this build tree has: checked by rpmlint, and installed in
an overlay of this machine's root. `./check --all` builds them as packagers do."""
import glob
import os
import re

import overlay
import server
import tap
from overlay import run, works

SRCDIR = os.environ["SRCDIR"]
BUILDDIR = os.path.abspath(os.environ.get("BUILDDIR", "."))
OUT = server.scratch()
RPMS = os.environ.get("T_RPMS") # a folder with packages that are built already
UNIT = "/usr/lib/systemd/system/memcached.service"
FILES = {
    "memcached": (
        "/etc/sysconfig/memcached", "/usr/bin/memcached", "/usr/bin/memcached-tool", UNIT,
        "/usr/lib/sysusers.d/memcached.conf", "/usr/share/man/man1/memcached.1",
        "/usr/share/doc/memcached/README.md", "/usr/share/doc/memcached/doc/kernel-path.md"),
    "memcached-devel": ("/usr/include/memcached/protocol_binary.h",),
    "memcached-bmc": ("/usr/bin/bmc", "/usr/share/man/man1/bmc.1",
                      "/usr/lib/systemd/system/bmc.service"),
}
# In the overlay: rpm of Debian installs only if it is told so, and knows no package of the system.
# What ExecStart says is run as the shell makes words of it, which systemd does the same way here.
# Stock's files are not in the way.
PRELUDE = r"""
set -e
install_rpm() { rpm --force-debian --nodeps "$@" /packages/memcached-1*.rpm; }
started() {
    ( . /etc/sysconfig/memcached
      eval "$(sed -n 's/^ExecStartPre=+//p' %(unit)s)"
      eval "exec $(sed -n 's/^ExecStart=//p' %(unit)s)" ) >/log 2>&1 &
    server=$!
}
ask() {
    timeout 20 python3 -c '
import socket, sys, time
while True:
    try:
        s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        break
    except ConnectionRefusedError:
        time.sleep(0.01)
s.sendall("".join(line + "\r\n" for line in sys.argv[2:] + ["quit"]).encode())
while data := s.recv(65536):
    sys.stdout.write(data.decode().replace("\r", ""))' "$@" || cat /log
}
rm -f %(unit)s /usr/bin/memcached /usr/share/man/man1/memcached.1.gz
""" % {"unit": UNIT}

if os.geteuid() != 0:
    tap.skip_all("needs root, which mounts and changes its root")
if not os.path.exists(os.path.join(BUILDDIR, "bmc/bmc")):
    tap.skip_all("the tree is built without the kernel path, which the packages have")


def package(name):
    return glob.glob(os.path.join(OUT, name + "-[0-9]*.%s.rpm" % (
        "noarch" if name == "memcached-devel" else os.uname().machine)))[0]


def files(name):
    """Some machines' rpm compresses manuals, some do not."""
    return [re.sub(r"(/man1/.*)\.gz$", r"\1", file)
            for file in run("rpm", "-qpl", package(name))[1].split()]


def in_overlay(script, *wanted):
    """The output of a script must have each of these lines."""
    status, text = overlay.in_overlay(OUT, PRELUDE + script)
    right = tap.is_(status, 0, "the commands succeed")
    for line in wanted:
        right &= tap.ok("\n%s\n" % line in "\n" + text, line)
    if not right:
        tap.diag(text)
    return text


@tap.case
def they_are_built():
    if RPMS:
        works("they are copied", "sh", "-c", 'cp "$0"/*.rpm "$1"', RPMS, OUT)
    else:
        works("packaging/rpm builds them", os.path.join(SRCDIR, "packaging/rpm"), "--built",
              BUILDDIR, OUT)
    _, text = run("rpmlint", "-r", os.path.join(SRCDIR, "packaging/redhat/memcached.rpmlintrc"),
                  os.path.join(SRCDIR, "packaging/redhat/memcached.spec"), *map(package, FILES))
    tap.like(text, r"3 packages and 1 specfiles checked", "rpmlint has looked at all")
    tap.is_(re.findall(r"^.*: E: .*$", text, re.M), [], "it finds no error")
    tap.is_(run("rpm", "-qp", "--qf", "%{epoch}:%{version}", package("memcached"))[1].split("+")[0],
            "1:1.5.19", "the version has an epoch, which no version of the distribution's has")
    for name, wanted in FILES.items():
        found = files(name)
        tap.is_([file for file in wanted if file not in found], [], "nothing is missing: " + name)
    tap.is_([file for file in files("memcached") if file in FILES["memcached-bmc"]], [],
            "what bmc needs is in memcached-bmc alone")
    tap.is_(run("rpm", "-qpc", package("memcached"))[1], "/etc/sysconfig/memcached\n",
            "the file in sysconfig is a configuration file")


@tap.case
def the_installed_server_serves():
    in_overlay(r"""
install_rpm -i
rpm -V --nodeps memcached && echo nothing is changed
getent passwd memcached >/dev/null && echo the user exists
rpm --force-debian --nodeps -i /packages/memcached-bmc-*.rpm
rm -f /etc/systemd/system/memcached.service /lib/systemd/system/memcached@.service
systemd-analyze verify %s /usr/lib/systemd/system/bmc.service && echo the units are right
started
ask 11211 "set key 0 0 5" value "get key" | grep '^value$'
echo "it runs as $(ps -o user:20= -p $server)"
stat -c '%%U has %%n' /run/memcached /var/lib/memcached
kill -USR1 $server; wait $server || test $? -eq 138 && echo it ends
sed -i 's/^PORT=.*/PORT="11299"/; s/^USER=.*/USER="games"/; s/^CACHESIZE=.*/CACHESIZE="100"/
    s/^MAXCONN=.*/MAXCONN="222"/; s/^OPTIONS=.*/OPTIONS="-l 127.0.0.1 -t 3"/' \
    /etc/sysconfig/memcached
started
ask 11299 "stats settings" >/settings; cat /settings
memcached-tool 127.0.0.1:11299 display | grep -q Item_Size && echo the tool works
echo "it runs as $(ps -o user:20= -p $server)"
stat -c '%%U has %%n' /run/memcached /var/lib/memcached
kill $server
""" % UNIT, "nothing is changed", "the user exists", "the units are right", "value",
               "it runs as memcached", "memcached has /run/memcached",
               "memcached has /var/lib/memcached", "it ends",
               "STAT tcpport 11299", "STAT maxbytes 104857600", "STAT maxconns 222",
               "STAT num_threads 3", "STAT inter 127.0.0.1", "the tool works", "it runs as games",
               "games has /run/memcached")


@tap.case
def it_is_upgraded_and_erased():
    in_overlay(r"""
install_rpm -i
echo '# an edit' >>/etc/sysconfig/memcached
install_rpm -U --replacepkgs && tail -n 1 /etc/sysconfig/memcached
! rpm -V --nodeps memcached >/changes; sed 's/^/changed: /' /changes
started
ask 11211 "set key 0 0 5" value | grep STORED
rpm --force-debian -e memcached
tail -n 1 /etc/sysconfig/memcached.rpmsave
! ls %s /usr/bin/memcached /usr/share/doc/memcached 2>/dev/null && echo its files are gone
getent passwd memcached >/dev/null && echo the user stays
install_rpm -i && getent passwd memcached >/dev/null && echo it is installed again
kill $server
""" % UNIT, "# an edit", "changed: S.5....T.  c /etc/sysconfig/memcached", "STORED",
               "its files are gone", "the user stays", "it is installed again")


tap.run()
