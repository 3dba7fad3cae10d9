/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tc: the loader's programs on the hooks of TC, by TCX, else by filters. The loader's own; what
 * loader.h has of it is loader_attach_tc and loader_detach_tc.
 */
#ifndef BPF_TC_H
#define BPF_TC_H

#include <stdbool.h>

#include "bpf/loader/loader.h"

/* Whether something is no longer there; it counts as not attached from now on. */
bool tc_lost(struct loader *loader, struct loader_link *link);

#endif
