#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""comments: block comments of C, filled to the width that code has.

    t/lib/comments.py FILE...    rewrites them; `make format` does

A paragraph is filled; tables, drawings, code and lists whose lines are short on purpose stay as
they are. t/00-hygiene.t finds the files that this would change.
"""
import re
import sys

WIDTH = 100
SHORT = 70 # A line to which the next line's first word could be added ends early on purpose.

LINE = re.compile(r"^(\s*) \* (- )?(\S.*)$")
MORE = re.compile(r"^(\s*) \*   (\S.*)$") # of a list's item
SET = re.compile(r"\S\s{2,}\S|^\d+\s|^[|@+#]|\\$")


def _fill(prefix, hanging, words):
    lines, line = [], prefix
    for word in words:
        if line != prefix and line != hanging and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = hanging + word
        else:
            line += word if line in (prefix, hanging) else " " + word
    return lines + [line]


def _paragraph(lines, at):
    """Where the paragraph that begins at `at` ends, and its words; None: it is not to be filled."""
    first = LINE.match(lines[at])
    if not first or SET.search(first.group(3)):
        return None
    texts, end = [first.group(3)], at + 1
    while end < len(lines):
        more = (MORE if first.group(2) else LINE).match(lines[end])
        text = more and more.group(2 if first.group(2) else 3)
        if not text or more.group(1) != first.group(1) or SET.search(text) or \
                not first.group(2) and more.group(2):
            break
        if len(lines[end - 1]) + 1 + len(text.split()[0]) <= SHORT:
            break
        texts.append(text)
        end += 1
    return end, " ".join(texts).split(), first


def filled(text):
    """`text` with its comments filled."""
    lines, out, at, inside = text.split("\n"), [], 0, False
    while at < len(lines):
        found = _paragraph(lines, at) if inside else None
        if found:
            at, words, first = found
            start = first.group(1) + " * "
            out += _fill(start + (first.group(2) or ""), start + ("  " if first.group(2) else ""),
                         words)
            continue
        if re.match(r"^\s*/\*\*?$", lines[at]):
            inside = True
        elif "*/" in lines[at]:
            inside = False
        out.append(lines[at])
        at += 1
    return "\n".join(out)


if __name__ == "__main__":
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            before = file.read()
        after = filled(before)
        if after != before:
            with open(path, "w", encoding="utf-8") as file:
                file.write(after)
