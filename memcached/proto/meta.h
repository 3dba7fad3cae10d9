/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meta: the parser of the meta commands (memcached's protocol.txt, "Meta Commands"): a key, for ms
 * the length of a value, and flags, each a letter and an optional value.
 */
#ifndef PROTO_META_H
#define PROTO_META_H

#include "proto/proto.h"

/* Parses the line behind the verb, which `request` has already. */
void proto_parse_meta(struct slice rest, struct request *request);

#endif
