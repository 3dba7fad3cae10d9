#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The kernel programs' barriers are real ones on CPUs that reorder loads (read_barrier)."""
import os
import struct

import kernel
import tap

SHF_EXECINSTR = 4
ATOMIC = {0xc3, 0xdb}  # BPF_STX | BPF_ATOMIC of 4 and of 8 bytes
WIDE = 0x18            # a load of 8 bytes takes two slots
FETCH = 1              # in imm: the old value is returned, and the operation is a full barrier


def code(path):
    """The sections of a 64-bit ELF file that contain instructions."""
    with open(path, "rb") as file:
        data = file.read()
    table, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    for i in range(count):
        _, _, flags, _, offset, nbytes = struct.unpack_from("<IIQQQQ", data, table + i * size)
        if flags & SHF_EXECINSTR:
            yield data[offset:offset + nbytes]


def atomics(path):
    """The imm field of each atomic operation."""
    for section in code(path):
        at = 0
        while at < len(section):
            opcode, _, _, imm = struct.unpack_from("<BBhi", section, at)
            if opcode in ATOMIC:
                yield imm
            at += 16 if opcode == WIDE else 8


@tap.case
def atomics_that_order():
    path = kernel.beside("bpf/udp/udp.bpf.o")
    if not os.path.exists(path):
        tap.skip_all("the kernel path is not built")
    found = list(atomics(path))
    tap.ok(len(found) >= 6, "the object has barriers (%d)" % len(found))
    tap.is_([imm for imm in found if not imm & FETCH], [],
            "each atomic operation returns the old value: without it arm64 has no barrier")


tap.run()
