/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/attach/share.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/attach/attached.h"
#include "bpf/attach/closer.h"
#include "bpf/attach/prog_array.h"
#include "bpf/attach/share_ports.h"
#include "bpf/load/object.h"

#include "bpf/attach/share.skel.h"

enum {
    NUMBERS = 32,      /* servers of one network namespace, on whatever interfaces */
    FDS_MAX = 3,       /* in a message, */
    FDS_ROOM = 253,    /* and as many as Linux lets others send: what has no room it closes here */
    PENDING_MAX = 32,  /* descriptors that may wait to be closed */
    ANSWER_S = 1,      /* the longest wait for an answer, */
    ANSWERS_S = 3,     /* and for those of all servers */
    REQUEST_MS = 100,  /* the longest wait for a request after its connection */
    WORK_MAX = 1000,   /* what this server's thread does for others in a second: connections, */
    WORK_WAIT = 500,   /* and as what it counts to have waited for a request in vain */
    FULL_MS = 10,      /* between tries to connect to a server that has as many as can wait */
    CHANGING_S = 5,    /* after an answer the link's program may be one that is not known yet */
    BACKLOG = NUMBERS, /* connections that wait for this server's thread */
};

enum kind {
    ASK = 0x6d633032, /* who shares this interface? With an XDP program of mine */
    SHARES,           /* I: ports; mc_shared, link, program of the link */
    ALONE,            /* not I */
    CHANGES,          /* I, and the program of the link is being replaced: ask again */
    TAKE,             /* the new program of the link, its array */
    TAKEN,
};

/* One message of a socket of SOCK_SEQPACKET; both ends run on one machine. */
struct message {
    uint32_t kind, ifindex, generic, nservers;
    uint16_t udp, tcp; /* network order */
};

/* An attachment that others can share, or that waits for the next one. */
struct share_link {
    struct share_link *next;
    struct share *skel;
    struct loader_link *at; /* NULL: waits */
    int ifindex;
    bool used;            /* its mc_share is the program of a link, and others may need it there */
    int program, servers; /* the mc_share of another server, and its array; -1: none */
    time_t answered;      /* when the link was last handed out */
};

/* What the others have said. */
struct asked {
    struct {
        struct message message;
        int fds[FDS_MAX];
        unsigned int number;
    } each[SHARE_SERVERS];
    unsigned int n;
};

static time_t now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void close_all(const int *fds, size_t n)
{
    while (n > 0)
        if (fds[--n] >= 0)
            close(fds[n]);
}

/* The same of what others have sent, which may take long. */
static void discard(struct loader *loader, const int *fds, size_t n)
{
    while (n > 0)
        if (fds[--n] >= 0)
            closer_take(loader->attached->closer, fds[n]);
}

/* --- messages ------------------------------------------------------------------ */

static int send_message(int fd, const struct message *message, const int *fds, size_t nfds)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)message, sizeof(*message)};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};

    if (nfds) {
        packet.msg_control = &control;
        packet.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(nfds * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, nfds * sizeof(int));
    }
    return sendmsg(fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(*message) ? 0 : -EAGAIN;
}

/* fds[] are those that came, then -1. */
static int receive_message(struct loader *loader, int fd, struct message *message, int fds[FDS_MAX])
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(FDS_ROOM * sizeof(int))];
    } control;
    struct iovec part = {message, sizeof(*message)};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof(control)};
    const struct cmsghdr *header;
    int all[FDS_ROOM + 1];
    ssize_t n = recvmsg(fd, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    memset(all, 0xff, sizeof(all));
    header = n < 0 ? NULL : CMSG_FIRSTHDR(&packet);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        memcpy(all, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
    memcpy(fds, all, FDS_MAX * sizeof(int));
    discard(loader, all + FDS_MAX, FDS_ROOM + 1 - FDS_MAX);
    if (n == sizeof(*message) && all[FDS_MAX] < 0 && !(packet.msg_flags & (MSG_CTRUNC | MSG_TRUNC)))
        return 0;
    discard(loader, fds, FDS_MAX);
    return -EAGAIN;
}

static void fill_name(const struct loader *loader, struct sockaddr_un *name, unsigned int number)
{
    const struct attached *attached = loader->attached;

    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(name->sun_path, sizeof(name->sun_path), "%s/%" PRIu64 "-%u", attached->share_folder,
             attached->share_netns, number);
}

static int open_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    return fd < 0 ? -errno : fd;
}

/* --- this server's side ---------------------------------------------------------- */

