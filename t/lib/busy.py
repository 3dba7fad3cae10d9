# SPDX-License-Identifier: BSD-3-Clause
"""How long the only CPU of a machine of t/kernels/run has worked."""
import re
import time


def busy():
    """Nanoseconds that the CPU was not idle since its start."""
    with open("/proc/timer_list", encoding="ascii") as file:
        idle = re.findall(r"idle_sleeptime\s*: (\d+) nsecs", file.read())
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) - sum(map(int, idle))
