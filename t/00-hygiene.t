#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""The limits of the style guide that a program can check. See HACKING.md."""
import os
import re
import shutil
import subprocess
import sys

SRCDIR = os.environ["SRCDIR"]
BUILDDIR = os.environ.get("BUILDDIR") or os.path.join(SRCDIR, "build")
import comments

MAX_COLUMNS = 100
MAX_FILE_LINES = 999
MAX_FUNCTION_LINES = 60
FORMATTER = "14"  # clang-format's answers differ from version to version

# Writable symbols that may exist: the log level and the per-thread statistics.
ALLOWED_STATE = {"log_level"}
# All that a parser may call outside its own layer and base.
PARSER_CALLS = {"memchr", "memrchr", "memcpy", "memcmp", "memmove", "memset"}
COMPILER_SYMBOLS = re.compile(r"_GLOBAL_OFFSET_TABLE_|__stack_chk_fail|__assert_fail"
                              r"|__(a|ub|t)san_.*")
WRITABLE = re.compile(r"\.(t?bss|t?data|COM)(\.|$)|\*COM\*")


def repository_files():
    git = ["git", "-c", "safe.directory=*", "-C", SRCDIR, "ls-files"]
    listed = subprocess.run(git, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        return [f for f in listed.stdout.splitlines() if os.path.isfile(os.path.join(SRCDIR, f))]
    found = []
    for where, folders, names in os.walk(SRCDIR):
        folders[:] = [f for f in folders if f not in ("build", "build-aux", "autom4te.cache")
                      and not f.startswith((".", "build-", "_"))]
        found += [os.path.relpath(os.path.join(where, name), SRCDIR) for name in names]
    made = {"configure", "Makefile.in", "aclocal.m4", "config.h.in"}
    return sorted(f for f in found if f not in made)


def read(path):
    with open(os.path.join(SRCDIR, path), encoding="utf-8") as file:
        return file.read()


def is_code(path):
    if path.endswith((".c", ".h", ".def", ".ac", ".am", ".mk", ".m4", ".py", ".sh", ".t")):
        return True
    if path.endswith((".md", ".json", ".txt")) or "." in os.path.basename(path):
        return False
    with open(os.path.join(SRCDIR, path), "rb") as file:
        return file.read(2) == b"#!"


def blank_out(text):
    """`text` without the contents of C comments and literals; line numbers stay."""
    pattern = r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def lines_that(paths, wrong):
    return ["%s:%d" % (path, number) for path in paths
            for number, line in enumerate(read(path).split("\n"), 1) if wrong(line)]


def no_license(paths):
    found = []
    for path in paths:
        lines = read(path).split("\n")
        first = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
        if "SPDX-License-Identifier: " not in first or "BSD-3-Clause" not in first:
            found.append(path)
    return found


def bad_ends(paths):
    return [path for path in paths if read(path)[-1:] != "\n" or read(path).endswith("\n\n")]


def long_files(paths):
    return [path for path in paths if read(path).count("\n") > MAX_FILE_LINES]


def long_functions(paths):
    if not shutil.which("ctags"):
        return ["ctags is missing: apt-get install universal-ctags"]
    command = ["ctags", "-x", "--languages=C", "--langmap=C:.c.h", "--kinds-C=f",
               "--_xformat=%F %n %e %N", *paths]
    listed = subprocess.run(command, cwd=SRCDIR, capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines() if len(line.split()) == 4]
    return ["%s:%s: %s has %d lines" % (path, first, name, int(last) - int(first) + 1)
            for path, first, last, name in rows
            if last.isdigit() and int(last) - int(first) + 1 > MAX_FUNCTION_LINES]


def line_comments(paths):
    return ["%s:%d" % (path, number) for path in paths
            for number, line in enumerate(blank_out(read(path)).split("\n"), 1) if "//" in line]


# Phrases that hide who does what; native engineers name the thread, the program or the client.
VAGUE = re.compile(r"\b[Nn]obody\b|\b[Ww]ho(?:m)?ever\b|\balike\b|\b(?:is|are) to be\b"
                   r"|\bstands? behind\b|\bwhat is answered\b")
NAMED = re.compile(r"-[ou] nobody|=nobody|[`'\"]nobody[`'\"]|users? [`*]?nobody|is nobody\."
                   r"|\(nobody\)")


def prose_of(path, text):
    """What a reader reads as sentences: (line, text) of the comments, or of the document."""
    if path.endswith((".c", ".h")):
        pattern = r"/\*.*?\*/"
    elif path.endswith((".md", ".1", ".1.in")):
        pattern = r"[^\n]+(?:\n[^\n]+)*"
    else:
        pattern = r'"""(?:(?!""").)*"""|(?:^[ \t]*#[^\n]*\n)+'
    return [(text.count("\n", 0, found.start()) + 1, found.group())
            for found in re.finditer(pattern, text, re.S | re.M)]


def vague(paths):
    found = []
    for path in paths:
        for line, text in prose_of(path, read(path)):
            words = NAMED.sub("", re.sub(r"\s*\n[ \t]*(?:\*|#)?[ \t]*", " ", text))
            for phrase in VAGUE.findall(words):
                found.append("%s:%d: \"%s\": say who does what" % (path, line, phrase))
    return found


def unformatted(paths):
    if not shutil.which("clang-format"):
        return ["clang-format is missing: apt-get install clang-format"]
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True,
                             check=True).stdout
    if not re.search(r"version %s\." % FORMATTER, version):
        return []
    run = subprocess.run(["clang-format", "--dry-run", "-Werror", *paths], cwd=SRCDIR,
                         capture_output=True, text=True, check=False)
    counts = {}
    for path in re.findall(r"^(\S+?):\d+:\d+: error:", run.stderr, re.M):
        counts[path] = counts.get(path, 0) + 1
    return ["%s: %d places; make format" % item for item in sorted(counts.items())]


