/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "bmc/options.h"
#include "bmc/run.h"
#include "bmc/stats.h"
#include "bmc/trace.h"

int main(int argc, char **argv)
{
    struct options options;
    int status;

    setvbuf(stdout, NULL, _IOLBF, 0);
    status = options_parse(&options, argc, argv, stdout, stderr);
    if (status == OPTIONS_RUN)
        status = options.trace   ? trace_show(&options.traced)
                 : options.stats ? stats_show(options.port)
                                 : run(&options);
    options_fini(&options);
    return status;
}
