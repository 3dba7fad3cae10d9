/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/attach/dispatcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <xdp/libxdp.h>

#include "bpf/attach/attach.h"
#include "bpf/attach/member.skel.h"
#include "bpf/attach/prog_array.h"

enum { LOG_MAX = 4096 };

static const char member_name[] = "mc_member";

/* Silences libxdp: the caller reports errors by their values. */
static int print_nothing(enum libxdp_print_level level, const char *format, va_list args)
{
    (void)level;
    (void)format;
    (void)args;
    return 0;
}

/* Opens an interface's dispatcher. NULL: it has none that this libxdp can read. */
static struct xdp_multiprog *open_dispatcher(int ifindex)
{
    struct xdp_multiprog *all;

    libxdp_set_print(print_nothing);
    all = xdp_multiprog__get_from_ifindex(ifindex);
    if (libxdp_get_error(all))
        return NULL;
    if (xdp_multiprog__is_legacy(all)) {
        xdp_multiprog__close(all);
        return NULL;
    }
    return all;
}

/* --- members of servers that have ended -------------------------------------- */

static bool is_dead_member(struct xdp_program *program)
{
    return strcmp(xdp_program__name(program), member_name) == 0 &&
           prog_array_is_empty(xdp_program__fd(program));
}

/* Detaches one dead member at a time: each detach replaces the dispatcher. */
static bool remove_dead_member(int ifindex)
{
    struct xdp_multiprog *all = open_dispatcher(ifindex);
    struct xdp_program *each = NULL;
    bool given = false;

    while (all && !given && (each = xdp_multiprog__next_prog(each, all)))
        given = is_dead_member(each) &&
                !xdp_program__detach(each, ifindex, xdp_multiprog__attach_mode(all), 0);
    if (all)
        xdp_multiprog__close(all);
    return given;
}

/*
 * Any other program is not shown to libxdp, which keeps a descriptor of it open (1.3.1) and so,
 * where servers share an interface, the memory of one that has ended.
 */
static bool may_be_dispatcher(int ifindex)
{
    char name[16];

    return loader_xdp_present(ifindex, name) && (!name[0] || !strcmp(name, "xdp_dispatcher"));
}

bool dispatcher_is_there(int ifindex)
{
    struct xdp_multiprog *all;

    if (!may_be_dispatcher(ifindex))
        return false;
    while (remove_dead_member(ifindex))
        continue;
    all = open_dispatcher(ifindex);
    if (all)
        xdp_multiprog__close(all);
    return all != NULL;
}

/* --- this server's member ------------------------------------------------------ */

static const char *base_path(void)
{
    const char *path = secure_getenv("LIBXDP_BPFFS");

    return path ? path : "/sys/fs/bpf";
}

/* The path of libxdp's pinned link of the program with this id. False: there is none. */
static bool find_link(int ifindex, uint32_t id, char *path, size_t npath)
{
    struct xdp_multiprog *all = open_dispatcher(ifindex);
    struct xdp_program *each = NULL;
    unsigned int i = 0;

    if (!all)
        return false;
    while ((each = xdp_multiprog__next_prog(each, all)) && xdp_program__id(each) != id)
        i++;
    snprintf(path, npath, "%s/xdp/dispatch-%d-%u/prog%u-link", base_path(), ifindex,
             xdp_program__id(xdp_multiprog__main_prog(all)), i);
    xdp_multiprog__close(all);
    return each != NULL;
}

/*
 * Opens the pinned link and unpins it, under libxdp's lock. The program is pinned under its name
 * instead: libxdp expects a file there when it unloads, of any kind.
 */
static int take_link(const char *path, int program)
{
    char folder[PATH_MAX];
    int lock, fd;

    snprintf(folder, sizeof(folder), "%s/xdp", base_path());
    lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0)
        return -errno;
    flock(lock, LOCK_EX);
    fd = bpf_obj_get(path);
    if (fd >= 0 && (unlink(path) || bpf_obj_pin(program, path))) {
        close(fd);
        fd = -errno;
    }
    close(lock);
    return fd;
}

static int join(int ifindex, struct xdp_program *program, enum xdp_attach_mode mode)
{
    char path[PATH_MAX];
    int rc, fd = -ENOENT;

    xdp_program__set_run_prio(program, DISPATCHER_PRIORITY);
    xdp_program__set_xdp_frags_support(program, true);
    rc = xdp_program__attach(program, ifindex, mode, 0);
    if (rc)
        return rc;
    if (find_link(ifindex, xdp_program__id(program), path, sizeof(path)))
        fd = take_link(path, xdp_program__fd(program));
    if (fd < 0)
        xdp_program__detach(program, ifindex, mode, 0);
    return fd;
}

/* The first line of the verifier's log. */
static void read_reason(const char *log, char *reason, size_t nreason)
{
    snprintf(reason, nreason, "%.*s", (int)strcspn(log, "\n"), log);
}

/* libxdp pins there, and says of a failure only that the interface is busy. */
static void read_folder(char *reason, size_t nreason)
{
    struct statvfs is;

    if (statvfs(base_path(), &is) == 0 && is.f_flag & ST_RDONLY)
        snprintf(reason, nreason,
                 "%s, where it keeps its programs, is read-only (in a systemd unit: "
                 "ProtectKernelTunables=no)",
                 base_path());
}

int dispatcher_join(int ifindex, int prog_array, bool *generic, char *reason, size_t nreason)
{
    DECLARE_LIBXDP_OPTS(xdp_program_opts, opts, .prog_name = member_name);
    char log[LOG_MAX] = "";
    LIBBPF_OPTS(bpf_object_open_opts, open, .kernel_log_buf = log, .kernel_log_size = sizeof(log));
    struct xdp_multiprog *all = open_dispatcher(ifindex);
    struct xdp_program *program;
    enum xdp_attach_mode mode;
    struct member *skel;
    int rc;

    reason[0] = '\0';
    if (!all)
        return -ENOENT;
    mode = xdp_multiprog__attach_mode(all);
    xdp_multiprog__close(all);
    skel = member__open_opts(&open);
    if (!skel)
        return -errno;
    opts.obj = skel->obj;
    rc = bpf_map__reuse_fd(skel->maps.mc_prog_array, prog_array);
    program = rc ? NULL : xdp_program__create(&opts);
    if (program && !libxdp_get_error(program)) {
        rc = join(ifindex, program, mode);
        xdp_program__close(program);
        *generic = mode == XDP_MODE_SKB;
    } else if (!rc) {
        rc = (int)libxdp_get_error(program);
    }
    read_reason(log, reason, nreason);
    if (rc < 0 && !reason[0])
        read_folder(reason, nreason);
    member__destroy(skel);
    return rc;
}
