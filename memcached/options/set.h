/* SPDX-License-Identifier: BSD-3-Clause */
/* options_set: the setters of options that do more than store a value. */
#ifndef OPTIONS_SET_H
#define OPTIONS_SET_H

#include "options/table.h"

#define MISSING_NUMBER "Missing numeric argument for %s"
#define MISSING_VALUE  "Missing %s value"

option_setter set_access_mask, set_listen, set_memory, set_delimiter, set_binding, set_item_max,
    set_hash_algorithm, set_hashpower, set_no_automove, warn_ignored, set_slab_sizes, set_chunk_max,
    set_no_modern, set_no_chunked_items, set_ssl_level;
/* Called after a value was stored. */
option_setter check_threads, set_lru_maintainer, enable_temp_lru;
option_setter set_ext_path, check_ext_page_size;
option_setter show_help, show_license, show_version;

/* Checks options against each other, after all were read: OPTIONS_RUN or an exit status. */
int options_check(struct options *options, FILE *err);
/* Defaults and checks of the flash options, beyond their rows (flash.c). */
void options_flash_init(struct options *options);
void options_flash_fini(struct options *options);
int options_flash_check(struct options *options, FILE *err);
const char *binding_text(enum protocol protocol);

#endif
