/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "bpf/layout.h"
#include "command/command.h"
#include "net/socket.h"
#include "net/tell.h"

enum {
    BATCH = 32,           /* datagrams in one system call */
    ROUNDS = 4,           /* batches before it is the connections' turn */
    DATAGRAM_MAX = 65536, /* the longest request */
    REPLY_PART = MC_UDP_PAYLOAD - MC_UDP_HEADER,
    REPLY_IOVS = 64,
    SEND_PATIENCE_MS = 20, /* for a full socket; then the replies are lost, as UDP may */
};

union control {
    struct cmsghdr header; /* for its alignment */
    char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

struct udp {
    struct endpoint endpoint;
    struct command_client client;
    struct worker *worker;
    struct udp *next, **link;
    struct event *event;
    bool any; /* replies say which address they leave from */

    struct mmsghdr in[BATCH];
    struct iovec in_iov[BATCH];
    struct sockaddr_storage peers[BATCH];
    union control in_control[BATCH];
    char *requests; /* BATCH times DATAGRAM_MAX */

    struct mmsghdr out[BATCH];
    struct iovec out_iov[BATCH];
    unsigned int nout;
    char replies[BATCH][MC_UDP_PAYLOAD];
};

size_t udp_ndatagrams(size_t nbytes)
{
    size_t n = (nbytes + REPLY_PART - 1) / REPLY_PART;

    return n <= UINT16_MAX ? n : 0;
}

/* --- replies ----------------------------------------------------------- */

static void send_batch(struct udp *udp)
{
    unsigned int n = 0;

    while (n < udp->nout) {
        int sent = sendmmsg(udp->endpoint.fd, udp->out + n, udp->nout - n, MSG_NOSIGNAL);

        if (sent > 0) {
            n += (unsigned int)sent;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            struct pollfd wait = {udp->endpoint.fd, POLLOUT, 0};

            if (poll(&wait, 1, SEND_PATIENCE_MS) <= 0) {
                break;
            }
        } else if (errno != EINTR) {
            n++; /* this one cannot be sent: its peer is unreachable, or not an address */
        }
    }
    udp->nout = 0;
}

/* The next free datagram, addressed to the sender of request `r`. */
static char *next_reply(struct udp *udp, unsigned int r, size_t len)
{
    unsigned int n;

    if (udp->nout == BATCH) {
        send_batch(udp);
    }
    n = udp->nout++;
    udp->out_iov[n].iov_len = len;
    udp->out[n].msg_hdr.msg_name = &udp->peers[r];
    udp->out[n].msg_hdr.msg_namelen = udp->in[r].msg_hdr.msg_namelen;
    udp->out[n].msg_hdr.msg_control = udp->any ? &udp->in_control[r] : NULL;
    udp->out[n].msg_hdr.msg_controllen = udp->any ? udp->in[r].msg_hdr.msg_controllen : 0;
    return udp->replies[n];
}

/* Copies `limit` bytes at `skip` of the reply: it does not outlive its command. */
static void copy_reply(char *to, const struct reply *reply, size_t skip, size_t limit)
{
    struct iovec iov[REPLY_IOVS];

    while (limit > 0) {
        size_t n = reply_iov(reply, skip, limit, iov, REPLY_IOVS);

        for (size_t i = 0; i < n; i++) {
            memcpy(to, iov[i].iov_base, iov[i].iov_len);
            to += iov[i].iov_len;
            skip += iov[i].iov_len;
            limit -= iov[i].iov_len;
        }
    }
}

/* Of either protocol: a reply in binary begins with a byte that text never has. */
static void log_bytes(const struct udp *udp, char direction, struct slice bytes)
{
    if (bytes.len > 0 && (unsigned char)bytes.ptr[0] >= 0x80) {
        log_binary(direction, udp->endpoint.fd, bytes);
    } else {
        log_traffic(direction, udp->endpoint.fd, bytes);
    }
}

/* The worker's reply becomes one message to the sender of request `r`. */
static void answer(struct udp *udp, unsigned int r, uint16_t id)
{
    struct reply *reply = &udp->worker->reply;
    size_t ndatagrams = reply->failed ? 0 : udp_ndatagrams(reply->nbytes);
    struct udp_frame frame = {.id = id, .count = (uint16_t)ndatagrams};

    for (size_t i = 0; i < ndatagrams; i++) {
        size_t skip = i * REPLY_PART;
        size_t len = reply->nbytes - skip < REPLY_PART ? reply->nbytes - skip : REPLY_PART;
        char *out = next_reply(udp, r, MC_UDP_HEADER + len);

        frame.sequence = (uint16_t)i;
        proto_render_frame(out, &frame);
        copy_reply(out + MC_UDP_HEADER, reply, skip, len);
        count_add(&udp->worker->counts.bytes_written, MC_UDP_HEADER + len);
    }
    if (ndatagrams > 0 && log_get_level() >= 2) {
        struct iovec iov;

        if (reply_iov(reply, 0, SIZE_MAX, &iov, 1) > 0) {
            log_bytes(udp, '>', (struct slice){iov.iov_base, iov.iov_len});
        }
    }
    command_release(udp->worker->local, reply);
}

/* --- requests ---------------------------------------------------------- */

/*
 * Takes the value of a storage command off the rest of its datagram. False: it
 * is not all there, and with it the datagram ends.
 */
static bool take_value(struct udp *udp, struct command_pending *pending, struct slice *rest)
{
    struct command_local *local = udp->worker->local;

    if (pending->nleft > rest->len) {
        command_cut(local, pending, &udp->worker->reply);
        return false;
    }
    while (pending->nleft > 0) {
        char *ptr;
        size_t n = command_value_room(local, pending, &ptr);

        if (ptr) {
            memcpy(ptr, rest->ptr, n);
        }
        command_value_filled(pending, n);
        rest->ptr += n;
        rest->len -= n;
    }
    return true;
}

/* Executes one command of the datagram. False: nothing more is to be had of it. */
static bool execute_one(struct udp *udp, enum protocol protocol, struct slice *rest, rel_time now)
{
    struct worker *worker = udp->worker;
    struct request request;
    struct command_pending pending;
    enum command_next next;
    ssize_t consumed = rest->len > 0 ? proto_parse(protocol, *rest, &request) : 0;

    if (consumed <= 0) {
        return false;
    }
    if (log_get_level() >= 2) {
        log_bytes(udp, '<', (struct slice){rest->ptr, (size_t)consumed});
    }
    tell_request(worker, &udp->client, (struct slice){rest->ptr, (size_t)consumed});
    rest->ptr += consumed;
    rest->len -= (size_t)consumed;
    next = command_run(worker->local, &request, &udp->client, now, &worker->reply, &pending);
    if (next == COMMAND_VALUE) {
        if (!take_value(udp, &pending, rest)) {
            return false;
        }
        next = command_finish(worker->local, &udp->client, &pending, now, &worker->reply);
    }
    return next == COMMAND_DONE;
}

static void execute(struct udp *udp, unsigned int r, rel_time now)
{
    struct slice rest = {udp->in_iov[r].iov_base, udp->in[r].msg_len};
    struct udp_frame frame;
    enum protocol protocol;
    bool more = true;

    count_add(&udp->worker->counts.bytes_read, rest.len);
    if (!proto_parse_frame(rest, &frame)) {
        return;
    }
    rest.ptr += MC_UDP_HEADER;
    rest.len -= MC_UDP_HEADER;
    protocol = proto_protocol(rest.ptr[0]);
    while (more) {
        more = execute_one(udp, protocol, &rest, now);
        answer(udp, r, frame.id);
    }
}

/*
 * Turns what the kernel said about the request's way here into what it needs to
 * know about the reply's: the source address, and the interface only where the
 * address needs it.
 */
static void turn_control(struct msghdr *message)
{
    struct cmsghdr *control = CMSG_FIRSTHDR(message);

    if (!control) {
        message->msg_controllen = 0;
    } else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_PKTINFO) {
        struct in_pktinfo info;

        memcpy(&info, CMSG_DATA(control), sizeof(info));
        info.ipi_ifindex = 0;
        memcpy(CMSG_DATA(control), &info, sizeof(info));
    } else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_PKTINFO) {
        struct in6_pktinfo info;

        memcpy(&info, CMSG_DATA(control), sizeof(info));
        if (IN6_IS_ADDR_MULTICAST(&info.ipi6_addr)) {
            info.ipi6_addr = in6addr_any;
        } else if (!IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr)) {
            info.ipi6_ifindex = 0;
        }
        memcpy(CMSG_DATA(control), &info, sizeof(info));
    }
}

