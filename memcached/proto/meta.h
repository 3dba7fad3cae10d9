/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meta: the parser of the meta commands (memcached's protocol.txt, "Meta Commands"): a key, for ms
 * the length of a value, and flags, each a letter that may have a value behind it.
 */
#ifndef PROTO_META_H
#define PROTO_META_H

#include "proto/proto.h"

/* Reads what follows the verb, which `request` has already. */
void meta_parse(struct slice rest, struct request *request);

#endif
