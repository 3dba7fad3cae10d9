/* SPDX-License-Identifier: BSD-3-Clause */
/* version: what `version`, `stats` and -V say: memcached's number and our suffix. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define MEMCACHED_VERSION "1.5.19-sr"

#endif