static int receive_batch(struct udp *udp)
{
    for (unsigned int i = 0; i < BATCH; i++) {
        udp->in[i].msg_hdr.msg_namelen = sizeof(udp->peers[i]);
        udp->in[i].msg_hdr.msg_controllen = udp->any ? sizeof(udp->in_control[i]) : 0;
    }
    return recvmmsg(udp->endpoint.fd, udp->in, BATCH, MSG_DONTWAIT, NULL);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct udp *udp = arg;
    int n = BATCH;

    (void)fd;
    (void)what;
    for (int round = 0; round < ROUNDS && n == BATCH; round++) {
        rel_time now;

        n = receive_batch(udp);
        /* Not before: what others have seen expire does not come back for these requests. */
        now = clock_now(&udp->worker->config->clock);
        endpoint_used(&udp->endpoint, now);
        for (int i = 0; i < n; i++) {
            if (udp->any) {
                turn_control(&udp->in[i].msg_hdr);
            }
            execute(udp, (unsigned int)i, now);
        }
        send_batch(udp);
    }
}

/* --- life -------------------------------------------------------------- */

static void point_messages(struct udp *udp)
{
    for (size_t i = 0; i < BATCH; i++) {
        udp->in_iov[i] = (struct iovec){udp->requests + i * DATAGRAM_MAX, DATAGRAM_MAX};
        udp->in[i].msg_hdr = (struct msghdr){
            .msg_name = &udp->peers[i],
            .msg_iov = &udp->in_iov[i],
            .msg_iovlen = 1,
            .msg_control = udp->any ? &udp->in_control[i] : NULL,
        };
        udp->out_iov[i].iov_base = udp->replies[i];
        udp->out[i].msg_hdr = (struct msghdr){.msg_iov = &udp->out_iov[i], .msg_iovlen = 1};
    }
}

