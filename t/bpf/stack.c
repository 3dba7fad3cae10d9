/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How deep the programs' calls are, counted as Linux 6.1 counts, which refuses more than 512 bytes
 * of stack and eight calls; later kernels round less, so that loading the programs there proves
 * nothing.
 */
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>

#include "bpf/load/object.h"
#include "kcache/guard.h"
#include "t/bpf/lab.h"
#include "t/bpf/skeletons.h"
#include "t/lib/tap.h"

/* The kernel's limits are 512 and 8; the programs of another clang must fit as well. */
enum { STACK_ROOM = 448, CALLS_ROOM = 7, ROUNDED_TO = 32, INSNS_MAX = 65536 };

struct code {
    struct bpf_insn *insns;
    unsigned int ninsns;
    int stack[INSNS_MAX]; /* of the function that begins there, once it is known: at least 1 */
};

struct depth {
    int stack, calls;
};

static bool is_call(const struct bpf_insn *insn)
{
    return insn->code == (BPF_JMP | BPF_CALL) && insn->src_reg == BPF_PSEUDO_CALL;
}

/* The program that runs, without the code that the options leave out. */
static bool fetch(const struct bpf_program *program, struct code *out)
{
    struct bpf_prog_info info = {0};
    __u32 ninfo = sizeof(info);

    info.xlated_prog_insns = (uintptr_t)out->insns;
    info.xlated_prog_len = INSNS_MAX * sizeof(struct bpf_insn);
    if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &ninfo) != 0)
        return false;
    out->ninsns = info.xlated_prog_len / sizeof(struct bpf_insn);
    return info.xlated_prog_insns && out->ninsns && out->ninsns <= INSNS_MAX;
}

/* How far below its frame an instruction reaches, and the next one, if it only takes an address. */
static int reach(const struct bpf_insn *insn)
{
    int class = BPF_CLASS(insn->code);

    if (class == BPF_LDX)
        return insn->src_reg == BPF_REG_10 ? -insn->off : 0;
    if (class == BPF_ST || class == BPF_STX)
        return insn->dst_reg == BPF_REG_10 ? -insn->off : 0;
    if (insn->code == (BPF_ALU64 | BPF_MOV | BPF_X) && insn->src_reg == BPF_REG_10 &&
        insn[1].code == (BPF_ALU64 | BPF_ADD | BPF_K) && insn[1].dst_reg == insn->dst_reg)
        return -insn[1].imm;
    return 0;
}

/* Marks where functions begin, then computes the stack of each. */
static void measure(struct code *code)
{
    unsigned int i, begin = 0;
    int below;

    for (i = 0; i < code->ninsns; i++)
        code->stack[i] = i == 0;
    for (i = 0; i < code->ninsns; i++)
        if (is_call(&code->insns[i]))
            code->stack[i + 1 + code->insns[i].off] = 1;
    for (i = 0; i < code->ninsns; i++) {
        if (code->stack[i])
            begin = i;
        below = reach(&code->insns[i]);
        if (below > code->stack[begin])
            code->stack[begin] = below;
    }
}

/* Of the function that begins there, and those that it calls. A verified program has no recursion.
 */
static struct depth deepest(const struct code *code, unsigned int begin)
{
    struct depth most = {0, 0}, called;

    for (unsigned int i = begin; i < code->ninsns && (i == begin || !code->stack[i]); i++) {
        if (!is_call(&code->insns[i]))
            continue;
        called = deepest(code, i + 1 + code->insns[i].off);
        most.stack = called.stack > most.stack ? called.stack : most.stack;
        most.calls = called.calls > most.calls ? called.calls : most.calls;
    }
    most.stack += (code->stack[begin] + ROUNDED_TO - 1) / ROUNDED_TO * ROUNDED_TO;
    most.calls++;
    return most;
}

static void test_program(const struct bpf_program *program)
{
    const char *name = bpf_program__name(program);
    struct code *code = malloc(sizeof(*code));
    struct depth depth = {0, 0};

    code->insns = calloc(INSNS_MAX + 1, sizeof(*code->insns));
    ok(fetch(program, code), "%s: the kernel returns its instructions", name);
    measure(code);
    depth = deepest(code, 0);
    ok(depth.stack > 0 && depth.stack <= STACK_ROOM,
       "%s: its calls take %d bytes of stack at most, of %d", name, depth.stack, STACK_ROOM);
    ok(depth.calls > 0 && depth.calls <= CALLS_ROOM, "%s: they are %d deep at most, of %d", name,
       depth.calls, CALLS_ROOM);
    free(code->insns);
    free(code);
}

/* How many there are. */
static unsigned int test_object(const struct bpf_object *object)
{
    unsigned int n = 0;
    struct bpf_program *each;

    bpf_object__for_each_program(each, object)
    {
        if (!bpf_program__autoload(each))
            continue;
        test_program(each);
        n++;
    }
    return n;
}

static void test_programs(const struct loader *loader, unsigned int most)
{
    unsigned int n = test_object(loader->object.all), i;

    for (i = 0; i < PARALLEL_MAX; i++)
        if (loader->object.parallel.jobs[i].part)
            n += test_object(loader->object.parallel.jobs[i].part);
    ok(n == most, "all %u programs were checked", n);
}

static void test_tcp(void)
{
    struct tcp *skel = skeleton_tcp();

    skel->rodata->weakly_ordered = 1; /* which leaves more of the code */
    if (ok(tcp__load(skel) == 0, "TCP: the programs are loaded"))
        ok(test_object(skel->obj) == 9, "all 9 programs for TCP were checked");
    tcp__destroy(skel);
}

static void test_share(void)
{
    struct share *skel = skeleton_share();

    if (ok(share__load(skel) == 0, "shared interfaces: the programs are loaded"))
        ok(test_object(skel->obj) == 2, "both were checked");
    share__destroy(skel);
}

int main(void)
{
    struct guard reloaded = {
        .loader = {.allow = MC_ALLOW_LIST, .reloads = true, .rate = 1000, .burst = 1000}};
    const struct loader_guard *guard = &reloaded.loader;
    struct loader *chain;
    struct lab lab;
    char error[512];

    if (guard_list(&reloaded, NULL, 0))
        skip_all("out of memory");
    for (int i = 0; i <= (LOADER_TCP | LOADER_RINGS); i++) {
        lab_open_guarded(&lab, 1, guard, i);
        test_programs(lab.loader, 3);
        lab_close(&lab);
    }
    test_tcp();
    test_share();
    chain = loader_open_chain(&lab_chain, guard, error, sizeof(error));
    if (ok(chain != NULL, "the chain is loaded: %s", chain ? "" : error))
        test_programs(chain, 9);
    loader_close(chain);
    guard_fini(&reloaded);
    return done();
}
