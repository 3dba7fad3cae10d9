/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two interfaces whose packets are handled on one CPU, by threads of which one may preempt the
 * other. A program keeps data in memory of the CPU: the kernel has to keep other programs from it
 * until the program ends, or the server has to refuse that kernel.
 */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "iface/local.h"
#include "t/bpf/lab.h"
#include "t/lib/tap.h"

enum { WAKES = 4000, REPEATS = 9 }; /* keys, whose reply needs room before the head of a frame */

/* A client with a veth pair of its own. */
struct asker {
    int fd;
    struct frame request, want;
    unsigned int nright, nwrong, nlost;
    atomic_bool stop;
};

static void asker_init(struct asker *asker, struct lab *lab, const char *interface, char letter,
                       unsigned int nkeys)
{
    struct sockaddr_ll at = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(ETH_P_IP),
                             .sll_ifindex = (int)if_nametoindex(interface)};
    const struct timeval patience = {.tv_usec = 100000};
    char text[64], reply[256], value[4];
    int n = snprintf(text, sizeof(text), "get"), nreply = 0;

    *asker = (struct asker){.fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP))};
    if (asker->fd < 0 || bind(asker->fd, (struct sockaddr *)(void *)&at, sizeof(at)) ||
        setsockopt(asker->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &(int){1}, sizeof(int)) ||
        setsockopt(asker->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
        skip_all("cannot listen to a veth");
    memset(value, letter, sizeof(value));
    lab_put(lab, &letter, 1, value, sizeof(value));
    for (unsigned int i = 0; i < nkeys; i++) {
        n += snprintf(text + n, sizeof(text) - (size_t)n, " %c", letter);
        nreply += snprintf(reply + nreply, sizeof(reply) - (size_t)nreply,
                           "VALUE %c 0 4\r\n%.4s\r\n", letter, value);
    }
    n += snprintf(text + n, sizeof(text) - (size_t)n, "\r\n");
    nreply += snprintf(reply + nreply, sizeof(reply) - (size_t)nreply, "END\r\n");
    frame_request(&asker->request, text, (size_t)n);
    memcpy(asker->request.bytes, &(uint64_t){LAB_MAC}, 6);
    frame_answer(&asker->want, &asker->request, reply, (size_t)nreply);
}

static void ask(struct asker *asker)
{
    struct frame out;
    ssize_t n = -1;

    if (send(asker->fd, asker->request.bytes, asker->request.n, 0) > 0)
        n = recv(asker->fd, out.bytes, sizeof(out.bytes), 0);
    out.n = n > 0 ? (size_t)n : 0;
    if (!out.n)
        asker->nlost++;
    else if (frame_answers(&out, &asker->request, &asker->want))
        asker->nright++;
    else if (asker->nwrong++ == 0)
        frame_dump("wrong", &out);
}

/* id: of a thread, 0: the calling one. */
static bool on_first_cpu(pid_t id, int policy)
{
    struct sched_param param = {.sched_priority = policy == SCHED_FIFO ? 10 : 0};
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    return sched_setaffinity(id, sizeof(cpus), &cpus) == 0 &&
           sched_setscheduler(id, policy, &param) == 0;
}

/* Gives an interface's packets a thread of their own. */
static bool give_thread(const char *interface, int policy)
{
    char command[128];
    FILE *found;
    pid_t id = 0;

    snprintf(command, sizeof(command),
             "echo 1 >/sys/class/net/%s/threaded && grep -l '^napi/%s-' /proc/[0-9]*/comm | "
             "tr -dc 0-9",
             interface, interface);
    found = popen(command, "re");
    if (found && fscanf(found, "%d", &id) != 1)
        id = 0;
    if (found)
        pclose(found);
    return id && on_first_cpu(id, policy);
}

static void *keep_asking(void *arg)
{
    struct asker *asker = arg;

    if (on_first_cpu(0, SCHED_OTHER))
        while (!atomic_load(&asker->stop))
            ask(asker);
    return NULL;
}

/* Wakes repeatedly, at any time of the other thread's work. */
static void *ask_between(void *arg)
{
    struct asker *asker = arg;

    if (!on_first_cpu(0, SCHED_FIFO))
        return NULL;
    for (unsigned int i = 0; i < WAKES; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 20000 + i * 7919 % 60000}, NULL);
        ask(asker);
    }
    return NULL;
}

