# SPDX-License-Identifier: BSD-3-Clause
"""patched: memcached with the patches of patches/, built in BUILDDIR/clients.

1.6.18 is Debian's source, which t/fetch gets; 1.5.19 is tested where its source is.
"""
import functools
import glob
import os

import sessions

PATCHES = os.path.join(os.path.dirname(os.path.dirname(sessions.SOURCES)), "patches")
DEBIANS, STOCK = "memcached-1.6.18", "memcached-1.5.19"


def stock():
    """Where the source of 1.5.19 is, or None."""
    beside = os.path.join(PATCHES, "..", "..", "shared", "stock", STOCK + "*.tar.*")
    return os.environ.get("MEMCACHED_STOCK") or next(iter(glob.glob(beside)), None)


@functools.cache
def program(series, source):
    target = os.path.join(sessions.BUILT, series)
    return os.path.join(sessions.made(
        series, ("rm", "-rf", os.path.join(target, "tree")),
        (os.path.join(PATCHES, "build"), series, os.path.join(target, "tree"), source),
        source=os.path.join(PATCHES, series), CFLAGS="-O1 -g"), "tree", "memcached")


def debians():
    return program(DEBIANS, "apt")


def all_programs():
    """{series: path}"""
    found = {DEBIANS: debians()}
    if stock():
        found[STOCK] = program(STOCK, stock())
    return found
