#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""memcached.1, which the build makes from the option table."""
import os
import re
import shutil
import subprocess

import server
import tap

PAGE = os.path.join(os.path.abspath(os.environ.get("BUILDDIR", ".")), "memcached.1")
BMC_PAGE = os.path.join(os.environ.get("SRCDIR", "."), "doc", "bmc.1")
SECTIONS = """NAME SYNOPSIS DESCRIPTION OPTIONS LISTENING PRIVILEGES SIGNALS ENVIRONMENT EXAMPLES"""
LETTERS = "pUsaAldrumMckvhiVPfnLDtRCbBIFXSYeZo"
WORDS = """maxconns_fast no_maxconns_fast hashpower no_hashexpand slab_reassign no_slab_reassign
slab_automove no_slab_automove slab_automove_ratio slab_automove_window tail_repair_time
hash_algorithm lru_crawler no_lru_crawler lru_crawler_sleep lru_crawler_tocrawl lru_maintainer
no_lru_maintainer hot_lru_pct warm_lru_pct hot_max_factor warm_max_factor temporary_ttl
idle_timeout watcher_logbuf_size worker_logbuf_size slab_sizes slab_chunk_max track_sizes
inline_ascii_resp no_inline_ascii_resp no_chunked_items modern no_modern drop_privileges
no_drop_privileges relaxed_privileges ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat
ssl_ciphers ssl_ca_cert ssl_wbuf_size ext_path ext_page_size ext_wbuf_size ext_threads ext_io_depth
ext_item_size ext_item_age ext_low_ttl ext_recache_rate ext_compact_under ext_drop_under
ext_max_frag ext_drop_unread slab_automove_freeratio""".split()

with open(PAGE, encoding="utf-8") as _file:
    page = _file.read()


@tap.case
def its_parts():
    for section in SECTIONS.split():
        tap.ok("\n.Sh %s\n" % section in page, "there is a section " + section)
    tap.ok("@" not in page, "no placeholder is left")


@tap.case
def options_of_1_5_19():
    for letter in LETTERS:
        tap.ok(re.search(r"^\.It Fl %s\b" % letter, page, re.M), "-%s is described" % letter)
    for word in WORDS:
        tap.ok(re.search(r"^\.It (.* )?Cm %s\b" % word, page, re.M), "-o %s is described" % word)


@tap.case
def options_that_the_help_shows():
    _, text, _ = server.run("-h")
    longs = re.findall(r"^-(\w),? +--([\w-]+)", text, re.M)
    words = re.findall(r"^   - (\w+):", text, re.M)
    tap.ok(len(longs) >= 30 and len(words) >= 20, "-h shows options (%d, and %d words)" %
           (len(longs), len(words)))
    for letter, name in longs:
        tap.ok(re.search(r"^\.It Fl %s .*, Fl \\-%s\b" % (letter, re.escape(name)), page, re.M) or
               re.search(r"^\.It Fl %s , Fl \\-%s$" % (letter, re.escape(name)), page, re.M),
               "--%s is described" % name)
    for word in words:
        tap.ok(re.search(r"^\.It (.* )?Cm %s\b" % word, page, re.M), "-o %s is described" % word)


@tap.case
def mandoc_has_no_complaint():
    if not shutil.which("mandoc"):
        tap.skip_all("mandoc is missing: apt-get install mandoc")
    for path in (PAGE, BMC_PAGE):
        done = subprocess.run(["mandoc", "-Tlint", path], capture_output=True, text=True,
                              check=False)
        tap.is_((done.returncode, done.stdout), (0, ""),
                "mandoc -Tlint has no complaint about " + os.path.basename(path))
    done = subprocess.run(["mandoc", "-Tascii", PAGE], capture_output=True, check=False)
    tap.ok(done.returncode == 0 and len(done.stdout) > 5000, "mandoc can show it")


tap.run()
