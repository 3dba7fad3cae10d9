# SPDX-License-Identifier: BSD-3-Clause
"""cgroup: a limit of memory for a server, kernel memory included."""
import itertools
import os
import shutil

import server
import tap

MB = 1 << 20
_numbers = itertools.count()


class Cgroup:
    """Of the version that this machine has. inner: the limit is the parent's, not its own."""

    def __init__(self, megabytes, inner=False):
        v1 = "/sys/fs/cgroup/memory"
        root, self.name = ((v1, "memory.limit_in_bytes") if os.path.isdir(v1) else
                           ("/sys/fs/cgroup", "memory.max"))
        self.path = os.path.join(root, "memcached-t-%d-%d" % (os.getpid(), next(_numbers)))
        self.inner = os.path.join(self.path, "inner") if inner else self.path
        try:
            os.mkdir(self.path)
            self.limit(megabytes)
            if inner and self.name == "memory.max":
                with open(os.path.join(self.path, "cgroup.subtree_control"), "w",
                          encoding="ascii") as file:
                    file.write("+memory")
            if inner:
                os.mkdir(self.inner)
        except OSError as error:
            tap.skip_all("no memory cgroup: %s" % error)

    def limit(self, megabytes):
        with open(os.path.join(self.path, self.name), "w", encoding="ascii") as file:
            file.write(str(megabytes * MB))

    def prefix(self):
        return ["sh", "-c", 'echo $$ >%s/cgroup.procs && exec "$@"' % self.inner, "sh"]

    def close(self):
        server.wait_for(self.gone)

    def gone(self):
        try:
            if self.inner != self.path and os.path.isdir(self.inner):
                os.rmdir(self.inner)
            os.rmdir(self.path)
            return True
        except OSError:
            return False


def unified():
    """Where version 2 is mounted; None: nowhere."""
    with open("/proc/self/mounts", encoding="ascii") as file:
        mounts = [line.split() for line in file]
    return next((words[1] for words in mounts if words[2] == "cgroup2"), None)


class Group:
    """Of version 2, without limits."""

    def __init__(self):
        self.path = os.path.join(unified(), "memcached-t-%d-%d" % (os.getpid(), next(_numbers)))
        os.mkdir(self.path)

    def take(self, pid):
        with open(os.path.join(self.path, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(pid))

    def prefix(self):
        return ["sh", "-c", 'echo $$ >%s/cgroup.procs && exec "$@"' % self.path, "sh"]

    def close(self):
        server.wait_for(self._gone)

    def _gone(self):
        try:
            os.rmdir(self.path)
            return True
        except OSError:
            return False


def cold_program():
    """A copy of the program that is in no page cache: the pages that the server reads of it are
    charged to its own cgroup, which reclaims them first.
    """
    copy = os.path.join(server.scratch(), "memcached")
    shutil.copy(server.program(), copy)
    fd = os.open(copy, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    return copy


class ColdProgram:
    """Servers that are started within this context run from such copies."""

    def __enter__(self):
        self.before = os.environ.get("MEMCACHED")
        os.environ["MEMCACHED"] = cold_program()
        return self

    def __exit__(self, *_):
        del os.environ["MEMCACHED"]
        if self.before is not None:
            os.environ["MEMCACHED"] = self.before