/* The program of the link, by a descriptor of it; -1: one that is not known. */
static int program_of(struct loader *loader, const struct share_link *share)
{
    const int known[] = {loader_program_fd(loader, LOADER_XDP),
                         bpf_program__fd(share->skel->progs.mc_share), share->program};
    struct bpf_link_info info = {0};
    uint32_t ninfo = sizeof(info);
    size_t i;

    if (bpf_obj_get_info_by_fd(share->at->xdp, &info, &ninfo))
        return known[0];
    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i] >= 0 && info.prog_id == object_program_id(known[i]))
            return known[i];
    return -1;
}

/* The index of the interface that a link is attached to, 0: none, or no link of XDP. */
static int interface_of(int link)
{
    struct bpf_link_info info = {0};
    uint32_t ninfo = sizeof(info);

    return bpf_obj_get_info_by_fd(link, &info, &ninfo) || info.type != BPF_LINK_TYPE_XDP
               ? 0
               : (int)info.xdp.ifindex;
}

bool share_lives(struct loader *loader, const struct loader_link *link)
{
    const struct share_link *share = link->share;

    return interface_of(link->xdp) == link->ifindex &&
           (program_of(loader, share) >= 0 || now_s() - share->answered < CHANGING_S);
}

static struct share_link *find(struct loader *loader, uint32_t ifindex)
{
    struct share_link *each = loader->attached->shares;

    while (each && (!each->at || each->ifindex != (int)ifindex))
        each = each->next;
    return each;
}

static void say_ports(struct loader *loader, struct message *message)
{
    const struct mc_control *control = loader_control(loader);

    message->udp = (uint16_t)__atomic_load_n(&control->port, __ATOMIC_ACQUIRE);
    message->tcp = (uint16_t)__atomic_load_n(&control->tcp_port, __ATOMIC_ACQUIRE);
}

static void answer_ask(struct loader *loader, int fd, struct share_link *share,
                       struct message message)
{
    int fds[FDS_MAX];

    if (!share) {
        message.kind = ALONE;
        send_message(fd, &message, NULL, 0);
        return;
    }
    fds[0] = bpf_program__fd(share->skel->progs.mc_shared);
    fds[1] = share->at->xdp;
    fds[2] = program_of(loader, share);
    message.kind = fds[2] < 0 ? CHANGES : SHARES;
    message.generic = share->at->generic;
    say_ports(loader, &message);
    if (!send_message(fd, &message, fds, fds[2] < 0 ? 0 : FDS_MAX) && fds[2] >= 0)
        share->answered = now_s();
}

static void take(struct loader *loader, struct share_link *share, const struct message *message,
                 int fds[FDS_MAX])
{
    int before[] = {share->program, share->servers};

    share->program = fds[0];
    share->servers = fds[1];
    share->at->nservers = message->nservers;
    share->used = false;
    fds[0] = fds[1] = -1;
    discard(loader, before, 2);
}

/*
 * Whether a descriptor is an XDP program. The kernel loads these for processes with CAP_BPF and
 * CAP_NET_ADMIN alone, so who has one is no process without capabilities, whatever its user, and in
 * whatever namespaces it is. The array, which the kernel lets have XDP programs alone, tells it:
 * their bpf_prog_info cannot be told from the information about other objects.
 */
static bool is_xdp(const struct share_link *share, int fd)
{
    const int servers = bpf_map__fd(share->skel->maps.mc_servers);
    const uint32_t spare = SHARE_SERVERS;

    if (fd < 0 || prog_array_set(servers, spare, fd))
        return false;
    bpf_map_delete_elem(servers, &spare);
    return true;
}

/* Answers one request of a connection, if it is a server's. Returns how much work that was. */
static unsigned int answer(struct loader *loader, int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    struct share_link *share;
    struct message message;
    int fds[FDS_MAX];
    bool known;

    if (poll(&wait, 1, REQUEST_MS) <= 0)
        return WORK_WAIT;
    if (receive_message(loader, fd, &message, fds))
        return 1;
    share = find(loader, message.ifindex);
    known = !share || is_xdp(share, fds[0]);
    if (known && message.kind == ASK) {
        answer_ask(loader, fd, share, message);
    } else if (known && message.kind == TAKE) {
        if (share && fds[1] >= 0)
            take(loader, share, &message, fds);
        message.kind = TAKEN;
        send_message(fd, &message, NULL, 0);
    }
    discard(loader, fds, FDS_MAX);
    return 1;
}

/*
 * Whether in this second others have had what is done for them in one, or what they have sent is
 * not closed yet.
 */
