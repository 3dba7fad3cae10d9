# SPDX-License-Identifier: BSD-3-Clause
"""flash: a server with a flash file, and values that tell their key."""
import os

import server
import tap

# Every cold value goes to flash at once, in small pages.
EAGER = "ext_item_age=0,ext_item_size=100"
SMALL = "ext_page_size=2,ext_wbuf_size=1"


def is_built_in():
    return server.is_built_with("ext_path")


class Flash(server.Server):
    """A server with a flash file of its own. options: of -o behind the file."""

    def __init__(self, *arguments, options=EAGER, size="64m", page=SMALL, **named):
        self.file = os.path.join(server.scratch(), "flash")
        words = [w for w in (page, "ext_path=%s:%s" % (self.file, size), options) if w]
        super().__init__("-o", ",".join(words), *arguments, udp=False, **named)

    def count(self, key):
        return int(self.stats()[key])

    def spilled(self, n):
        """Waits until that many values are on flash."""
        return server.wait_for(lambda: self.count("extstore_objects_used") >= n)

    def in_memory(self):
        """Classes with values: above the smallest, which have the keys of values on flash."""
        return [n for n in self.stats("items") if n.endswith(":number") and
                int(n.split(":")[1]) > 3]

    def has_room(self, sizes, nitems=60):
        """Whether the slab classes for items of these sizes have room for so many more, each in
        the pages that no class has yet as well. A class's first page may be beyond the limit."""
        slabs = self.stats("slabs")
        pages = max(0, int(self.stats()["limit_maxbytes"]) - int(slabs["total_malloced"])) >> 20
        classes = {int(v): k.split(":")[0] for k, v in slabs.items() if k.endswith(":chunk_size")}
        names = [classes[min(n for n in classes if n >= size)] for size in sizes]
        return all(int(slabs[name + ":free_chunks"]) +
                   pages * int(slabs[name + ":chunks_per_page"]) >= nitems for name in names)

    def uncache(self):
        """Drops the file from the page cache, so that values are read from the disk. (A write
        buffer stays in memory.)"""
        fd = os.open(self.file, os.O_RDWR)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)

    def write_out(self, c):
        """Fills the write buffer with other values, until what was in it is in the file. (A value
        is counted as written when it is in the buffer.)"""
        fillers = [b"filler%d;" % i * 33000 for i in range(10)]

        def written():
            with open(self.file, "rb") as file:
                data = file.read()
            return all(filler in data for filler in fillers[:3])

        for i, filler in enumerate(fillers):
            c.set(b"filler%d" % i, filler)
        tap.ok(server.wait_for(written, every=0.1), "the write buffer is written")


def value(key, generation=0, size=2000):
    """A value that has its key in each part."""
    word = b"%s#%d;" % (key, generation)
    return (word * (size // len(word) + 1))[:size]


def key(i):
    return b"key%d" % i
