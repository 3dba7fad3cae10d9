# SPDX-License-Identifier: BSD-3-Clause
"""linear: runs t/linear, whose checker is a Go module, against a server.

LINEAR_SECONDS is how long each run takes (default 1), LINEAR_RATE how many operations a second at
most (default: what is possible). LINEAR_OUT is where it leaves histories that are wrong (default:
the build tree).
"""
import functools
import os
import shutil
import subprocess

import sessions
import tap

SECONDS = int(os.environ.get("LINEAR_SECONDS", "1"))
OPERATIONS = 1000 # at least, for a run to show something
SOURCES = os.path.join(os.path.dirname(sessions.SOURCES), "linear")
BUILT = os.path.join(sessions.BUILT, "linear")


def built():
    return os.path.join(sessions.go_program(
        "linear", ("go", "test", "-c", "-buildvcs=false", "-o", "judge", "."), source=SOURCES),
        "session")


@functools.cache
def program():
    """Made by t/fetch; a test that is run by hand calls this before it enters a namespace, where
    the module cannot be downloaded."""
    if not shutil.which("go"):
        tap.skip_all("go is missing: tools/packages --install check")
    return built()


def judges_itself():
    """Whether the model takes right histories and no wrong ones."""
    program()
    try:
        sessions.step(os.path.join(BUILT, "judge"), folder=BUILT)
        return True
    except RuntimeError as error:
        tap.diag(error)
        return False


def run(*words, seconds=None, cpus=None, enough=lambda found: True):
    """(status, what it counted, and its complaints). cpus: where alone it runs. Takes ten times as
    long if a busy machine has done too little to judge, or what was counted is not enough."""
    seconds = seconds or SECONDS
    for each in (seconds, 10 * seconds):
        status, found = _run_once(words, each, cpus)
        if status or (found["operations"] > OPERATIONS and enough(found)):
            break
    return status, found


def _run_once(words, seconds, cpus):
    words = [program(), "-seconds", seconds, "-rate", os.environ.get("LINEAR_RATE", "0"),
             "-out", os.environ.get("LINEAR_OUT", BUILT), *words]
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds + 300,
                          preexec_fn=cpus and (lambda: os.sched_setaffinity(0, cpus)))
    rows = (line.rsplit(" ", 1) for line in done.stdout.decode().splitlines())
    found = {name: float(number) for name, number in rows}
    return done.returncode, dict(found, complaints=done.stderr.decode())


COUNTED = {"UDP": (("kernel_answered_xdp", "kernel_answered_tc"), ("gets_udp", "gets_udp_binary")),
           "TCP": (("kernel_tcp_answered",), ("gets_text", "gets_binary"))}


def kernel_share(found, over):
    """The part of the gets over UDP, or TCP, that the kernel answered."""
    answered, asked = (sum(found.get(name, 0) for name in names) for names in COUNTED[over])
    return answered / max(asked, 1)


def judge(done, **kernel):
    """A run that has to be right. UDP=, TCP=: the least share that the kernel has to answer."""
    status, found = done
    complaints = found.pop("complaints")
    tap.diag("%d operations in %.0f s (seed %d): %s" % (
        found.get("operations", 0), found.get("seconds", 0), found.get("seed", 0),
        ", ".join("%s %d" % row for row in sorted(found.items()) if row[1])))
    tap.ok(status == 0 and found["checked"] == found["operations"] > OPERATIONS,
           "every history is linearizable (%d operations)" % found.get("checked", 0))
    tap.diag(complaints)
    for over, least in kernel.items():
        share = kernel_share(found, over)
        tap.ok(share >= least, "the kernel answers %.1f %% of the gets over %s, at least %d" %
               (100 * share, over, 100 * least))
    return found