static bool is_flooded(struct loader *loader)
{
    const time_t now = now_s();

    if (loader->attached->share_second != now)
        loader->attached->share_work = 0;
    loader->attached->share_second = now;
    return loader->attached->share_work >= WORK_MAX ||
           (loader->attached->closer && closer_pending(loader->attached->closer) >= PENDING_MAX);
}

int loader_listener(struct loader *loader)
{
    return !loader->attached || !loader->attached->share_listens || is_flooded(loader)
               ? -1
               : loader->attached->share_socket;
}

void loader_serve(struct loader *loader)
{
    int i, fd;

    for (i = 0; i < BACKLOG && !is_flooded(loader); i++) {
        fd = accept4(loader->attached->share_socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        loader->attached->share_work += answer(loader, fd);
        discard(loader, &fd, 1);
    }
}

/* Binds a socket to the first free name, for its owner. 0 or -errno. */
static int bind_free(struct loader *loader, int fd)
{
    struct sockaddr_un name;
    unsigned int number;

    for (number = 0; number < NUMBERS; number++) {
        fill_name(loader, &name, number);
        loader->attached->share_number = number;
        if (bind(fd, (const struct sockaddr *)&name, sizeof(name)) == 0)
            return 0;
        if (errno != EADDRINUSE)
            return -errno;
    }
    return -EADDRINUSE;
}

int loader_listen(struct loader *loader, const char *folder, gid_t group)
{
    struct attached *attached = attached_of(loader);
    int fd = attached ? open_socket() : -ENOMEM, rc;
    __u64 netns = 0;

    if (fd < 0)
        return fd;
    rc = loader_netns_cookie(&netns);
    snprintf(attached->share_folder, sizeof(attached->share_folder), "%s", folder);
    attached->share_netns = netns;
    attached->share_group = group;
    rc = rc ? rc : bind_free(loader, fd);
    attached->closer = rc ? NULL : closer_new();
    if (!attached->closer) {
        rc = rc ? rc : -EAGAIN;
        attached->share_number = 0;
        close(fd);
        return rc;
    }
    attached->share_socket = fd;
    return 0;
}

/* As long as programs are loaded no thread may change its credentials: see loader_wait. */
void share_open(struct loader *loader)
{
    struct attached *attached = loader->attached;
    struct sockaddr_un name;
    int before;

    if (!attached || attached->share_socket < 0 || attached->share_listens)
        return;
    fill_name(loader, &name, attached->share_number);
    /*
     * A member of the group may give it the socket; others need CAP_CHOWN, which units leave out.
     */
    before = setfsgid(attached->share_group);
    attached->share_listens = !chown(name.sun_path, (uid_t)-1, attached->share_group) &&
                              !chmod(name.sun_path, 0660) &&
                              !listen(attached->share_socket, BACKLOG);
    setfsgid((gid_t)before);
    if (!attached->share_listens) {
        close(attached->share_socket);
        attached->share_socket = -1;
    }
}

void loader_begin_to_serve(struct loader *loader)
{
    if (loader->attached && loader->attached->closer)
        closer_start(loader->attached->closer);
}

void loader_unlisten(struct loader *loader)
{
    if (!loader->attached)
        return;
    if (loader->attached->share_socket >= 0)
        discard(loader, &loader->attached->share_socket, 1); /* with the connections that wait */
    loader->attached->share_socket = -1;
    loader->attached->share_listens = false;
    closer_stop(loader->attached->closer);
    loader->attached->closer = NULL;
}

/* --- programs of TC ---------------------------------------------------------------- */

static void fill_shown(const struct loader *loader, uint32_t id, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/tc-%u", loader->attached->share_folder, id);
}

void share_show(struct loader *loader, enum loader_hook at)
{
    struct attached *attached = loader->attached;
    char path[PATH_MAX];
    struct sockaddr_un name;

    if (!attached || attached->share_socket < 0 || attached->share_shown[at])
        return;
    attached->share_shown[at] = true;
    fill_name(loader, &name, attached->share_number);
    fill_shown(loader, object_program_id(bpf_program__fd(loader->object.tc[at])), path);
    if (symlink(strrchr(name.sun_path, '/') + 1, path))
        return; /* the others do not know it by its id */
}

bool share_knows(const struct loader *loader, uint32_t id)
{
    char path[PATH_MAX];

    if (!loader->attached || loader->attached->share_socket < 0)
        return false;
    fill_shown(loader, id, path);
    return access(path, F_OK) == 0;
}

/* --- the other servers --------------------------------------------------------------- */

/* Waits until a descriptor is readable or the time is over; meanwhile serves others. */
static bool await(struct loader *loader, int fd, int ms)
{
    struct pollfd waits[] = {{.fd = fd, .events = POLLIN},
                             {.fd = loader_listener(loader), .events = POLLIN}};

    poll(waits, 2, ms);
    if (waits[1].revents)
        loader_serve(loader);
    return waits[0].revents != 0;
}

/*
 * Connects to a server; while as many connections wait there as can, tries again. 0, or -errno:
 * ENOENT: there is no such server, or it is of another user; ETIMEDOUT.
 */
static int reach(struct loader *loader, int fd, unsigned int number, time_t end)
{
    struct sockaddr_un name;

    fill_name(loader, &name, number);
    while (connect(fd, (const struct sockaddr *)&name, sizeof(name))) {
        if (errno != EAGAIN)
            return -ENOENT;
        if (now_s() > end)
            return -ETIMEDOUT;
        await(loader, -1, FULL_MS);
    }
    return 0;
}

/*
 * Sends a message to a server and receives the answer; meanwhile serves others, which may wait for
 * this one. 0, or -errno: ENOENT: there is no such server; EAGAIN: it has ended; ETIMEDOUT.
 */
static int ask(struct loader *loader, unsigned int number, struct message *message, const int *out,
               size_t nout, int fds[FDS_MAX])
{
    const time_t end = now_s() + ANSWER_S;
    int fd = open_socket(), rc;

    if (fd < 0)
        return fd;
    rc = reach(loader, fd, number, end);
    rc = rc ? rc : send_message(fd, message, out, nout);
    while (!rc && !await(loader, fd, ANSWER_S * 1000))
        rc = now_s() <= end ? 0 : -ETIMEDOUT;
    rc = rc ? rc : receive_message(loader, fd, message, fds);
    close(fd);
    return rc;
}

/* Asks all. 0, or -EAGAIN: the answers are not of one moment, or there is none yet. */
static int ask_all(struct loader *loader, const struct share_link *share, struct asked *all)
{
    const int own = bpf_program__fd(share->skel->progs.mc_shared), ifindex = share->ifindex;
    const time_t end = now_s() + ANSWERS_S;
    bool silent = false;
    unsigned int number;
    int rc = 0;

    for (number = 0; rc != -EAGAIN && number < NUMBERS && all->n < SHARE_SERVERS; number++) {
        struct message *message = &all->each[all->n].message;
        int *fds = all->each[all->n].fds;

        if (number == loader->attached->share_number)
            continue;
        *message = (struct message){.kind = ASK, .ifindex = (uint32_t)ifindex};
        rc = ask(loader, number, message, &own, 1, fds);
        silent |= rc == -ETIMEDOUT;
        if (rc)
            continue;
        all->each[all->n].number = number;
        if (message->kind == SHARES && fds[2] >= 0 && interface_of(fds[1]) == ifindex)
            all->n++;
        else
            close_all(fds, FDS_MAX);
        if (message->kind == CHANGES)
            rc = -EAGAIN;
    }
    return rc == -EAGAIN || (silent && !all->n) || now_s() > end ? -EAGAIN : 0;
}

/* Whether this server can be one of them. 0 or -errno. */
static int judge(struct loader *loader, const struct asked *all, bool generic)
{
    struct message own = {0};
    unsigned int i;

    if (!all->n || all->n >= SHARE_SERVERS || all->each[0].message.generic != generic)
        return -EBUSY;
    say_ports(loader, &own);
    for (i = 0; i < all->n; i++)
        if ((own.udp && own.udp == all->each[i].message.udp) ||
            (own.tcp && own.tcp == all->each[i].message.tcp))
            return -EADDRINUSE;
    return 0;
}

/* Makes the program of this server call all of them, and itself. 0 or -errno. */
static int fill(struct loader *loader, struct share_link *share, const struct asked *all)
{
    int servers = bpf_map__fd(share->skel->maps.mc_servers), rc = 0;
    struct share_ports *ports = &share->skel->bss->share_ports;
    struct message own;
    uint32_t i;

    say_ports(loader, &own);
    memset(ports, 0, sizeof(*ports));
    for (i = 0; !rc && i < all->n; i++) {
        rc = prog_array_set(servers, i, all->each[i].fds[0]);
        ports->udp[i] = all->each[i].message.udp;
        ports->tcp[i] = all->each[i].message.tcp;
    }
    if (!rc)
        rc = prog_array_set(servers, i, bpf_program__fd(share->skel->progs.mc_shared));
    ports->udp[i] = own.udp;
    ports->tcp[i] = own.tcp;
    for (i++; i < SHARE_SERVERS; i++)
        bpf_map_delete_elem(servers, &i);
    return rc;
}

/* Makes the program of this server that of the link. 0, or -EAGAIN: another one has. */
static int replace(const struct share_link *share, const struct asked *all)
{
    LIBBPF_OPTS(bpf_link_update_opts, opts, .flags = BPF_F_REPLACE,
                .old_prog_fd = (uint32_t)all->each[0].fds[2]);

    return bpf_link_update(all->each[0].fds[1], bpf_program__fd(share->skel->progs.mc_share), &opts)
               ? -EAGAIN
               : 0;
}

/* Hands the new program to the others: its array is emptied when its last holder lets it go. */
static void tell_all(struct loader *loader, const struct share_link *share, const struct asked *all)
{
    const int out[] = {bpf_program__fd(share->skel->progs.mc_share),
                       bpf_map__fd(share->skel->maps.mc_servers)};
    unsigned int i;

    for (i = 0; i < all->n; i++) {
        struct message message = {
            .kind = TAKE, .ifindex = (uint32_t)share->ifindex, .nservers = all->n + 1};
        int fds[FDS_MAX] = {-1, -1, -1};

        ask(loader, all->each[i].number, &message, out, 2, fds);
        close_all(fds, FDS_MAX);
    }
}

/* --- attaching ----------------------------------------------------------------------- */

static struct share *load(void)
{
    struct share *skel = share__open();
    struct bpf_program *each;

    if (!skel)
        return NULL;
    bpf_object__for_each_program(each, skel->obj) bpf_program__set_flags(each, BPF_F_XDP_HAS_FRAGS);
    if (!share__load(skel))
        return skel;
    share__destroy(skel);
    return NULL;
}

/*
 * One that waits, whose program no link of another interface has, or a new one; later this process
 * may not load programs. NULL: there is none.
 */
static struct share_link *get(struct loader *loader, int ifindex)
{
    struct share_link *each = loader->attached->shares;

    while (each && (each->at || (each->used && each->ifindex != ifindex)))
        each = each->next;
    if (!each) {
        each = calloc(1, sizeof(*each));
        if (!each)
            return NULL;
        *each = (struct share_link){.skel = load(), .program = -1, .servers = -1};
        if (!each->skel) {
            free(each);
            return NULL;
        }
        each->next = loader->attached->shares;
        loader->attached->shares = each;
    }
    each->ifindex = ifindex;
    return each;
}

/* This server is called from now on. 0 or -errno. */
static int begin(struct loader *loader, struct share_link *share, struct loader_link *link)
{
    int rc = prog_array_set(bpf_map__fd(share->skel->maps.mc_prog_array), 0,
                            loader_program_fd(loader, LOADER_XDP));

    if (rc)
        return rc;
    share->at = link;
    link->share = share;
    return 0;
}

void share_begin(struct loader *loader, struct loader_link *link)
{
    struct share_link *share =
        loader->attached->share_socket < 0 ? NULL : get(loader, link->ifindex);

    if (share)
        begin(loader, share, link);
}

int share_join(struct loader *loader, struct loader_link *link, bool generic)
{
    struct share_link *share =
        loader->attached->share_socket < 0 ? NULL : get(loader, link->ifindex);
    struct asked all = {0};
    unsigned int i;
    int rc;

    if (!share)
        return -EBUSY;
    rc = ask_all(loader, share, &all);
    rc = rc ? rc : judge(loader, &all, generic);
    rc = rc ? rc : fill(loader, share, &all);
    rc = rc ? rc : begin(loader, share, link);
    rc = rc ? rc : replace(share, &all);
    if (!rc) {
        share->used = true;
        link->xdp = all.each[0].fds[1];
        link->generic = generic;
        link->nservers = all.n + 1;
        all.each[0].fds[1] = -1;
        tell_all(loader, share, &all);
    } else {
        share_end(link);
    }
    for (i = 0; i < all.n; i++)
        close_all(all.each[i].fds, FDS_MAX);
    return rc;
}

void share_end(struct loader_link *link)
{
    struct share_link *share = link->share;
    const uint32_t zero = 0;

    if (!share)
        return;
    if (link->xdp >= 0 && !interface_of(link->xdp))
        share->used = false;
    bpf_map_delete_elem(bpf_map__fd(share->skel->maps.mc_prog_array), &zero);
    close_all((int[]){share->program, share->servers}, 2);
    share->program = share->servers = -1;
    share->at = NULL;
    link->share = NULL;
    link->nservers = 0;
}

void share_free(struct loader *loader)
{
    struct share_link *each;

    loader_unlisten(loader);
    while ((each = loader->attached->shares)) {
        loader->attached->shares = each->next;
        share__destroy(each->skel);
        free(each);
    }
}
