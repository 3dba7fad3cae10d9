#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""tools/memcached-tool and a server that lies: nothing of what that says becomes a command in a
dump, reaches the terminal as a control character, or ends the tool by anything but one line."""
import shutil

import tap
from tooling import OURS, ROWS, Scripted, call, lint, metrics, stats_reply

if not shutil.which("promtool"):
    tap.skip_all("promtool is missing: tools/packages --install check")

METADUMP = "lru_crawler metadump all"
LINE = "key=%s exp=%s la=1 cas=1 fetch=no cls=1 size=64\r\n"


def said(replies, *words):
    """(status, stdout, stderr) of the tool in front of such a server."""
    scripted = Scripted(replies)
    try:
        return call(OURS, scripted.address, *words)
    finally:
        scripted.close()


def refuses(name, replies, *words, why=b" answers: "):
    status, stdout, stderr = said(replies, *words)
    lines = stderr.splitlines()
    tap.ok(status == 1 and lines and why in lines[-1] and b"Traceback" not in stderr,
           "%s: ends with 1 and a line (%d, %r)" % (name, status, stderr[-200:]))
    tap.ok(b"\x1b" not in stdout + stderr, name + ": no control character comes through")
    return stdout


@tap.case
def a_dump_has_no_other_commands():
    for name, exp in (("a command in the expiry", "0\r"), ("no number", "soon"), ("none", ""),
                      ("a long one", "1" * 5000), ("another negative one", "-2")):
        stdout = refuses(name, {METADUMP: LINE % ("a", exp) + "END\r\n",
                                "get a": "VALUE a 0 1\r\n1\r\nEND\r\n"}, "dump")
        tap.is_(stdout, b"", name + ": nothing is dumped")
    for name, head in (("another key", "VALUE b 0 1"), ("odd flags", "VALUE a 0\r 1"),
                       ("no length", "VALUE a 0"), ("a negative length", "VALUE a 0 -1"),
                       ("a length that is none", "VALUE a 0 x"), ("an escape", "\x1b[2J 0 1"),
                       ("a length above all", "VALUE a 0 9999999999"),
                       ("a length of many digits", "VALUE a 0 " + "9" * 5000)):
        stdout = refuses(name, {METADUMP: LINE % ("a", "0") + "END\r\n",
                                "get a": head + "\r\n1\r\nEND\r\n"}, "dump")
        tap.is_(stdout, b"", name + ": nothing is dumped")


@tap.case
def a_value_that_breaks_off():
    stdout = refuses("half a value", {METADUMP: LINE % ("a", "0") + "END\r\n",
                                      "get a": ("VALUE a 0 100\r\nhalf", None)}, "dump",
                     why=b" closed the connection")
    tap.is_(stdout, b"", "nothing is dumped")


@tap.case
def what_has_no_end():
    refuses("a line", {"stats": "STAT a " + "x" * 200000}, "stats", why=b"a line that is too long")
    rows = "".join("STAT %d 1\r\n" % i for i in range(ROWS + 1))
    refuses("a table", {"stats": rows}, "stats")
    status, stdout, _ = said({METADUMP: "".join(LINE % (i, -1) for i in range(1000))}, "keys", 10)
    tap.ok(status == 0 and len(stdout.splitlines()) == 10, "a list of keys ends at its limit")


EVIL = "\x1b]0;evil\x07\x9b2J"
ODD = {"version": EVIL, "uptime": "inf", "cmd_get": "nan", "get_hits": "1_0", "threads": "\xb2",
       "curr_items": "9" * 5000, "curr_connections": "1 memcached_up 7", EVIL: 1, "evictions": 7}
SLABS = {"1:total_pages": 1, "2:total_pages": 2, "2:chunk_size": "x", "\xb2:total_pages": 1,
         "9" * 5000 + ":total_pages": 1, "3:chunk_size": EVIL, "3:total_pages": EVIL}
TABLES = {"version": "VERSION 1\r\n", "stats": stats_reply(ODD), "stats slabs": stats_reply(SLABS),
          "stats items": stats_reply({"items:1:number": EVIL}), "stats settings": stats_reply(ODD),
          "stats bmc": stats_reply({"bmc_enabled": "yes", "mode": EVIL, "a\x1b:state": "up",
                                    "pass_\x1b": "x", "keys": EVIL}),
          METADUMP: LINE % (EVIL, 0) + "END\r\n"}


@tap.case
def screens_and_tables_of_odd_rows():
    for words in (["display"], ["stats"], ["settings"], ["keys"], ["top", "--once"],
                  ["top", "--once", "--columns", "hostname,cmd_get,all_uptime,version,threads"]):
        status, stdout, stderr = said(TABLES, *words)
        tap.ok(status == 0 and b"Traceback" not in stderr,
               "%s shows them (%d, %r)" % (" ".join(words), status, stderr[-200:]))
        tap.ok(not any(c in stdout for c in b"\x1b\x07\x9b"),
               "%s: no control character comes through" % " ".join(words))


@tap.case
def metrics_are_numbers():
    status, stdout, _ = said(TABLES, "prometheus")
    found = {name: value for (name, _), value in metrics(stdout).items()}
    tap.is_(status, 0, "metrics of odd rows are written")
    tap.ok(lint(stdout)[0] == 0, "promtool accepts them: %r" % lint(stdout)[1][-200:])
    tap.ok(found.get("memcached_items_evicted_total") == 7 and found.get("memcached_up") == 1 and
           "memcached_uptime_seconds" not in found and
           "memcached_current_connections" not in found, "those that are no numbers are left out")


tap.run()
