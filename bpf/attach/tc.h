/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tc: attaches the loader's programs to the TC hooks, by TCX, else by filters. Used by the loader
 * only; its public functions are loader_attach_tc and loader_detach_tc in attach.h.
 */
#ifndef BPF_TC_H
#define BPF_TC_H

#include <stdbool.h>

#include "bpf/attach/attach.h"

/* Whether an attachment was lost; from now on it counts as detached. */
bool tc_lost(struct loader *loader, struct loader_link *link);

#endif