struct udp *udp_open(struct worker *worker, int fd)
{
    struct udp *udp = calloc(1, sizeof(*udp));
    struct socket_name name;

    if (!udp) {
        close(fd);
        return NULL;
    }
    udp->endpoint = (struct endpoint){.fd = fd, .kind = ENDPOINT_DATAGRAM, .state = STATE_READ};
    udp->worker = worker;
    udp->any = socket_local(fd, &name) == 0 && socket_is_any(&name);
    udp->requests = malloc((size_t)BATCH * DATAGRAM_MAX);
    udp->event = event_new(worker->base, fd, EV_READ | EV_PERSIST, on_readable, udp);
    if (!udp->requests || !udp->event || event_add(udp->event, NULL) != 0) {
        if (udp->event) {
            event_free(udp->event);
        }
        free(udp->requests);
        free(udp);
        close(fd);
        return NULL;
    }
    point_messages(udp);
    udp->next = worker->udp;
    udp->link = &worker->udp;
    if (udp->next) {
        udp->next->link = &udp->next;
    }
    worker->udp = udp;
    endpoints_count(worker->endpoints);
    endpoints_list(worker->endpoints, &udp->endpoint);
    return udp;
}

void udp_begin(struct worker *worker)
{
    for (struct udp *udp = worker->udp; udp; udp = udp->next) {
        command_client_open(worker->local, COMMAND_DATAGRAM, udp->endpoint.fd, &udp->client);
    }
}

void udp_close(struct udp *udp)
{
    command_client_close(&udp->client);
    event_free(udp->event);
    *udp->link = udp->next;
    if (udp->next) {
        udp->next->link = udp->link;
    }
    endpoints_close(udp->worker->endpoints, &udp->endpoint);
    free(udp->requests);
    free(udp);
}
