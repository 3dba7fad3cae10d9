# SPDX-License-Identifier: BSD-3-Clause
"""overlay: runs commands in an overlay of this machine's root, with namespaces of its own, for
tests that install packages there. All that they change ends with them."""
import os
import subprocess

import server
import tap

# The server of the host is another one's.
ENTER = r"""
set -e
mount -t tmpfs tmpfs "$0"
mkdir "$0/upper" "$0/work" "$0/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$0/upper,workdir=$0/work" "$0/root"
for place in proc dev; do mount --rbind "/$place" "$0/root/$place"; done
mount -t tmpfs tmpfs "$0/root/run"
cp -r "$1" "$0/root/packages"
printf '#!/bin/sh\nexit 101\n' >"$0/root/usr/sbin/policy-rc.d"
chmod 755 "$0/root/usr/sbin/policy-rc.d"
ip link set lo up
exec chroot "$0/root" sh -c "$2"
"""


def run(*words, **options):
    """Exit status and output of a command."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
                          stderr=subprocess.STDOUT, **options)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def works(name, *words, **options):
    """A check that a command succeeds; its output."""
    status, text = run(*words, **options)
    if not tap.is_(status, 0, name):
        tap.diag(text)
    return text


def in_overlay(packages, script):
    """Exit status and output of a shell script, to which the folder is /packages."""
    place = os.path.join(server.scratch(), "place")
    os.makedirs(place, exist_ok=True)
    environment = dict(os.environ, LC_ALL="C.UTF-8", DEBIAN_FRONTEND="noninteractive")
    return run("unshare", "-m", "-n", "--propagation", "private", "sh", "-c", ENTER, place,
               packages, script, env=environment)
