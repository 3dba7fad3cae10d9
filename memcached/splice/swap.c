/* SPDX-License-Identifier: BSD-3-Clause */
#include "splice/swap.h"

#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "splice/repair.h"

/* Since Linux 5.1 and 5.14; headers may be older. */
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif

enum {
    ESTABLISHED = 1, /* states, as netinet/tcp.h has them, which contradicts linux/tcp.h */
    FIN_WAIT1 = 4,
    CLOSE_WAIT = 8,
    LAST_ACK = 9,
    CLOSING = 11,
    OPTION_MSS = 2, /* kinds of TCP's options */
    OPTION_WINDOW = 3,
    OPTION_SACK = 4,
    OPTION_TIMESTAMP = 8,
    READ_TRIES = 4,
    QUEUE_MAX = 1 << 26,   /* bytes of a queue that is taken over */
    SEGMENT_MAX = 1 << 16, /* what the socket keeps of a segment that is acknowledged in part */
    MSS_MIN = 88,          /* that TCP_MAXSEG takes, and the most */
    MSS_MAX = 32767,
    PART = 1 << 15, /* bytes that are put into a receive queue at a time */
    CLOCK_STEP = 2, /* milliseconds: later than the old socket's clock, of which Linux reports all
                       but the lowest bit since 6.7: there that says in which unit it counts */
};

/* What changes as segments come and go; numbers are the old socket's. */
struct numbers {
    uint32_t rcv_nxt, write_seq;
    int unread, unacked, unsent; /* `unacked` includes `unsent` */
};

struct end {
    struct sockaddr_storage name;
    socklen_t n;
};

struct swap {
    const struct swap_plan *plan;
    int old, fd;             /* fd: the new one */
    int interface;           /* that the old one was bound to; 0: none */
    struct end peer;         /* the client */
    bool is_frozen;          /* the entry */
    bool is_aside;           /* the old socket */
    bool has_ended;          /* it has, with an end of the stream that is not acknowledged */
    bool peer_has_ended;     /* the client has */
    struct mc_tcp_conn conn; /* of the entry; without one all 0 */
    const char *kept;
    struct numbers at;
    struct tcp_info info;
    struct tcp_repair_window window;
    uint32_t timestamp;
    int mss;
    char *unread, *queue; /* what the client has sent, what the server has sent; malloc */
    const char *sending;  /* in `queue`: what the client has not acknowledged, */
    size_t nsending;      /* bytes, */
    size_t nflying;       /* of which it may have these */
    uint32_t una;         /* where on the wire the new socket's queue begins */
    int sndbuf, rcvbuf;   /* of the old one */
};

static int set_int(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value)) ? -errno : 0;
}

static int get(int fd, int level, int option, void *value, socklen_t n)
{
    return getsockopt(fd, level, option, value, &n) ? -errno : 0;
}

/* --- before anything is stopped ------------------------------------------------------------- */

/*
 * 0, or -EAGAIN: a state that the new socket cannot have. It can only be established: the server's
 * end it sends once more, and the client's, which it has no place for, it is told as a shutdown.
 */
static int check_state(struct swap *swap)
{
    int rc = get(swap->old, IPPROTO_TCP, TCP_INFO, &swap->info, sizeof(swap->info));
    uint8_t state = swap->info.tcpi_state;

    swap->has_ended = state == FIN_WAIT1 || state == CLOSING || state == LAST_ACK;
    swap->peer_has_ended = state == CLOSE_WAIT || state == CLOSING || state == LAST_ACK;
    return rc ? rc : state == ESTABLISHED || swap->has_ended || swap->peer_has_ended ? 0 : -EAGAIN;
}

static int repair(struct swap *swap)
{
    int rc = set_tcp(swap->old, TCP_REPAIR, TCP_REPAIR_ON);

    return rc ? rc : check_state(swap);
}

/*
 * Gives the new socket the old one's options. One that it lacks (of IPv6, ...) the other lacks too.
 * IP_TOS sets the priority as well, so it is before that.
 */
