/* SPDX-License-Identifier: BSD-3-Clause */
/* run: the main function of bmc behind the command line. */
#ifndef BMC_RUN_H
#define BMC_RUN_H

#include "bmc/options.h"

/* Runs until a signal and returns the exit status; an error at the start exits. */
int run(const struct options *options);

/* Blocks SIGINT, SIGTERM and SIGHUP. The descriptor that reads them, or -1 with errno. */
int run_open_signals(void);
/* The descriptor that is readable each second, or -1 with errno. */
int run_open_clock(void);

#endif
