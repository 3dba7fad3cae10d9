/* SPDX-License-Identifier: BSD-3-Clause */
/* run: bmc from its start to its end. */
#ifndef BMC_RUN_H
#define BMC_RUN_H

#include "bmc/options.h"

/* Returns the status to exit with, after a signal; what goes wrong at the start ends the process.
 */
int run(const struct options *options);

#endif
