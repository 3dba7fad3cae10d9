/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order: says what others have put before the programs on TC. What ends the chain there hides all
 * packets from them: then no return path is learned, and the kernel answers nothing.
 */
#ifndef IFACE_ORDER_H
#define IFACE_ORDER_H

#include "iface/attach.h"

/* Updates at->before, and logs a line if it has changed, or what it was cannot be seen. */
void order_say(struct attachment *at);
/* Looks at the order again, then the same. */
void order_check(struct loader *loader, struct attachment *at);

#endif
