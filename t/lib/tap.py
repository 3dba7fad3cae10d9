# SPDX-License-Identifier: BSD-3-Clause
"""tap: Test Anything Protocol for the end-to-end tests.

A test file registers its cases with @tap.case and ends with tap.run(). A case that raises, or that
takes too long, is a failed test; the next one runs all the same. The name of each check states a
behaviour.
"""
import faulthandler
import functools
import multiprocessing.pool
import os
import shutil
import re
import signal
import sys
import threading
import time
import traceback

CASE_SECONDS = 200 # three times what any takes on a busy machine
SLOW = int(os.environ.get("T_SLOW", "1")) # times are so many times as long: t/kernels/run, ./check
ROUNDS = 6 # of a case that must not be interrupted
ALL = "T_ALL" in os.environ # ./check --all
DAY = 86400

_cases = []
_count = 0
_failed = 0
_printing = threading.RLock() # at_once: each line as a whole, and their numbers in order
_round = None # what it has to print, while it may not count


class Timeout(BaseException):
    """Not an Exception: a case's own `except` must not swallow it."""


def diag(text):
    with _printing:
        if _round is not None:
            _round.append((diag, text))
            return
        for line in str(text).splitlines():
            print("# " + line, flush=True)


def ok(passed, name):
    global _count, _failed
    with _printing:
        if _round is not None:
            _round.append((ok, passed, name))
            return bool(passed)
        name = name.replace("#", "\\#").replace("\n", " ")
        _count += 1
        if not passed:
            _failed += 1
        print("%sok %d - %s" % ("" if passed else "not ", _count, name), flush=True)
    return bool(passed)


def _short(value, limit=400):
    text = repr(value)
    if len(text) <= limit:
        return text
    return "%s ... %s (%d characters)" % (text[:limit // 2], text[-limit // 2:], len(text))


def is_(got, want, name):
    """got equals want; both are shown if not."""
    if ok(got == want, name):
        return True
    diag("got:  " + _short(got))
    diag("want: " + _short(want))
    return False


def like(text, pattern, name):
    """text contains a match of the regular expression (bytes are read as latin-1)."""
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    if ok(re.search(pattern, text, re.M), name):
        return True
    diag("got:     " + _short(text))
    diag("pattern: " + pattern)
    return False


def skip_all(reason):
    """Ends the whole test: a right or a kernel feature is missing. A failure with CI set."""
    if os.environ.get("CI"):
        print("1..1\nnot ok 1 - cannot run: " + reason, flush=True)
        sys.exit(1)
    print("1..0 # SKIP " + reason, flush=True)
    sys.exit(0)


def has(program):
    """Whether it is installed; without it a check is skipped, or fails with CI set."""
    if shutil.which(program):
        return True
    if os.environ.get("CI"):
        ok(False, "%s is installed" % program)
    else:
        ok(True, "a case # SKIP %s is not installed" % program)
    return False


def case(function):
    _cases.append(function)
    return function


def long_case(function):
    """Decorator of one that takes long and seldom fails: it runs with T_ALL, and by its name."""
    return case(function) if ALL or function.__name__ in sys.argv[1:] else function


def today(every, n):
    """So many of them, from all parts of the list, each day others."""
    return [every[(int(time.time()) // DAY + i * len(every) // n) % len(every)] for i in range(n)]


def some(every, n):
    """The same; all of them with T_ALL."""
    return every if ALL else today(every, n)


def case_if(condition):
    """Decorator: the same where the program has what the case is about."""
    return case if condition else lambda function: function


def at_once(function, arguments, most=None):
    """What function returns for each argument, in their order: each call runs in a thread of its
    own, `most` of them at a time. No thread may skip the test.
    """
    arguments = list(arguments)
    with multiprocessing.pool.ThreadPool(most or len(arguments)) as pool:
        return pool.map(function, arguments, 1)


class _Presence(threading.Thread):
    """Notices when this process does not run."""

    def __init__(self):
        super().__init__(daemon=True)
        self.last, self.longest, self.ends = time.monotonic(), 0, threading.Event()
        self.start()

    def run(self):
        while not self.ends.wait(0.02):
            self.look()

    def look(self):
        now = time.monotonic()
        self.longest, self.last = max(self.longest, now - self.last), now

    def away(self):
        """For how many seconds at most it did not."""
        self.ends.set()
        self.join()
        self.look()
        return self.longest


def _attempt(function):
    """Runs a case: its checks, what it raised, and for how long this process did not run."""
    global _round
    _round, presence, raised = [], _Presence(), None
    try:
        function()
    except BaseException as error:
        raised = error
    checks, _round = _round, None
    return checks, raised, presence.away()


def uninterrupted(seconds):
    """Decorator of a case in which this process has to run all the time, because the server closes
    a connection that it does not use. A round that fails, and in which it did not run for so long
    (half of idle_timeout), says nothing of the server: another one follows.
    """
    def decorate(function):
        @functools.wraps(function)
        def rounds():
            for i in range(ROUNDS):
                checks, raised, away = _attempt(function)
                failed = raised or any(check is ok and not rest[0] for check, *rest in checks)
                if not failed or away < seconds or isinstance(raised, (Timeout, SystemExit)):
                    break
                diag("round %d, in which this process did not run for %.1f s, failed" %
                     (i + 1, away))
            for check, *rest in checks:
                check(*rest)
            if raised:
                raise raised
        return rounds
    return decorate


def cases(argument, *functions):
    """Registers cases that several tests share, with their arguments."""
    for function in functions:
        def shared(function=function):
            function(argument)
        shared.__name__ = function.__name__
        case(shared)


def _on_alarm(_signum, _frame):
    raise Timeout()


def _on_end(signum, _frame):
    sys.exit(128 + signum)


def run(seconds=CASE_SECONDS, ends=None):
    """Runs the cases in order and exits. An argument on the command line picks cases by name. ends:
    the server that all cases share."""
    def it_ends_cleanly():
        is_(ends.stop(), 0, "the server ends with status 0")

    if ends:
        case(it_ends_cleanly)
    seconds *= SLOW
    wanted = [c for c in _cases if len(sys.argv) < 2 or c.__name__ in sys.argv[1:]]
    signal.signal(signal.SIGALRM, _on_alarm)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, _on_end)
    faulthandler.dump_traceback_later(seconds * len(wanted) + 60, exit=True)
    for function in wanted:
        diag(function.__name__.replace("_", " "))
        started = time.monotonic()
        signal.alarm(seconds)
        try:
            function()
        except Timeout:
            ok(False, "%s ends within %d s" % (function.__name__, seconds))
            diag(traceback.format_exc())
        except Exception:
            ok(False, "%s runs to its end" % function.__name__)
            diag(traceback.format_exc())
        finally:
            signal.alarm(0)
        diag("%.1f of %d s" % (time.monotonic() - started, seconds))
    faulthandler.cancel_dump_traceback_later()
    print("1..%d" % _count, flush=True)
    sys.exit(1 if _failed else 0)
