/* SPDX-License-Identifier: BSD-3-Clause */
/* tcpmodel_binary: the model's operations in the binary protocol, and what they share with text. */
#ifndef T_TOOL_TCPMODEL_BINARY_H
#define T_TOOL_TCPMODEL_BINARY_H

#include "t/tool/tcpmodel.h"

void binary_read(struct model *model);
void binary_get(struct model *model);
void binary_write(struct model *model);
void binary_set_silently(struct model *model);
void binary_noop(struct model *model);

/* A key of its own. */
struct own_key *model_key(struct model *model);

/* Gives the key a value of the size and kind that its values have. */
void model_new_value(struct model *model, struct own_key *key);

/* The reply has the CAS id of the key as it is now. */
void model_cas(struct model *model, struct own_key *key, enum hole_kind kind);

/* Chooses a shared key to read. */
void model_want_shared(struct model *model, struct hole *hole);

/* Whether to write a shared key; which, and its next version's value, of at most SHARED_MAX. */
bool model_writes_shared(struct model *model);
struct shared_key *model_next_version(struct model *model, char *value, size_t *nvalue);

#endif
