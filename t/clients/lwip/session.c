/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections to a memcached by lwIP instead of the kernel's TCP. It has an address of its own on
 * an interface, and checks every byte of every reply; see t/lib/stacks.py.
 *
 *     session INTERFACE ADDRESS SERVER PORT CONNECTIONS SECONDS [gets]
 *
 * It asks until its standard input ends, and prints one line of "name number" pairs. SECONDS
 * without a byte are a hang. gets: only gets of short values, until the end, and then a set.
 */
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <lwip/etharp.h>
#include <lwip/init.h>
#include <lwip/netif.h>
#include <lwip/tcp.h>
#include <lwip/timeouts.h>
#include <netif/ethernet.h>

enum {
    VALUES = 4,
    LONGEST = 100000,
    ROOM = LONGEST + 200, /* of a request, and of a reply */
    GETS = 12,            /* of a round */
    CLIENTS = 64,
    FRAME = 2048,
    MTU = 1500,
    TICK_MS = 20,
};

/* Of values: in the middle of a segment, most of one, more than one, and many. */
static const unsigned int sizes[VALUES] = {10, 700, 1500, LONGEST};

struct counts {
    unsigned long operations, wrong, broken, hangs;
};

/* One connection, which knows the version of each of its values. */
struct client {
    struct session *session;
    struct tcp_pcb *pcb; /* NULL: it is over */
    unsigned int number, step, versions[VALUES];
    bool is_last; /* the request */
    size_t nout, sent, nwant, got;
    u32_t progress_ms;
    char out[ROOM], want[ROOM];
};

struct session {
    struct netif netif;
    ip_addr_t server;
    u16_t port;
    int fd;
    u32_t patience_ms;
    bool over, gets;
    unsigned int nclients;
    struct counts counts;
    struct client clients[CLIENTS];
};

static void fatal(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(2);
}

u32_t sys_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u32_t)now.tv_sec * 1000 + (u32_t)(now.tv_nsec / 1000000);
}

/* --- requests ---------------------------------------------------------------------------- */

static size_t put_value(const struct client *client, unsigned int k, char *to)
{
    unsigned int start = client->number * 31 + k * 7 + client->versions[k] * 13, i;

    for (i = 0; i < sizes[k]; i++)
        to[i] = (char)((start + i) % 251);
    return sizes[k];
}

static void ask_set(struct client *client, unsigned int k)
{
    char *out = client->out;

    client->versions[k]++;
    client->nout = (size_t)sprintf(out, "set lw%u-%u 0 0 %u\r\n", client->number, k, sizes[k]);
    client->nout += put_value(client, k, out + client->nout);
    client->nout += (size_t)sprintf(out + client->nout, "\r\n");
    client->nwant = (size_t)sprintf(client->want, "STORED\r\n");
}

static void ask_get(struct client *client, unsigned int k)
{
    char *want = client->want;

    client->nout = (size_t)sprintf(client->out, "get lw%u-%u\r\n", client->number, k);
    client->nwant = (size_t)sprintf(want, "VALUE lw%u-%u 0 %u\r\n", client->number, k, sizes[k]);
    client->nwant += put_value(client, k, want + client->nwant);
    client->nwant += (size_t)sprintf(want + client->nwant, "\r\nEND\r\n");
}

static void ask_miss(struct client *client)
{
    client->nout = (size_t)sprintf(client->out, "get none\r\n");
    client->nwant = (size_t)sprintf(client->want, "END\r\n");
}

/* Each value is written first, and then now and then; most gets are of the short ones. */
static void begin(struct client *client)
{
    unsigned int step = client->step++, at = (step - VALUES) % (GETS + 1);

    client->sent = client->got = 0;
    client->progress_ms = sys_now();
    if (step < VALUES)
        ask_set(client, step);
    else if (client->is_last)
        ask_set(client, 0);
    else if (client->session->gets)
        ask_get(client, step % 2);
    else if (at == 0)
        ask_set(client, (step - VALUES) / (GETS + 1) % VALUES);
    else if (at == GETS)
        ask_get(client, 3);
    else if (at % 4 == 0)
        ask_get(client, 2);
    else if (at % 4 == 3)
        ask_miss(client);
    else
        ask_get(client, at % 2);
}

