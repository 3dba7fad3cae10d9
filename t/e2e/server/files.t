#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Root opens no file for the user of -u that this user could not open, wherever a name leads."""
import os
import pwd
import signal

import server
import tap

if os.geteuid() != 0:
    tap.skip_all("needs root")

HIS = pwd.getpwnam(server.USER)
OTHER = pwd.getpwnam("daemon")
SECRET = b"root's own\n" * 1000
FLASH = server.is_built_with("ext_path")


class Folder:
    """The user's folder, beside a file of root's that the user may not read."""

    def __init__(self):
        self.where = server.scratch()
        os.chown(self.where, HIS.pw_uid, HIS.pw_gid)
        os.chmod(self.where, 0o755)
        self.secret = os.path.join(server.scratch(), "secret")
        with open(self.secret, "wb") as file:
            file.write(SECRET)
        os.chmod(self.secret, 0o600)

    def path(self, name):
        return os.path.join(self.where, name)

    def plant(self, name):
        """A link at the name of a file that the server opens, which the user can make."""
        os.symlink(self.secret, self.path(name))
        os.chown(self.path(name), HIS.pw_uid, HIS.pw_gid, follow_symlinks=False)

    def untouched(self, name):
        with open(self.secret, "rb") as file:
            same = file.read() == SECRET
        status = os.stat(self.secret)
        tap.ok(same and (status.st_uid, status.st_mode & 0o777) == (0, 0o600),
               name + ": root's file is unchanged")

    def is_his(self, *names):
        for name in names:
            tap.is_(os.lstat(self.path(name)).st_uid, HIS.pw_uid, name + " is the user's")


def refused(*arguments, words="Permission denied"):
    status, _, err = server.run("-p", server.free_port(), "-U", "0", "-l", "127.0.0.1",
                                *arguments)
    tap.ok(status not in (None, 0), "%s: the server does not start (%s)" % (arguments[0], status))
    tap.like(err, words, arguments[0] + ": the message has the reason")


@tap.case
def a_planted_link_is_not_written_through():
    folder = Folder()
    folder.plant("memory")
    refused("-e", folder.path("memory"))
    folder.untouched("-e FILE")
    if FLASH:
        folder.plant("flash")
        refused("-o", "ext_path=%s:64m" % folder.path("flash"))
        folder.untouched("ext_path")


@tap.case
def temporary_files_are_created_anew():
    folder = Folder()
    for name in ("ports.lck", "ports", "pid.tmp", "memory.meta.new"):
        folder.plant(name)
    with server.Server("-e", folder.path("memory"), "-P", folder.path("pid"),
                       env={**os.environ, "MEMCACHED_PORT_FILENAME": folder.path("ports")}) as s:
        folder.untouched("beside ports and pid")
        folder.is_his("ports", "pid", "memory")
        tap.ok(not os.path.islink(folder.path("ports")), "the file of ports has replaced the link")
        s.signal(signal.SIGUSR1)
        tap.is_(s.wait(), 0, "SIGUSR1 ends the server")
    folder.untouched("FILE.meta.new")
    folder.is_his("memory.meta")


@tap.case
def a_folder_of_root_is_not_written_to():
    """As with memcached, which opens these files as the user, too."""
    where = server.scratch()
    os.chmod(where, 0o755)
    refused("-e", os.path.join(where, "memory"))
    if FLASH:
        refused("-o", "ext_path=%s:64m" % os.path.join(where, "flash"))
    with server.Server(env={**os.environ, "MEMCACHED_PORT_FILENAME": where + "/ports"}) as s:
        tap.like(s.log(), "ports.lck.*Permission denied",
                 "the file of ports: the failure is logged")
    tap.is_(os.listdir(where), [], "no file was created")


@tap.case
def files_of_another_user_are_refused():
    folder = Folder()
    names = ["memory", "flash"] if FLASH else ["memory"]
    for name in names:
        with open(folder.path(name), "wb"):
            os.chown(folder.path(name), OTHER.pw_uid, OTHER.pw_gid)
            os.chmod(folder.path(name), 0o666)
    refused("-e", folder.path("memory"), words="belongs to another user")
    if FLASH:
        refused("-o", "ext_path=%s:64m" % folder.path("flash"), words="belongs to another user")
    kept = Folder()
    with server.Server("-e", kept.path("memory")) as s:
        s.stream().set(b"foo", b"bar")
        s.signal(signal.SIGUSR1)
        s.wait()
    os.chown(kept.path("memory.meta"), OTHER.pw_uid, OTHER.pw_gid)
    os.chmod(kept.path("memory.meta"), 0o644)
    with server.Server("-e", kept.path("memory")) as s:
        tap.is_(s.stream().get(b"foo"), None, "a FILE.meta of another user is not taken over")
        tap.like(s.log(), r"memory\.meta: it belongs to another user", "the reason is logged")


tap.run()
