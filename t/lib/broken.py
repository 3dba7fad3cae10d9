#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""broken: builds the tree with a mutant of t/lib/threats.py and runs the test that must notice it,
in an overlay of the trees of sources and of the build: these stay as they are, and make builds
again only what the change concerns."""
import os
import re
import subprocess
import sys
import time

import mutants
import threats

SRCDIR = os.path.abspath(os.environ["SRCDIR"])
BUILDDIR = os.path.abspath(os.environ["BUILDDIR"])
SECONDS = 300 # of a test

# The mounts end with the command, and what a mutant leaves in /run does too. A build tree within
# that of the sources is covered already.
ENTER = r"""
set -e
place=$0 sources=$1 build=$2
mount -t tmpfs tmpfs "$place"
mount -t tmpfs tmpfs /run
for tree in "$sources" "$build"; do
    case $tree in "$sources"/*) continue ;; esac
    over=$(mktemp -d "$place/XXXXXX")
    mkdir "$over/upper" "$over/work"
    mount -t overlay overlay -o "lowerdir=$tree,upperdir=$over/upper,workdir=$over/work" "$tree"
done
shift 2
cd /
exec "$@"
"""

OBJECTS = "udp/udp", "tcp/tcp", "chain/chain"
BROKE_OFF = "runs to its end" # so ends the name of a check behind which stands why
# Then the test has not judged: the verifier refuses the mutant, perhaps.
NOT_JUDGED = (r"(?m)^1\.\.0|^# RuntimeError: (?:the server|bmc) "
              r"(?:does not answer|does not begin|ended with)")


class Error(Exception):
    """The mutant cannot be judged."""


def objects_of(path):
    """The kernel objects that a test loads."""
    name = os.path.basename(path)
    if "/chain/" in path or name.startswith("chain_"):
        return "chain/chain",
    return ("tcp/tcp", "udp/udp") if name.startswith("tcp") else ("udp/udp",)


def make(path, changed):
    """Builds what a test needs; kernel objects that it does not load are left as they are, unless
    the change is theirs."""
    wanted = [path[:-2]] if path.endswith(".c") else ["memcached/memcached"]
    if "/chain/" in path:
        wanted.append("bmc/bmc")
    old = [word for name in OBJECTS
           if name not in objects_of(path) and "bpf/" + os.path.dirname(name) not in changed
           for word in ("-o", "bpf/%s.bpf.o" % name)]
    done = subprocess.run(["make", "-s", "-j2", *old, *wanted], cwd=BUILDDIR, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode:
        raise Error("make: " + done.stdout.decode()[-2000:])


def output_of(path, cases):
    """What a test says up to the first check that fails, and whether it has succeeded."""
    program = os.path.join(BUILDDIR, path[:-2]) if path.endswith(".c") else \
        os.path.join(SRCDIR, path)
    environment = dict(os.environ, BUILDDIR=BUILDDIR, SRCDIR=SRCDIR,
                       MEMCACHED=os.path.join(BUILDDIR, "memcached/memcached"))
    environment.pop("CI", None) # a test that skips itself has not judged
    lines = []
    with subprocess.Popen(["timeout", "-k", "10", str(SECONDS), program, *cases], env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as test:
        for line in test.stdout:
            lines.append(line.decode("latin-1").rstrip("\n"))
            if lines[-1].startswith("not ok") and not lines[-1].endswith(BROKE_OFF):
                test.terminate()
    return "\n".join(lines), test.returncode == 0


def judge(name, changes, path, *cases):
    """Within the overlay: the first check that fails; None: all pass."""
    for file, found, becomes in changes:
        for target, _, after in mutants.changed(SRCDIR, file, found, 1, becomes):
            with open(target, "w", encoding="utf-8") as out:
                out.write(after)
    make(path, {os.path.dirname(file) for file, *_ in changes})
    text, passed = output_of(path, cases)
    bad = re.search(r"(?m)^not ok \d+ - (.*)", text)
    if re.search(NOT_JUDGED, text) or (not bad and not passed):
        raise Error("%s, %s: %s" % (name, path, text[-2000:]))
    return bad[1] if bad else None


def judge_apart(place, name):
    """(What notices a mutant, or nothing; seconds). place: a folder to mount on."""
    begin = time.monotonic()
    done = subprocess.run(
        ["unshare", "-m", "--propagation", "private", "sh", "-c", ENTER, place, SRCDIR, BUILDDIR,
         os.path.join(SRCDIR, "t/lib/broken.py"), name],
        env=dict(os.environ, SRCDIR=SRCDIR, BUILDDIR=BUILDDIR), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise Error(done.stderr.decode("utf-8", "replace"))
    return done.stdout.decode("utf-8", "replace").strip(), time.monotonic() - begin


def main():
    try:
        print(judge(*threats.mutant(sys.argv[1])) or "")
    except (Error, RuntimeError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