/* --- the course of a connection ------------------------------------------------------------ */

static void report(const struct client *client, const char *why)
{
    fprintf(stderr, "connection %u: %s: %.20s, %zu of %zu bytes of the reply\n", client->number,
            why, client->out, client->got, client->nwant);
}

static void push(struct client *client)
{
    size_t n;

    while (client->sent < client->nout) {
        n = LWIP_MIN(client->nout - client->sent, tcp_sndbuf(client->pcb));
        n = LWIP_MIN(n, TCP_MSS * 4);
        if (!n || tcp_write(client->pcb, client->out + client->sent, (u16_t)n,
                            TCP_WRITE_FLAG_COPY) != ERR_OK)
            break;
        client->sent += n;
    }
    tcp_output(client->pcb);
}

static void leave(struct client *client)
{
    tcp_arg(client->pcb, NULL);
    tcp_recv(client->pcb, NULL);
    tcp_sent(client->pcb, NULL);
    tcp_err(client->pcb, NULL);
    if (tcp_close(client->pcb) != ERR_OK)
        fatal("tcp_close");
    client->pcb = NULL;
}

/* The whole reply has come. */
static void answered(struct client *client)
{
    const struct session *session = client->session;

    client->session->counts.operations++;
    if (session->over && (client->is_last || !session->gets)) {
        leave(client);
        return;
    }
    client->is_last = session->over;
    begin(client);
    push(client);
}

/* False: it has other bytes than it is to have. */
static bool take(struct client *client, const struct pbuf *p)
{
    for (; p; p = p->next) {
        if (p->len > client->nwant - client->got ||
            memcmp(p->payload, client->want + client->got, p->len))
            return false;
        client->got += p->len;
    }
    return true;
}

static err_t received(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
    struct client *client = arg;
    bool right;

    LWIP_UNUSED_ARG(err);
    if (!p) {
        report(client, "the server ends the connection");
        client->session->counts.broken++;
        leave(client);
        return ERR_OK;
    }
    client->progress_ms = sys_now();
    tcp_recved(pcb, p->tot_len);
    right = take(client, p);
    pbuf_free(p);
    if (!right) {
        report(client, "other bytes than expected");
        client->session->counts.wrong++;
        leave(client);
    } else if (client->got == client->nwant) {
        answered(client);
    }
    return ERR_OK;
}

static err_t acknowledged(void *arg, struct tcp_pcb *pcb, u16_t n)
{
    LWIP_UNUSED_ARG(pcb);
    LWIP_UNUSED_ARG(n);
    push(arg);
    return ERR_OK;
}

/* lwIP has freed the connection. */
static void failed(void *arg, err_t err)
{
    struct client *client = arg;

    LWIP_UNUSED_ARG(err);
    report(client, "the connection is reset");
    client->session->counts.broken++;
    client->pcb = NULL;
}

static err_t connected(void *arg, struct tcp_pcb *pcb, err_t err)
{
    LWIP_UNUSED_ARG(pcb);
    LWIP_UNUSED_ARG(err);
    begin(arg);
    push(arg);
    return ERR_OK;
}

static void dial(struct session *session, unsigned int number)
{
    struct client *client = &session->clients[number];

    client->session = session;
    client->number = number;
    client->progress_ms = sys_now();
    client->pcb = tcp_new();
    if (!client->pcb)
        fatal("tcp_new");
    tcp_nagle_disable(client->pcb);
    tcp_arg(client->pcb, client);
    tcp_recv(client->pcb, received);
    tcp_sent(client->pcb, acknowledged);
    tcp_err(client->pcb, failed);
    if (tcp_connect(client->pcb, &session->server, session->port, connected) != ERR_OK)
        fatal("tcp_connect");
}

