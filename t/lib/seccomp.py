#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""seccomp: runs a program behind a container's seccomp profile, as a container runtime would.

    t/lib/seccomp.py PROFILE.json COMMAND...

It knows what profiles of this project consist of: names, an action, and comparisons of arguments
with a mask. Names that this machine does not have are ignored, as runtimes do.
"""
import ctypes
import json
import os
import sys

ALLOW, ERRNO = 0x7fff0000, 0x00050000
MASKED_EQ = 7


class Comparison(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64),
                ("b", ctypes.c_uint64)]


def action(name, number):
    return {"SCMP_ACT_ALLOW": ALLOW, "SCMP_ACT_ERRNO": ERRNO | number}[name]


def comparisons(arguments):
    found = [Comparison(a["index"], {"SCMP_CMP_MASKED_EQ": MASKED_EQ}[a["op"]], a["value"],
                        a["valueTwo"]) for a in arguments]
    return len(found), (Comparison * len(found))(*found)


def load(profile):
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(action(profile["defaultAction"],
                                                          profile["defaultErrnoRet"])))
    for rule in profile["syscalls"]:
        count, array = comparisons(rule.get("args", ()))
        for name in rule["names"]:
            number = library.seccomp_syscall_resolve_name(name.encode())
            if number < 0:
                continue
            error = library.seccomp_rule_add_array(
                context, ctypes.c_uint32(action(rule["action"], rule.get("errnoRet", 1))),
                number, count, array)
            if error:
                raise OSError(-error, "%s: %s" % (name, os.strerror(-error)))
    error = library.seccomp_load(context)
    if error:
        raise OSError(-error, os.strerror(-error))


if __name__ == "__main__":
    with open(sys.argv[1], encoding="ascii") as file:
        load(json.load(file))
    os.execvp(sys.argv[2], sys.argv[2:])
