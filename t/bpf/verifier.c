/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verifier's figures for each program on this kernel: instructions, instructions processed,
 * bytes after the JIT, microseconds of verification. All but the last are recorded in
 * t/kernels/verifier, for clang 14; half as many instructions processed again is a regression, long
 * before the limit of a million is reached. Programs of clang 16 and 19 need up to a half more.
 * Programs far below the limit are not judged. t/kernels/table makes a table of the output.
 */
#include <bpf/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "bpf/load/object.h"
#include "t/bpf/lab.h"
#include "t/bpf/skeletons.h"
#include "t/lib/tap.h"

/* The kernel's limit is a million: the programs of another clang must fit as well. */
enum {
    INSN_ROOM = 800000,
    INSN_FEW = 100000,
    INSN_BYTES = 8,
    MAX_PROGRAMS = 16,
    LOG_STATS = 4,
    LOG_BYTES = 1 << 20
};

struct counts {
    unsigned int insns, verified, jited, us;
};

static char logs[MAX_PROGRAMS][LOG_BYTES];

static bool look(const struct bpf_program *program, const char *log, struct counts *out)
{
    struct bpf_prog_info info = {0};
    __u32 ninfo = sizeof(info);
    const char *time = strstr(log, "verification time ");

    if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &ninfo) != 0)
        return false;
    *out = (struct counts){info.xlated_prog_len / INSN_BYTES, info.verified_insns,
                           info.jited_prog_len, 0};
    return time && sscanf(time, "verification time %u", &out->us) == 1;
}

/* The recorded number for a kernel release with this beginning, and a program: 0: none. */
static unsigned int recorded(const char *release, const char *name)
{
    const char *source = getenv("SRCDIR");
    char path[4096], line[256], kernel[64], program[32];
    unsigned int insns, verified, found = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/t/kernels/verifier", source ? source : ".");
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "%63s %31s %u %u", kernel, program, &insns, &verified) == 4 &&
            strncmp(release, kernel, strlen(kernel)) == 0 && strcmp(program, name) == 0)
            found = verified;
    if (file)
        fclose(file);
    return found;
}

static void test_program(const struct bpf_program *program, const char *log, const char *release)
{
    const char *name = bpf_program__name(program);
    struct counts counts = {0};
    unsigned int before;

    if (strncmp(name, "mc_", 3) == 0)
        name += 3;
    before = recorded(release, name);
    ok(look(program, log, &counts), "%s: the kernel reports on the program", name);
    printf("# verifier %s %s %u %u %u %u\n", release, name, counts.insns, counts.verified,
           counts.jited, counts.us);
    ok(counts.verified > 0 && counts.verified < INSN_ROOM,
       "%s: the verifier processed %u instructions, of at most a million", name, counts.verified);
    ok(before == 0 || counts.verified <= INSN_FEW || counts.verified <= before + before / 2,
       "%s: not many more than recorded, %u", name, before);
}

/* Gives each program a log of its own, in which the verifier writes its times. */
static void ask(struct bpf_object *all)
{
    struct bpf_program *each;
    size_t n = 0;

    bpf_object__for_each_program(each, all)
    {
        if (n < MAX_PROGRAMS)
            bpf_program__set_log_buf(each, logs[n++], LOG_BYTES);
        bpf_program__set_log_level(each, LOG_STATS);
    }
}

static void test_programs(struct bpf_object *all, const char *release)
{
    struct bpf_program *each;
    size_t n = 0;

    bpf_object__for_each_program(each, all)
    {
        if (bpf_program__autoload(each))
            test_program(each, logs[n], release);
        n++;
    }
}

/* Loads them as the loader does, but one after the other, which keeps their logs in order. */
static void test_object(enum object_kind kind, bool rings, const char *name, const char *release)
{
    struct object object;

    if (object_open(&object, kind, rings, NULL))
        skip_all("cannot open the programs");
    object_set_xdp(&object, BPF_F_XDP_HAS_FRAGS, true);
    *object.tick_ns = loader_tick_ns();
    if (object.settings)
        *object.settings = lab_chain;
    ask(object.all);
    if (!ok(bpf_object__load_skeleton(object.skeleton) == 0, "%s: the programs are loaded", name))
        return;
    test_programs(object.all, release);
    object_close(&object);
}

static void test_tcp(const char *release)
{
    struct tcp *skel = skeleton_tcp();

    ask(skel->obj);
    if (ok(tcp__load(skel) == 0, "TCP: the programs are loaded"))
        test_programs(skel->obj, release);
    tcp__destroy(skel);
}

static void test_share(const char *release)
{
    struct share *skel = skeleton_share();

    ask(skel->obj);
    if (ok(share__load(skel) == 0, "shared interfaces: the programs are loaded"))
        test_programs(skel->obj, release);
    share__destroy(skel);
}

/* --- without memory for a log ------------------------------------------------ */

static bool no_room;
void *__libc_calloc(size_t n, size_t size);

/* In place of the C library's. */
void *calloc(size_t n, size_t size)
{
    return no_room && size >= LOG_BYTES ? NULL : __libc_calloc(n, size);
}

/* The log is for an error alone; and the loader waits for what it has started in any case. */
static void test_without_log(void)
{
    char error[640] = "none";
    struct loader *loader =
        loader_open_guarded(&(struct loader_guard){0}, false, error, sizeof(error));
    int rc = -1;

    no_room = true;
    if (loader)
        rc = loader_wait(loader, error, sizeof(error));
    no_room = false;
    ok(rc == 0, "programs are loaded without memory for the verifier's log (%s)", error);
    loader_close(loader);
}

int main(void)
{
    struct utsname kernel;
    struct lab lab;

    lab_open(&lab, 1); /* prints the error if nothing can be loaded here */
    lab_close(&lab);
    uname(&kernel);
    test_object(OBJECT_UDP, false, "in place", kernel.release);
    test_object(OBJECT_BOTH, false, "in place, with TCP", kernel.release);
    test_object(OBJECT_UDP, true, "in place, with rings", kernel.release);
    test_object(OBJECT_BOTH, true, "in place, with TCP and rings", kernel.release);
    test_object(OBJECT_CHAIN, false, "the chain", kernel.release);
    test_tcp(kernel.release);
    test_share(kernel.release);
    test_without_log();
    return done();
}