def unfilled(paths):
    return [path for path in paths if comments.filled(read(path)) != read(path)]


def objects(*folders):
    found = []
    for folder in folders:
        for where, _, names in os.walk(os.path.join(BUILDDIR, folder)):
            found += [os.path.join(where, name) for name in sorted(names)
                      if name.endswith(".o") and not name.endswith(".bpf.o")
                      and not name.startswith("memcached_memcached-")]
    return found


def mutable_globals():
    paths = objects("memcached", "bpf", "bmc")
    if not paths:
        return ["nothing is built in " + BUILDDIR]
    found = []
    for path in paths:
        table = subprocess.run(["objdump", "-t", path], capture_output=True, text=True,
                               check=True).stdout
        for line in table.splitlines():
            fields = line.split()
            # value flags... section size name; "O" marks an object.
            if len(fields) < 5 or "O" not in fields[1:-3] or not WRITABLE.match(fields[-3]):
                continue
            if fields[-3].startswith(".data.rel.ro") or fields[-1].split(".")[0] in ALLOWED_STATE:
                continue
            if not fields[-1].startswith(("__", ".L", "_OBJC", "*.L")):
                found.append("%s: %s in %s" % (os.path.relpath(path, BUILDDIR), fields[-1],
                                               fields[-3]))
    return found


def symbols(path):
    """The names that an object defines, and those it wants."""
    table = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in table.splitlines()]
    wanted = {row[-1] for row in rows if len(row) == 2 and row[0] in "Uw"}
    return {row[-1] for row in rows if len(row) == 3}, wanted


def impure_parsers():
    """Calls of the parsers, followed through proto and base."""
    pairs = {path: symbols(path) for path in objects("memcached/proto", "memcached/base")}
    home = {name: path for path, (defined, _) in pairs.items() for name in defined}
    parsers = [path for path in pairs if "/proto/" in path and "pars" in " ".join(pairs[path][0])]
    if not parsers:
        return ["no parser object is built in " + BUILDDIR]
    seen, todo, found = set(), list(parsers), []
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in sorted(pairs[path][1]):
            if name in home:
                todo.append(home[name])
            elif name not in PARSER_CALLS and not COMPILER_SYMBOLS.fullmatch(name):
                found.append("%s calls %s" % (os.path.relpath(path, BUILDDIR), name))
    return found


def main():
    paths = repository_files()
    code = [path for path in paths if is_code(path)]
    c_files = [path for path in paths if path.endswith((".c", ".h"))]
    no_tabs = [p for p in code if not p.endswith((".am", ".mk", "debian/rules"))]
    prose = code + [p for p in paths if p.endswith(".md")]
    checks = (
        ("a file's first line is its license", no_license(code)),
        ("no tabs outside Makefiles", lines_that(no_tabs, lambda l: "\t" in l)),
        ("no line is longer than %d columns" % MAX_COLUMNS,
         lines_that(code, lambda l: len(l) > MAX_COLUMNS)),
        ("no space at the end of a line", lines_that(prose, lambda l: l != l.rstrip())),
        ("a file ends with one newline", bad_ends(prose)),
        ("a file has less than %d lines" % (MAX_FILE_LINES + 1), long_files(code)),
        ("a function has at most %d lines" % MAX_FUNCTION_LINES, long_functions(c_files)),
        ("comments are /* */", line_comments(c_files)),
        ("tests can be run", [p for p in paths if p.endswith(".t") and
                              not os.access(os.path.join(SRCDIR, p), os.X_OK)]),
        ("no comment has a note of open work",
         lines_that([p for p in code if p != "t/00-hygiene.t"],
                    lambda l: re.search(r"\b(TODO|FIXME|XXX|HACK)\b", l))),
        ("the code is as clang-format makes it", unformatted(c_files)),
        ("comments are filled; make format", unfilled(c_files)),
        ("sentences name who does what",
         vague([p for p in prose if p != "t/00-hygiene.t"] +
               [p for p in paths if p.endswith((".1", ".1.in"))])),
        ("no mutable globals", mutable_globals()),
        ("parsers call nothing but memory functions", impure_parsers()),
    )
    failed = 0
    print("1..%d" % len(checks))
    for number, (name, problems) in enumerate(checks, 1):
        print("%sok %d - %s" % ("not " if problems else "", number, name))
        for problem in problems[:20]:
            print("# " + problem)
        if len(problems) > 20:
            print("# and %d more" % (len(problems) - 20))
        failed += bool(problems)
    return 1 if failed else 0


sys.exit(main())
