/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the verifier of this kernel says of each program: instructions, instructions looked at,
 * bytes after the JIT. The numbers are kept in t/kernels/verifier; more work than that, by more
 * than a quarter, is a regression, long before the limit of a million is reached.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "t/bpf/lab.h"
#include "t/lib/tap.h"

/* The kernel's limit is a million: what another clang makes of a program must fit as well. */
enum { INSN_ROOM = 800000, INSN_BYTES = 8 };

struct counts {
    unsigned int insns, verified, jited;
};

static bool look(struct loader *loader, enum loader_program program, struct counts *out)
{
    struct bpf_prog_info info = {0};
    __u32 ninfo = sizeof(info);

    if (bpf_obj_get_info_by_fd(loader_program_fd(loader, program), &info, &ninfo) != 0)
        return false;
    *out = (struct counts){info.xlated_prog_len / INSN_BYTES, info.verified_insns,
                           info.jited_prog_len};
    return true;
}

/* What the file says of a kernel whose release begins so, and a program: 0, nothing. */
static unsigned int recorded(const char *release, const char *name)
{
    const char *source = getenv("SRCDIR");
    char path[4096], line[256], kernel[64], program[16];
    unsigned int insns, verified, found = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/t/kernels/verifier", source ? source : ".");
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%63s %15s %u %u", kernel, program, &insns, &verified) == 4 &&
            strncmp(release, kernel, strlen(kernel)) == 0 && strcmp(program, name) == 0)
            found = verified;
    }
    if (file)
        fclose(file);
    return found;
}

int main(void)
{
    static const char *const names[] = {[LOADER_XDP] = "xdp", [LOADER_TC] = "tc"};
    struct utsname kernel;
    struct lab lab;

    uname(&kernel);
    lab_open(&lab, 1);
    for (enum loader_program program = LOADER_XDP; program <= LOADER_TC; program++) {
        const char *name = names[program];
        struct counts counts = {0};
        unsigned int before = recorded(kernel.release, name);

        ok(look(lab.loader, program, &counts), "%s: the kernel tells of the program", name);
        printf("# verifier %s %s %u %u %u\n", kernel.release, name, counts.insns, counts.verified,
               counts.jited);
        ok(counts.verified > 0 && counts.verified < INSN_ROOM,
           "%s: the verifier looked at %u instructions, of a million that it may", name,
           counts.verified);
        ok(before == 0 || counts.verified <= before + before / 4,
           "%s: not much more than what is recorded, %u", name, before);
    }
    lab_close(&lab);
    return done();
}
