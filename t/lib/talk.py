# SPDX-License-Identifier: BSD-3-Clause
"""talk: dialogues in the text protocol as tables. In a request and in its reply | is a line's end,
and each ends with one: "set k 0 0 1|x|get k" is answered "STORED|VALUE k 0 1|x|END"."""
import tap


def data(text):
    return (text + "|" if text else "").replace("|", "\r\n").encode("latin-1")


def check(stream, rows):
    """A check for each row: what it shows, what is sent, and all that is answered to it."""
    for name, request, want in rows:
        tap.is_(stream.all(data(request)), data(want), name)


def alike(stream, want, *requests):
    """The same answer to each of these requests, which name their checks."""
    check(stream, [("%.60s: %.60s" % (request, want or "no answer"), request, want)
                   for request in requests])