/* How many connections are not over. */
static unsigned int look_around(struct session *session)
{
    unsigned int i, n = 0;

    for (i = 0; i < session->nclients; i++) {
        struct client *client = &session->clients[i];

        if (client->pcb && sys_now() - client->progress_ms > session->patience_ms) {
            report(client, "a hang");
            session->counts.hangs++;
            leave(client);
        }
        n += client->pcb != NULL;
    }
    return n;
}

/* --- frames ---------------------------------------------------------------------------------- */

static err_t send_frame(struct netif *netif, struct pbuf *p)
{
    const struct session *session = netif->state;
    char frame[FRAME];

    pbuf_copy_partial(p, frame, p->tot_len, 0);
    if (send(session->fd, frame, p->tot_len, 0) < 0)
        return ERR_IF; /* TCP sends it again */
    return ERR_OK;
}

static err_t init_link(struct netif *netif)
{
    static const u8_t mac[ETH_HWADDR_LEN] = {2, 0x4d, 0x43, 0, 9, 3};

    memcpy(netif->hwaddr, mac, sizeof(mac));
    netif->hwaddr_len = ETH_HWADDR_LEN;
    netif->mtu = MTU;
    netif->output = etharp_output;
    netif->linkoutput = send_frame;
    netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_LINK_UP;
    return ERR_OK;
}

static void receive_frames(struct session *session)
{
    char frame[FRAME];
    ssize_t n;

    while ((n = recv(session->fd, frame, sizeof(frame), MSG_DONTWAIT)) > 0) {
        struct pbuf *p = pbuf_alloc(PBUF_RAW, (u16_t)n, PBUF_RAM);

        if (!p)
            fatal("pbuf_alloc");
        pbuf_take(p, frame, (u16_t)n);
        if (session->netif.input(p, &session->netif) != ERR_OK)
            pbuf_free(p);
    }
}

static void open_link(struct session *session, const char *name, const char *address)
{
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    int room = 8 << 20;
    ip4_addr_t own, mask, none = {0};

    at.sll_ifindex = (int)if_nametoindex(name);
    session->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
    if (session->fd < 0 || bind(session->fd, (const struct sockaddr *)&at, sizeof(at)))
        fatal("the interface");
    setsockopt(session->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    IP4_ADDR(&mask, 255, 255, 255, 0);
    if (!ip4addr_aton(address, &own) ||
        !netif_add(&session->netif, &own, &mask, &none, session, init_link, ethernet_input))
        fatal("the address");
    netif_set_default(&session->netif);
    netif_set_up(&session->netif);
}

static void run(struct session *session)
{
    struct pollfd fds[2] = {{.fd = session->fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    char byte;

    while (look_around(session)) {
        poll(fds, session->over ? 1 : 2, TICK_MS);
        if (!session->over && fds[1].revents)
            session->over = read(0, &byte, 1) <= 0;
        receive_frames(session);
        sys_check_timeouts();
    }
}

int main(int argc, char **argv)
{
    struct session *session = calloc(1, sizeof(*session));
    unsigned int i;

    if (!session || (argc != 7 && (argc != 8 || strcmp(argv[7], "gets") != 0)))
        fatal("usage: session INTERFACE ADDRESS SERVER PORT CONNECTIONS SECONDS [gets]");
    session->gets = argc == 8;
    srandom((unsigned int)sys_now());
    lwip_init();
    open_link(session, argv[1], argv[2]);
    if (!ipaddr_aton(argv[3], &session->server))
        fatal("the server's address");
    session->port = (u16_t)atoi(argv[4]);
    session->nclients = LWIP_MIN((unsigned int)atoi(argv[5]), CLIENTS);
    session->patience_ms = (u32_t)atoi(argv[6]) * 1000;
    for (i = 0; i < session->nclients; i++)
        dial(session, i);
    run(session);
    printf("operations %lu wrong %lu broken %lu hangs %lu\n", session->counts.operations,
           session->counts.wrong, session->counts.broken, session->counts.hangs);
    free(session);
    return 0;
}
