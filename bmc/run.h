/* SPDX-License-Identifier: BSD-3-Clause */
/* run: the main function of bmc behind the command line. */
#ifndef BMC_RUN_H
#define BMC_RUN_H

#include "bmc/options.h"

/* Runs until a signal and returns the exit status; an error at the start exits. */
int run(const struct options *options);

#endif
