# SPDX-License-Identifier: BSD-3-Clause
"""report: what a client's session prints: a TAP line for each check, and the plan at the end."""
import sys
import time
import traceback

_count = 0
_failed = 0


def ok(passed, name):
    global _count, _failed
    _count += 1
    _failed += not passed
    print("%sok %d - %s" % ("" if passed else "not ", _count, name), flush=True)
    return passed


def is_(got, want, name):
    if not ok(got == want, name):
        print("# got:  %.300r\n# want: %.300r" % (got, want), flush=True)


def raises(function, kind, name):
    """The call fails with an exception of this kind."""
    try:
        is_(function(), kind, name)
    except kind:
        ok(True, name)


def gone(get, name, seconds=10):
    """The value that get() returns becomes None, as one that expires does."""
    end = time.monotonic() + seconds
    while get() is not None and time.monotonic() < end:
        time.sleep(0.05)
    is_(get(), None, name)


def run(session):
    """session(port) with the port from the command line; exits."""
    try:
        session(int(sys.argv[1]))
    except Exception:
        ok(False, "the session runs to its end")
        print("# " + traceback.format_exc().replace("\n", "\n# "), flush=True)
    print("1..%d" % _count, flush=True)
    sys.exit(1 if _failed else 0)
