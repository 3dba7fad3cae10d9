/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach: puts a floor program, one that passes everything (on TC ingress too), or the sink of
 * replies on an interface and keeps it there until standard input ends or a signal comes.
 */
#include <linux/if_link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bench/floor.skel.h"
#include "bench/load.skel.h"
#include "bench/options.h"
#include "bench/xdp.h"

enum { TCX_INGRESS = 46 }; /* BPF_TCX_INGRESS of Linux 6.6; older headers lack it */

struct options {
    uint64_t port, delay;
    bool generic;
};

static const struct option_row rows[] = {
    {"port", OPTION_NUMBER, offsetof(struct options, port), "N", "that the floor answers (11211)"},
    {"delay", OPTION_NUMBER, offsetof(struct options, delay), "NS",
     "that the floor waits before it answers, up to 5000 (0)"},
    {"generic", OPTION_FLAG, offsetof(struct options, generic), NULL,
     "in the stack, not the driver"},
};

static const struct option_table table = {
    "usage: attach [options] floor|floor-tcp|pass|next|sink INTERFACE\n"
    "Attaches the program, prints its id, and stays until standard input ends.",
    rows, sizeof(rows) / sizeof(rows[0])};

static struct bpf_program *floor_program(const struct options *options, bool tcp)
{
    struct floor *floor = floor__open();

    if (!floor)
        fail("cannot open the floor program");
    floor->rodata->floor_port = (uint16_t)options->port;
    floor->rodata->floor_delay = options->delay;
    if (floor__load(floor))
        fail("cannot load the floor program");
    return tcp ? floor->progs.floor_reply_tcp : floor->progs.floor_reply;
}

static struct floor *pass_programs(void)
{
    struct floor *floor = floor__open_and_load();

    if (!floor)
        fail("cannot load the programs that pass");
    return floor;
}

static struct bpf_program *sink_program(void)
{
    struct load *load = load__open_and_load();

    if (!load)
        fail("cannot load the sink");
    return load->progs.load_sink;
}

int main(int argc, char **argv)
{
    struct options options = {.port = 11211};
    int operand = options_parse(&table, &options, argc, argv);
    LIBBPF_OPTS(bpf_link_create_opts, link);
    struct bpf_program *program = NULL;
    struct bpf_prog_info info = {0};
    __u32 ninfo = sizeof(info);
    bool xdp;
    char byte;

    if (operand == argc - 2 && strcmp(argv[operand], "floor") == 0)
        program = floor_program(&options, false);
    else if (operand == argc - 2 && strcmp(argv[operand], "floor-tcp") == 0)
        program = floor_program(&options, true);
    else if (operand == argc - 2 && strcmp(argv[operand], "pass") == 0)
        program = pass_programs()->progs.floor_pass;
    else if (operand == argc - 2 && strcmp(argv[operand], "next") == 0)
        program = pass_programs()->progs.floor_next;
    else if (operand == argc - 2 && strcmp(argv[operand], "sink") == 0)
        program = sink_program();
    else
        usage_error("%s", table.usage);
    link.flags = options.generic ? XDP_FLAGS_SKB_MODE : 0;
    xdp = bpf_program__type(program) == BPF_PROG_TYPE_XDP;
    if (bpf_link_create(bpf_program__fd(program), (int)xdp_ifindex(argv[argc - 1]),
                        xdp ? BPF_XDP : TCX_INGRESS, xdp ? &link : NULL) < 0)
        fail("cannot attach to %s", argv[argc - 1]);
    if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &ninfo))
        fail("cannot ask for the program's number");
    printf("%u\n", info.id);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    return 0;
}
