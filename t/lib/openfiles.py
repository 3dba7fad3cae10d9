# SPDX-License-Identifier: BSD-3-Clause
"""openfiles: what the descriptors of another process refer to.

A server opens and closes files at any time, of interfaces and connections for example: a number
that is listed may be gone when it is looked at, and how many there are says little.
"""
import contextlib
import ctypes
import errno
import os

_libc = ctypes.CDLL(None, use_errno=True)
_PIDFD_GETFD = 438 # the number of a system call that Python has no name for


def links(pid):
    """{number: what it refers to}, as "socket:[inode]"."""
    found, folder = {}, "/proc/%d/fd" % pid
    for number in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            found[int(number)] = os.readlink(os.path.join(folder, number))
    return found


def copies(pid, kind=""):
    """{number: a descriptor of this process for the same file}; kind: how its link begins."""
    found, pidfd = {}, os.pidfd_open(pid)
    for number, link in links(pid).items():
        if not link.startswith(kind):
            continue
        copy = _libc.syscall(_PIDFD_GETFD, pidfd, number, 0)
        error = ctypes.get_errno()
        if copy >= 0:
            found[number] = copy
        elif error != errno.EBADF:
            raise OSError(error, "pidfd_getfd: " + os.strerror(error))
    os.close(pidfd)
    return found


def socket_link(sock):
    """What a descriptor of that socket refers to, in any process."""
    return "socket:[%d]" % os.fstat(sock.fileno()).st_ino


def infos(pid):
    """{number: {field: value}} of fdinfo, which has the ids of maps, programs and BPF links."""
    found, folder = {}, "/proc/%d/fdinfo" % pid
    for number in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError), \
                open(os.path.join(folder, number), encoding="ascii") as file:
            found[int(number)] = dict(map(str.strip, line.split(":", 1))
                                      for line in file if ":" in line)
    return found
