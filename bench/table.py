# SPDX-License-Identifier: BSD-3-Clause
"""What was measured, and how it is printed."""

import statistics


class Samples(dict):
    """What was measured: lists of values by (table, row, column)."""

    def add(self, *key, value):
        self.setdefault(key, []).append(value)

    def median(self, *key):
        values = self.get(key)
        return statistics.median(values) if values else None


def number(value, digits=0):
    return "-" if value is None else f"{value:,.{digits}f}"


def ratio(a, b):
    return a / b if a and b else None


def print_table(header, rows):
    table = [header] + rows
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    for index, row in enumerate(table):
        print("| " + " | ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                                for i, (cell, width) in enumerate(zip(row, widths))) + " |")
        if index == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print()
