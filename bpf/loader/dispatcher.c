/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/loader/dispatcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <xdp/libxdp.h>

#include "bpf/loader/alive.h"
#include "bpf/loader/member.skel.h"

enum { LOG_MAX = 4096 };

static const char member_name[] = "mc_member";

/* libxdp says nothing of its own accord: errors are values here. */
static int say_nothing(enum libxdp_print_level level, const char *format, va_list args)
{
    (void)level;
    (void)format;
    (void)args;
    return 0;
}

/* The dispatcher of an interface, or NULL: it has none that this libxdp can read. */
static struct xdp_multiprog *open_dispatcher(int ifindex)
{
    struct xdp_multiprog *all;

    libxdp_set_print(say_nothing);
    all = xdp_multiprog__get_from_ifindex(ifindex);
    if (libxdp_get_error(all))
        return NULL;
    if (xdp_multiprog__is_legacy(all)) {
        xdp_multiprog__close(all);
        return NULL;
    }
    return all;
}

/* --- places of servers that are gone ---------------------------------------- */

static bool is_dead(struct xdp_program *program)
{
    return strcmp(xdp_program__name(program), member_name) == 0 &&
           alive_is_gone(xdp_program__fd(program));
}

/* One place is given back at a time: with that the dispatcher is another one. */
static bool give_back(int ifindex)
{
    struct xdp_multiprog *all = open_dispatcher(ifindex);
    struct xdp_program *each = NULL;
    bool given = false;

    while (all && !given && (each = xdp_multiprog__next_prog(each, all)))
        given = is_dead(each) &&
                !xdp_program__detach(each, ifindex, xdp_multiprog__attach_mode(all), 0);
    if (all)
        xdp_multiprog__close(all);
    return given;
}

bool dispatcher_is_there(int ifindex)
{
    struct xdp_multiprog *all;

    while (give_back(ifindex))
        continue;
    all = open_dispatcher(ifindex);
    if (all)
        xdp_multiprog__close(all);
    return all != NULL;
}

/* --- a place of our own -------------------------------------------------------- */

static const char *base_path(void)
{
    const char *path = secure_getenv("LIBXDP_BPFFS");

    return path ? path : "/sys/fs/bpf";
}

/* Where libxdp keeps the link of the program with this id. False: the dispatcher has none. */
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
 * Takes the link out of the file system, under libxdp's lock. The program takes its name there:
 * libxdp looks for a file when it unloads, and does not mind which.
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

int dispatcher_join(int ifindex, int alive, bool *generic, char *reason, size_t nreason)
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
    rc = bpf_map__reuse_fd(skel->maps.mc_alive, alive);
    program = rc ? NULL : xdp_program__create(&opts);
    if (program && !libxdp_get_error(program)) {
        rc = join(ifindex, program, mode);
        xdp_program__close(program);
        *generic = mode == XDP_MODE_SKB;
    } else if (!rc) {
        rc = (int)libxdp_get_error(program);
    }
    read_reason(log, reason, nreason);
    member__destroy(skel);
    return rc;
}
