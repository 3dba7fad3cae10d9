/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trial: swaps the socket of a connection of its own over loopback, forth and once back, and sees
 * whether that works still: what the kernel, its security modules and the process's rights permit.
 */
#ifndef SPLICE_TRIAL_H
#define SPLICE_TRIAL_H

#include <stddef.h>

#include "splice/swap.h"

/* Waits for a second at the most. out->fd is -1. */
enum swap_result trial_run(struct swapped *out);
/* Why it failed, and what the operator can do. */
void trial_explain(const struct swapped *out, char *text, size_t ntext);

#endif
