# SPDX-License-Identifier: BSD-3-Clause
"""child: a program that a test runs beside itself, and that ends with the test at the latest."""
import atexit
import contextlib
import os
import signal
import subprocess

import guard
import tap

_running = []


def of_threads(pid, name):
    """{thread: the text of its file in /proc}. A thread that has ended, and been waited for, is
    there for a moment longer."""
    texts = {}
    for thread in os.listdir("/proc/%d/task" % pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), \
                open("/proc/%d/task/%s/%s" % (pid, thread, name), encoding="ascii") as file:
            texts[int(thread)] = file.read()
    return texts


class Child:
    """words: its command line. name: its name in reports. Its output goes to a log, unless
    stdout is given."""

    def __init__(self, words, name, env=None, cwd=None, stdin=subprocess.DEVNULL, stdout=None,
                 pass_fds=()):
        self.name = name
        self.dir = guard.scratch()
        self.log_path = os.path.join(self.dir, "stderr")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([str(word) for word in words], stdin=stdin,
                                            stdout=stdout or log, stderr=log, cwd=cwd,
                                            pass_fds=pass_fds,
                                            env={**os.environ, **(env or {})})
        self.pid = self.process.pid
        guard.add("pid", self.pid)
        _running.append(self)

    def log(self):
        with open(self.log_path, "rb") as log:
            return log.read().decode("latin-1")

    def status(self, key):
        """A line of its status in /proc: "VmRSS" is its resident memory, in kB."""
        with open("/proc/%d/status" % self.pid, encoding="ascii") as file:
            return next(line.split()[1] for line in file if line.startswith(key + ":"))

    def resident(self):
        """Megabytes."""
        return int(self.status("VmRSS")) >> 10

    def alive(self):
        return self.process.poll() is None

    def must_live(self):
        if not self.alive():
            raise RuntimeError("%s ended with %d: %s" % (self.name, self.process.returncode,
                                                         self.log()))

    def signal(self, signum):
        os.kill(self.pid, signum)

    def pause(self):
        """Stops the process (SIGSTOP), and returns when it has stopped."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def resume(self):
        self.signal(signal.SIGCONT)

    def wait(self, seconds=40 * tap.SLOW):
        """The exit status of a program that ends by itself."""
        status = self.process.wait(seconds)
        self._forget()
        return status

    def _forget(self):
        if self in _running:
            _running.remove(self)
            guard.remove("pid", self.pid)

    def kill(self):
        self.process.kill()
        self.wait(None)

    def stop(self):
        """Ends it with SIGTERM; it must be alive before and exit with status 0."""
        alive = self.alive()
        if alive:
            self.signal(signal.SIGTERM)
        try:
            status = self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            status = self.process.returncode
        if not alive or status != 0 or "Sanitizer" in self.log():
            tap.ok(False, "%s runs until SIGTERM, and exits with status 0" % self.name)
            tap.diag("alive %s, status %s\n%s" % (alive, status, self.log()[-4000:]))
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self in _running:
            self.stop()


class Talker(Child):
    """A program that reads commands as lines and answers with lines."""

    def __init__(self, words, name):
        super().__init__(words, name, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def tell(self, line):
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, line):
        """The next line of its output."""
        self.tell(line)
        return self.process.stdout.readline()


def _at_exit():
    for child in list(_running):
        child.kill()


atexit.register(_at_exit)
