/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "options/options.h"
#include "server.h"

int main(int argc, char **argv)
{
    struct options options;
    int status;

    setvbuf(stdout, NULL, _IOLBF, 0);
    options_init(&options);
    status = options_parse(&options, argc, argv, stdout, stderr);
    if (status == OPTIONS_RUN)
        status = server_run(&options);
    options_fini(&options);
    return status;
}