static int carry_options(const struct swap *swap)
{
    static const struct {
        int level, option;
    } carried[] = {
        {IPPROTO_IP, IP_TOS},        {IPPROTO_IPV6, IPV6_TCLASS},
        {SOL_SOCKET, SO_PRIORITY},   {SOL_SOCKET, SO_MARK},
        {SOL_SOCKET, SO_LINGER},     {SOL_SOCKET, SO_KEEPALIVE},
        {IPPROTO_TCP, TCP_KEEPIDLE}, {IPPROTO_TCP, TCP_KEEPINTVL},
        {IPPROTO_TCP, TCP_KEEPCNT},  {IPPROTO_TCP, TCP_USER_TIMEOUT},
        {IPPROTO_TCP, TCP_NODELAY},  {IPPROTO_TCP, TCP_CONGESTION},
    };
    char value[64];
    socklen_t n;
    size_t i;

    for (i = 0; i < sizeof(carried) / sizeof(carried[0]); i++) {
        n = sizeof(value);
        if (!getsockopt(swap->old, carried[i].level, carried[i].option, value, &n) &&
            setsockopt(swap->fd, carried[i].level, carried[i].option, value, n))
            return -errno;
    }
    return 0;
}

/*
 * The largest segment that the client takes. TCP_REPAIR_OPTIONS sets it too, but not what the
 * socket has already derived from it.
 */
static int carry_mss(struct swap *swap)
{
    int rc = get(swap->old, IPPROTO_TCP, TCP_MAXSEG, &swap->mss, sizeof(swap->mss));
    int mss = swap->mss < MSS_MIN ? MSS_MIN : swap->mss > MSS_MAX ? MSS_MAX : swap->mss;

    return rc ? rc : set_tcp(swap->fd, TCP_MAXSEG, mss);
}