static void test_between(struct lab *lab, unsigned int nkeys)
{
    struct asker other, urgent;
    pthread_t threads[2];

    lab_clear(lab);
    asker_init(&other, lab, "oc1", 'a', nkeys);
    asker_init(&urgent, lab, "oc3", 'b', nkeys);
    pthread_create(&threads[0], NULL, keep_asking, &other);
    pthread_create(&threads[1], NULL, ask_between, &urgent);
    pthread_join(threads[1], NULL);
    atomic_store(&other.stop, true);
    pthread_join(threads[0], NULL);
    diag("%u and %u right, %u and %u wrong, %u and %u lost", other.nright, urgent.nright,
         other.nwrong, urgent.nwrong, other.nlost, urgent.nlost);
    ok(other.nright && urgent.nright, "gets of %u keys: both clients are answered", nkeys);
    ok((!other.nwrong && !urgent.nwrong) || loader_is_interrupted(),
       "no client gets the other's reply, or the server refuses this kernel");
    close(other.fd);
    close(urgent.fd);
}

/* The stack replies to the client through that interface, which makes its return path known. */
static bool reply_leaves(struct lab *lab, const char *interface)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(LAB_CLIENT_PORT),
                             .sin_addr.s_addr = htonl(LAB_CLIENT)};
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(LAB_PORT)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char command[200];
    bool sent;

    snprintf(command, sizeof(command),
             "ip address add 10.0.0.1/24 dev %s && "
             "ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev %s",
             interface, interface);
    sent =
        system(command) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, (socklen_t)strlen(interface)) == 0 &&
        bind(fd, (struct sockaddr *)(void *)&own, sizeof(own)) == 0 &&
        loader_know_socket(lab->loader, fd) == 0 &&
        sendto(fd, "x", 1, 0, (struct sockaddr *)(void *)&to, sizeof(to)) == 1;
    close(fd);
    return sent;
}

/* Two pairs, whose even ends answer, and pass their packets to threads. */
static void make_pairs(struct lab *lab, struct loader_link links[4])
{
    char name[8];

    if (system("ip link add oc0 type veth peer name oc1 && "
               "ip link add oc2 type veth peer name oc3") != 0)
        skip_all("cannot make veth pairs");
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "oc%d", i);
        loader_link_init(&links[i], (int)if_nametoindex(name));
        if (loader_attach_xdp(lab->loader, &links[i], false))
            skip_all("cannot attach native XDP to veth");
    }
    /* Who comes up before its peer sends nothing until a thread of the kernel has told it. */
    if (system("for i in 1 0 3 2; do ip link set oc$i up; done") != 0)
        skip_all("cannot raise a veth");
    if (loader_attach_tc(lab->loader, &links[0]) || loader_attach_tc(lab->loader, &links[2]) ||
        !reply_leaves(lab, "oc0") || !reply_leaves(lab, "oc2"))
        skip_all("cannot reply by a veth");
    if (!give_thread("oc0", SCHED_OTHER) || !give_thread("oc2", SCHED_FIFO))
        skip_all("cannot give an interface a thread");
}

int main(void)
{
    static const struct mc_local local = {
        .n4 = 1, .nmacs = 1, .v4 = {__builtin_bswap32(LAB_SERVER)}, .macs = {LAB_MAC}};
    struct loader_link links[4];
    struct lab lab;

    if (geteuid() != 0 || unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("sys", "/sys", "sysfs", 0, NULL))
        skip_all("needs root");
    lab_open(&lab, 256);
    local_publish(lab.control, &local);
    make_pairs(&lab, links);
    test_between(&lab, 1);
    test_between(&lab, REPEATS);
    for (int i = 0; i < 4; i++)
        loader_detach(&links[i]);
    lab_close(&lab);
    return done();
}
