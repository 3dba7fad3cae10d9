/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * filters: what tc filters an interface has, read by rtnetlink, which needs no privilege. Used by
 * the loader only.
 */
#ifndef BPF_FILTERS_H
#define BPF_FILTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FILTERS_MOST = 128, /* that are read */
    FILTER_NAME = 32,   /* bytes of a name, NUL included */
};

struct filter_row {
    uint32_t priority, handle;
    uint32_t program;       /* its id; 0: no filter of BPF */
    bool for_all;           /* of BPF, for all protocols */
    char name[FILTER_NAME]; /* its program's, else the filter's kind */
};

/*
 * The filters of clsact in the order in which they run, those of BPF each, of another kind one for
 * all of a priority. Returns how many; an interface without clsact has none.
 */
size_t filters_read(int ifindex, bool egress, struct filter_row rows[FILTERS_MOST]);
/*
 * The lowest priority at which a new filter of BPF comes first: none has it, or filters of BPF for
 * all protocols, of which the kernel runs the newest first.
 */
uint32_t filters_place(const struct filter_row *rows, size_t n);

#endif