/* Binds the new socket to the old one's address, which only one that is repaired gets. */
static int bind_new(struct swap *swap)
{
    struct end own = {.n = sizeof(own.name)};
    int rc;

    if (getsockname(swap->old, (struct sockaddr *)&own.name, &own.n))
        return -errno;
    swap->fd = socket(own.name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (swap->fd < 0)
        return -errno;
    rc = set_tcp(swap->fd, TCP_REPAIR, TCP_REPAIR_ON);
    if (!rc && own.name.ss_family == AF_INET6) /* so that it takes ::ffff:1.2.3.4 */
        rc = set_int(swap->fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (!rc && swap->interface)
        rc = set_int(swap->fd, SOL_SOCKET, SO_BINDTOIFINDEX, swap->interface);
    if (!rc && bind(swap->fd, (const struct sockaddr *)&own.name, own.n))
        rc = -errno;
    return rc;
}

int swap_deafen(int fd)
{
    struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog program = {.len = 1, .filter = code};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ? -errno : 0;
}

/* A link-local client's name has the interface, so it is read before that changes. */
static int prepare(struct swap *swap)
{
    int rc = get(swap->old, SOL_SOCKET, SO_BINDTOIFINDEX, &swap->interface, sizeof(int));

    swap->peer.n = sizeof(swap->peer.name);
    if (!rc && getpeername(swap->old, (struct sockaddr *)&swap->peer.name, &swap->peer.n))
        rc = -errno;
    rc = rc ? rc : get(swap->old, SOL_SOCKET, SO_SNDBUF, &swap->sndbuf, sizeof(int));
    rc = rc ? rc : get(swap->old, SOL_SOCKET, SO_RCVBUF, &swap->rcvbuf, sizeof(int));
    rc = rc ? rc : bind_new(swap);
    rc = rc ? rc : carry_options(swap);
    rc = rc ? rc : carry_mss(swap);
    return rc ? rc : swap_deafen(swap->fd);
}

/* --- the old socket --------------------------------------------------------------------------- */

static int freeze(struct swap *swap)
{
    struct swap_entry *entry = swap->plan->entry;
    int rc = entry ? entry->freeze(entry, &swap->conn, &swap->kept) : 0;

    swap->is_frozen = entry && !rc;
    return rc;
}

static int step_aside(struct swap *swap)
{
    int rc = set_int(swap->old, SOL_SOCKET, SO_BINDTOIFINDEX, MC_TCP_ASIDE);

    swap->is_aside = !rc;
    return rc;
}

static int read_numbers(int fd, struct numbers *out)
{
    int rc = set_tcp(fd, TCP_REPAIR_QUEUE, TCP_RECV_QUEUE);

    rc = rc ? rc : get(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &out->rcv_nxt, sizeof(out->rcv_nxt));
    rc = rc ? rc : set_tcp(fd, TCP_REPAIR_QUEUE, TCP_SEND_QUEUE);
    rc = rc ? rc : get(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &out->write_seq, sizeof(out->write_seq));
    if (!rc && (ioctl(fd, SIOCINQ, &out->unread) || ioctl(fd, SIOCOUTQ, &out->unacked) ||
                ioctl(fd, SIOCOUTQNSD, &out->unsent)))
        rc = -errno;
    return rc;
}

/*
 * Whether the client has sent urgent data that were not read: until then Linux reports only what is
 * before these, and a queue that is taken over does not have the mark.
 */
static bool has_urgent(const struct swap *swap)
{
    int all = 0, on = 0;

    get(swap->old, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
    set_int(swap->old, SOL_SOCKET, SO_OOBINLINE, 1);
    ioctl(swap->old, SIOCINQ, &all);
    set_int(swap->old, SOL_SOCKET, SO_OOBINLINE, on);
    return all != swap->at.unread;
}

/*
 * Reads a queue that has n bytes, with `more` before them at the most, into *out. *begin: where the
 * n bytes are. 0, or -errno; -EAGAIN: it has changed.
 */
static int read_queue(int fd, int queue, size_t n, size_t more, char **out, const char **begin)
{
    ssize_t got;
    int rc = set_tcp(fd, TCP_REPAIR_QUEUE, queue);

    free(*out);
    *out = NULL;
    *begin = NULL;
    if (rc || n == 0)
        return rc;
    if (n > QUEUE_MAX)
        return -ENOBUFS;
    *out = malloc(n + more);
    if (!*out)
        return -ENOMEM;
    got = recv(fd, *out, n + more, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0)
        return -errno;
    if ((size_t)got < n)
        return -EAGAIN;
    *begin = *out + ((size_t)got - n);
    return 0;
}

/* Reads numbers and queues once. -EAGAIN: they change. */
static int read_once(struct swap *swap)
{
    struct numbers *at = &swap->at, after;
    const char *unread;
    int rc = read_numbers(swap->old, at);

    rc = rc ? rc
            : read_queue(swap->old, TCP_RECV_QUEUE, (size_t)at->unread, 0, &swap->unread, &unread);
    rc = rc ? rc
            : read_queue(swap->old, TCP_SEND_QUEUE, (size_t)at->unacked - swap->has_ended,
                         SEGMENT_MAX, &swap->queue, &swap->sending);
    rc = rc ? rc
            : get(swap->old, IPPROTO_TCP, TCP_REPAIR_WINDOW, &swap->window, sizeof(swap->window));
    rc = rc ? rc : read_numbers(swap->old, &after);
    return rc ? rc : memcmp(at, &after, sizeof(after)) == 0 ? 0 : -EAGAIN;
}

/*
 * What of the send queue the new socket gets. Before the kernel's replies all is acknowledged,
 * which the old socket may not know: a firewall may drop what tells it. Of other acknowledgements
 * it alone knows which are true: the programs have noted those of damaged segments as well.
 */
static void count(struct swap *swap)
{
    const struct mc_tcp_delta *delta = &swap->conn.delta;
    uint32_t una = swap->at.write_seq - (uint32_t)swap->at.unacked, acked = una;
    size_t skip, flying = (size_t)(swap->at.unacked - swap->at.unsent);
    size_t queued = (size_t)swap->at.unacked - swap->has_ended;

    if (delta->rx | delta->tx)
        acked = delta->reply - (delta->tx - delta->nreply);
    skip = acked - una <= queued ? acked - una : 0;
    swap->una = delta->nreply ? delta->reply : una + (uint32_t)skip + delta->tx;
    swap->sending += skip;
    swap->nsending = queued - skip;
    flying = flying < queued ? flying : queued;
    swap->nflying = flying > skip ? flying - skip : 0;
}

static int read_old(struct swap *swap)
{
    const bool had_ended = swap->has_ended;
    int tries = 0, rc;

    do
        rc = read_once(swap);
    while (rc == -EAGAIN && ++tries < READ_TRIES);
    rc = rc ? rc
            : get(swap->old, IPPROTO_TCP, TCP_TIMESTAMP, &swap->timestamp, sizeof(swap->timestamp));
    rc = rc ? rc : check_state(swap);
    if (!rc && (swap->has_ended != had_ended ||
                (swap->at.unread && (swap->peer_has_ended || has_urgent(swap)))))
        rc = -EAGAIN;
    if (!rc)
        count(swap);
    return rc;
}

/* --- the new one ------------------------------------------------------------------------------ */

/* The clock of the wire's timestamps, in the unit of the old socket's. */
static uint32_t wire_clock(const struct swap *swap)
{
    bool answered = (swap->conn.delta.rx | swap->conn.delta.tx) != 0;

    return swap->timestamp + CLOCK_STEP + (answered ? (uint32_t)MC_TCP_AHEAD : 0);
}

/* Sends nothing, since it is repaired. */
static int connect_new(struct swap *swap)
{
    uint32_t received = swap->at.rcv_nxt + swap->conn.delta.rx - (uint32_t)swap->at.unread;
    int rc = set_queue(swap->fd, TCP_SEND_QUEUE, swap->una);

    rc = rc ? rc : set_queue(swap->fd, TCP_RECV_QUEUE, received);
    if (!rc && swap->info.tcpi_options & TCPI_OPT_TIMESTAMPS)
        rc = set_tcp(swap->fd, TCP_TIMESTAMP, (int)wire_clock(swap));
    if (!rc && connect(swap->fd, (const struct sockaddr *)&swap->peer.name, swap->peer.n))
        rc = -errno;
    return rc;
}

/*
 * What was agreed in the handshake. Without window scaling as well: connect() has chosen a scale,
 * which only this takes back.
 */
static int restore_options(const struct swap *swap)
{
    const struct tcp_info *info = &swap->info;
    struct tcp_repair_opt options[4];
    socklen_t n = 0;

    options[n++] = (struct tcp_repair_opt){OPTION_MSS, (uint32_t)swap->mss};
    options[n++] = (struct tcp_repair_opt){
        OPTION_WINDOW, info->tcpi_options & TCPI_OPT_WSCALE
                           ? info->tcpi_snd_wscale | (uint32_t)info->tcpi_rcv_wscale << 16
                           : 0};
    if (info->tcpi_options & TCPI_OPT_SACK)
        options[n++] = (struct tcp_repair_opt){OPTION_SACK, 0};
    if (info->tcpi_options & TCPI_OPT_TIMESTAMPS)
        options[n++] = (struct tcp_repair_opt){OPTION_TIMESTAMP, 0};
    n *= (socklen_t)sizeof(options[0]);
    return setsockopt(swap->fd, IPPROTO_TCP, TCP_REPAIR_OPTIONS, options, n) ? -errno : 0;
}

/* A buffer that is as large as `least`, and has room for n bytes in small segments. */
static int make_room(int fd, int option, int force, int least, size_t n)
{
    int now = 0, wanted = (int)(4 * n) > least ? (int)(4 * n) : least;
    int rc = get(fd, SOL_SOCKET, option, &now, sizeof(now));

    if (rc || now >= wanted)
        return rc;
    return set_int(fd, SOL_SOCKET, force, wanted / 2 + 1); /* Linux doubles it */
}

/* All of a queue, in parts; in a socket that is repaired nothing is sent. */
static int fill_queue(int fd, const char *text, size_t n, size_t part)
{
    ssize_t sent;

    while (n > 0) {
        sent = send(fd, text, n < part ? n : part, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent <= 0)
            return sent ? -errno : -EAGAIN;
        text += sent;
        n -= (size_t)sent;
    }
    return 0;
}

/* The send queue gets only what may have been sent: else Linux would believe that all was. */
static int restore_queues(const struct swap *swap)
{
    size_t nkept = swap->conn.delta.nreply, unread = (size_t)swap->at.unread;
    int rc = make_room(swap->fd, SO_RCVBUF, SO_RCVBUFFORCE, swap->rcvbuf, unread);

    rc = rc ? rc
            : make_room(swap->fd, SO_SNDBUF, SO_SNDBUFFORCE, swap->sndbuf, nkept + swap->nsending);
    rc = rc ? rc : set_tcp(swap->fd, TCP_REPAIR_QUEUE, TCP_RECV_QUEUE);
    rc = rc ? rc : fill_queue(swap->fd, swap->unread, unread, PART);
    rc = rc ? rc : set_tcp(swap->fd, TCP_REPAIR_QUEUE, TCP_SEND_QUEUE);
    rc = rc ? rc : fill_queue(swap->fd, swap->kept, nkept, nkept);
    return rc ? rc : fill_queue(swap->fd, swap->sending, swap->nflying, swap->nflying);
}

/*
 * The largest window that the socket may offer, which Linux sets when it connects and makes larger
 * only together with the buffer; and the present one. Linux up to 6.1 takes the former for the
 * present one, too, if that is smaller, so it is set first.
 */
static int restore_window(const struct swap *swap)
{
    struct tcp_repair_window window = swap->window;
    uint32_t rcv_nxt = swap->at.rcv_nxt + swap->conn.delta.rx;
    int most = 0;
    int rc = get(swap->old, IPPROTO_TCP, TCP_WINDOW_CLAMP, &most, sizeof(most));

    rc = rc ? rc : set_tcp(swap->fd, TCP_WINDOW_CLAMP, most);
    if (rc)
        return rc;
    window.snd_wl1 += swap->conn.delta.rx;
    window.rcv_wup += swap->conn.delta.rx;
    if ((int32_t)(window.rcv_wup - rcv_nxt) > 0)
        window.rcv_wup = rcv_nxt;
    return setsockopt(swap->fd, IPPROTO_TCP, TCP_REPAIR_WINDOW, &window, sizeof(window)) ? -errno
                                                                                         : 0;
}

/*
 * Until it has its queues the new socket gets nothing. The client may send unread bytes again, by a
 * way without the programs, which drop what they see of a frozen entry: taken before the old
 * socket's are put there they would be there twice.
 */
static int hear(const struct swap *swap)
{
    if (swap->plan->filter < 0)
        return set_int(swap->fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
    return set_int(swap->fd, SOL_SOCKET, SO_ATTACH_BPF, swap->plan->filter);
}

static int restore(struct swap *swap)
{
    int rc = restore_options(swap);

    rc = rc ? rc : restore_queues(swap);
    rc = rc ? rc : restore_window(swap);
    return rc ? rc : hear(swap);
}

static int remove_entry(struct swap *swap)
{
    struct swap_entry *entry = swap->plan->entry;
    int rc = entry ? entry->remove(entry) : 0;

    swap->is_frozen &= rc != 0;
    return rc;
}

/* What was never sent, as an application sends it, whatever limits how much may wait unsent. */
static int send_rest(const struct swap *swap)
{
    int limit = 0, rc;

    if (swap->nflying == swap->nsending)
        return 0;
    rc = get(swap->old, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &limit, sizeof(limit));
    rc = rc ? rc : set_tcp(swap->fd, TCP_NOTSENT_LOWAT, INT_MAX);
    rc = rc ? rc
            : fill_queue(swap->fd, swap->sending + swap->nflying, swap->nsending - swap->nflying,
                         swap->nsending);
    return rc ? rc : set_tcp(swap->fd, TCP_NOTSENT_LOWAT, limit);
}

/* The new socket ends in the directions in which the old one had. */
static int end_alike(const struct swap *swap)
{
    if (swap->has_ended && shutdown(swap->fd, SHUT_WR))
        return -errno;
    return swap->peer_has_ended && shutdown(swap->fd, SHUT_RD) ? -errno : 0;
}

/* A buffer that was made larger for a queue. */
static int shrink(int fd, int option, int force, int size)
{
    int now = 0, rc = get(fd, SOL_SOCKET, option, &now, sizeof(now));

    return rc || now <= size ? rc : set_int(fd, SOL_SOCKET, force, size / 2);
}

/*
 * The old socket's end is silent. That of the repair sends a probe, which tells the client what was
 * received; and it leaves a socket beside which no other gets the address, so that no server could
 * be started again.
 */
static int finish(struct swap *swap)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    int rc;

    connect(swap->old, &none, sizeof(none));
    rc = set_tcp(swap->fd, TCP_REPAIR, TCP_REPAIR_OFF);
    rc = rc ? rc : set_int(swap->fd, SOL_SOCKET, SO_REUSEADDR, 1);
    rc = rc ? rc : send_rest(swap);
    rc = rc ? rc : end_alike(swap);
    rc = rc ? rc : shrink(swap->fd, SO_SNDBUF, SO_SNDBUFFORCE, swap->sndbuf);
    rc = rc ? rc : shrink(swap->fd, SO_RCVBUF, SO_RCVBUFFORCE, swap->rcvbuf);
    return rc ? rc : set_int(swap->fd, SOL_SOCKET, SO_BUF_LOCK, 0);
}

/* --- in order --------------------------------------------------------------------------------- */

static const struct {
    int (*take)(struct swap *);
    const char *text;
} steps[] = {
    [SWAP_REPAIR] = {repair, "repair a TCP socket"},
    [SWAP_PREPARE] = {prepare, "make a socket like it"},
    [SWAP_FREEZE] = {freeze, "freeze the connection's entry"},
    [SWAP_ASIDE] = {step_aside, "bind the old socket to an interface"},
    [SWAP_READ] = {read_old, "read its queues"},
    [SWAP_CONNECT] = {connect_new, "connect the new socket"},
    [SWAP_RESTORE] = {restore, "restore its queues"},
    [SWAP_REMOVE] = {remove_entry, "remove the connection's entry"},
    [SWAP_FINISH] = {finish, "let the new socket send"},
};

const char *swap_step_text(enum swap_step step)
{
    return steps[step].text ? steps[step].text : "use its socket";
}

void swap_reset(int fd)
{
    const struct linger now = {.l_onoff = 1};

    set_tcp(fd, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(fd);
}

/*
 * Back to the old socket. The end of its repair sends a probe, which makes up for what it could not
 * send. False: it stays aside.
 */
static bool go_back(struct swap *swap)
{
    int rc = 0;

    if (swap->fd >= 0)
        close(swap->fd); /* silent, since it is repaired */
    if (swap->is_aside)
        rc = set_int(swap->old, SOL_SOCKET, SO_BINDTOIFINDEX, swap->interface);
    if (swap->is_frozen)
        swap->plan->entry->thaw(swap->plan->entry);
    if (!rc)
        set_tcp(swap->old, TCP_REPAIR, TCP_REPAIR_OFF);
    return !rc;
}

/* Whether what failed may succeed later. */
static bool may_pass(enum swap_step step, int error)
{
    switch (error) {
    case EINVAL: /* a route of the type blackhole, */
    case EACCES: /* prohibit */
        return step == SWAP_CONNECT;
    case EAGAIN:
    case ENOMEM:
    case ENOBUFS:
    case EMFILE:
    case ENFILE:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
        return true;
    default:
        return false;
    }
}

static enum swap_result give_up(struct swap *swap, const struct swapped *out)
{
    if (out->step == SWAP_FINISH) {
        swap_reset(swap->fd);
        return SWAP_LOST;
    }
    if (!go_back(swap))
        return SWAP_LOST;
    return may_pass(out->step, out->error) ? SWAP_NOT_NOW : SWAP_FAILED;
}

enum swap_result swap_socket(int old, const struct swap_plan *plan, struct swapped *out)
{
    struct swap swap = {.plan = plan, .old = old, .fd = -1};
    enum swap_result result = SWAP_DONE;
    int rc = 0;

    *out = (struct swapped){.fd = -1, .step = SWAP_NONE};
    while (!rc && out->step < SWAP_FINISH) {
        out->step++;
        rc = out->step == plan->fails ? -EIO : steps[out->step].take(&swap);
    }
    out->error = -rc;
    if (rc) {
        result = give_up(&swap, out);
    } else {
        out->fd = swap.fd;
        out->nsent = (uint32_t)(swap.conn.delta.nreply + swap.nsending);
    }
    free(swap.unread);
    free(swap.queue);
    return result;
}
