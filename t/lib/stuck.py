# SPDX-License-Identifier: BSD-3-Clause
"""stuck: stops one thread of a process, as a thread is that hangs."""
import ctypes
import os

import child
import server

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)


def ptrace(request, tid):
    if libc.ptrace(request, tid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


CLOSER = "closer\n"


def threads(pid, kernel=False):
    """The threads in the order in which they were started: workers last. Without the one that
    closes what other servers have sent (bpf/attach/closer.c). With the kernel path (kernel) that
    one is started when the server serves, and has its name a moment later: it is waited for."""
    if kernel:
        server.wait_for(lambda: CLOSER in child.of_threads(pid, "comm").values())
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
        ids = int(file.read()) # behind the highest begins the lowest again
    return [tid for tid, name in sorted(child.of_threads(pid, "comm").items(),
                                        key=lambda row: (row[0] - pid) % ids)
            if name != CLOSER]


class Stuck:
    """One thread of a process is stopped."""

    def __init__(self, tid):
        self.tid = tid

    def __enter__(self):
        ptrace(PTRACE_SEIZE, self.tid)
        ptrace(PTRACE_INTERRUPT, self.tid)
        os.waitpid(self.tid, WALL)

    def __exit__(self, *_):
        ptrace(PTRACE_DETACH, self.tid)
