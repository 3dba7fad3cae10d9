/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/attach/prog_array.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#include <bpf/bpf.h>

int prog_array_open(void)
{
    return bpf_map_create(BPF_MAP_TYPE_PROG_ARRAY, "mc_prog_array", sizeof(uint32_t),
                          sizeof(uint32_t), 1, NULL);
}

int prog_array_set(int prog_array, uint32_t at, int program)
{
    return bpf_map_update_elem(prog_array, &at, &program, BPF_ANY);
}

bool prog_array_is_empty(int program)
{
    uint32_t map = 0, zero = 0, id;
    struct bpf_prog_info info = {.nr_map_ids = 1, .map_ids = (uintptr_t)&map};
    uint32_t ninfo = sizeof(info);
    int fd, rc;

    if (bpf_obj_get_info_by_fd(program, &info, &ninfo) || !map)
        return false;
    fd = bpf_map_get_fd_by_id(map);
    if (fd < 0)
        return false;
    rc = bpf_map_lookup_elem(fd, &zero, &id);
    close(fd);
    return rc == -ENOENT;
}
