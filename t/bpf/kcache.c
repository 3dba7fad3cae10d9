/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kcache: options, attaching, memory after the privilege drop, counts. It runs in a network
 * namespace of its own, and may change that namespace's lo and veth pair.
 */
#include "kcache/kcache.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bpf/load/object.h"
#include "iface/attach.h"
#include "iface/link.h"
#include "t/bpf/loaded.h"
#include "t/lib/tap.h"

enum { PORT = 21211, ANSWER_MAX = 2048, EXTENTS = INNER_MAX + 2 };

static void run(const char *command)
{
    if (system(command) != 0)
        skip_all(command);
}

static int index_of(const char *name)
{
    unsigned int ifindex = if_nametoindex(name);

    if (!ifindex)
        skip_all(name);
    return (int)ifindex;
}

/* --- options --------------------------------------------------------------- */

static const char *parse(struct kcache_options *options, const char *text)
{
    static char word[256];

    memset(options, 0, sizeof(*options));
    snprintf(word, sizeof(word), "%s", text);
    return kcache_parse(options, word);
}

static void test_options(void)
{
    static const char *const wrong[] = {"bmc=",
                                        "bmc=lo,mode=",
                                        "bmc=lo,mode=fast",
                                        "bmc=lo,what",
                                        "bmc=lo,",
                                        "bmc=a-name-too-long0",
                                        "mode=native,x",
                                        "bmc=lo,optional=1",
                                        "bmc=lo,stall=",
                                        "bmc=lo,stall=1",
                                        "bmc=lo,stall=-2",
                                        "bmc=lo,stall=10s",
                                        "bmc=lo,stall=86401",
                                        "bmc=lo,refresh=",
                                        "bmc=lo,refresh=-1",
                                        "bmc=lo,refresh=1s",
                                        "bmc=lo,refresh=86401"};
    struct kcache_options options;
    char many[1024], part[32];
    unsigned int i, n = 0;

    ok(!parse(&options, "bmc=lo") && options.ninterfaces == 1 &&
           strcmp(options.interfaces[0], "lo") == 0 && options.mode == IFACE_AUTO &&
           !options.optional,
       "one interface");
    ok(!parse(&options, "bmc=eth0,bmc=eth1,mode=native,optional") && options.ninterfaces == 2 &&
           strcmp(options.interfaces[1], "eth1") == 0 && options.mode == IFACE_NATIVE &&
           options.optional,
       "interfaces and options");
    ok(!parse(&options, "bmc=lo,mode=skb") && options.mode == IFACE_GENERIC, "mode=skb");
    ok(!parse(&options, "bmc=lo,mode=tc") && options.mode == IFACE_TC, "mode=tc");
    ok(!parse(&options, "bmc=lo") && options.stall == 0 && !parse(&options, "bmc=lo,stall=86400") &&
           options.stall == 86400 && !parse(&options, "bmc=lo,stall=0") && options.stall < 0,
       "stall");
    ok(!parse(&options, "bmc=lo") && options.refresh == 0 && !parse(&options, "bmc=lo,refresh=1") &&
           options.refresh == 1 && !parse(&options, "bmc=lo,refresh=0") && options.refresh < 0,
       "refresh");
    ok(!parse(&options, "bmc=lo,bmc=lo") && options.ninterfaces == 1,
       "an interface given twice counts once");
    for (i = 0; i < COUNT(wrong); i++)
        ok(parse(&options, wrong[i]) != NULL, "\"%s\" is refused", wrong[i]);
    many[0] = '\0';
    for (i = 0; i < IFACE_MAX + 1; i++)
        n += (unsigned int)snprintf(many + n, sizeof(many) - n, "%sbmc=if%u", i ? "," : "", i);
    memset(&options, 0, sizeof(options));
    ok(kcache_parse(&options, many) != NULL, "too many interfaces are refused");
    memset(&options, 0, sizeof(options));
    snprintf(part, sizeof(part), "bmc=eth0");
    snprintf(many, sizeof(many), "bmc=eth1");
    ok(!kcache_parse(&options, part) && !kcache_parse(&options, many) && options.ninterfaces == 2,
       "a second bmc= adds interfaces");
}

/* --- a server of three items -------------------------------------------------- */

struct host {
    char error[512];
    struct kcache_options options;
    struct kcache *kcache;
    struct mc_control *control;
    char *heap;
    struct mc_bucket *buckets;
    uint32_t next;
};

static void *reserve(size_t n)
{
    return mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void host_put(struct host *host, const char *key, size_t nvalue)
{
    struct mc_item *item = (struct mc_item *)(void *)(host->heap + host->next);
    char *wire = (char *)item + MC_ITEM_HEADER;
    uint64_t word = 0, hash;
    int n = sprintf(wire, "%s 0 %zu\r\n", key, nvalue);

    memset(item, 0, MC_ITEM_HEADER);
    memset(wire + n, 'v', nvalue);
    memcpy(wire + n + nvalue, "\r\n", 2);
    item->flags = MC_ITEM_LINKED;
    item->nkey = (uint8_t)strlen(key);
    item->nbytes = (uint32_t)n + (uint32_t)nvalue + 2;
    item->clsid = 3;
    memcpy(&word, key, strlen(key));
    hash = mc_hash_end(mc_hash_word(word, host->control->seed[0]), strlen(key));
    host->buckets[0].refs[host->next / 2048 - 1] = host->next >> 3;
    host->buckets[0].tags |= (uint64_t)mc_hash_tag(hash) << 8 * (host->next / 2048 - 1);
    host->next += 2048;
}

/* False: host->error has the reason. */
static bool host_open(struct host *host, const char *options_text)
{
    struct provider *provider;

    memset(host, 0, sizeof(*host));
    if (parse(&host->options, options_text))
        abort();
    host->kcache = kcache_open(&host->options, 1 << 30, host->error, sizeof(host->error));
    if (!host->kcache)
        return false;
    provider = kcache_provider(host->kcache);
    host->control = provider->control(provider);
    host->heap = reserve(4 * MC_EXTENT_BYTES);
    host->buckets = reserve(MC_TABLE_BYTES);
    if (provider->extent(provider, 0, host->heap) || provider->table(provider, 0, host->buckets))
        abort();
    host->control->nbuckets = 1;
    host->control->ref_shift = 3;
    host->next = 2048;
    host_put(host, "small", 10);
    host_put(host, "medium", 150);
    host_put(host, "large", 1300);
    return true;
}

static bool host_attach(struct host *host, const char *address)
{
    struct in6_addr in = {{{[10] = 0xff, [11] = 0xff}}};
    const struct kcache_served served = {.udp_port = PORT, .addresses = &in, .n = 1};

    in.s6_addr32[3] = inet_addr(address);
    return kcache_attach(host->kcache, &served, host->error, sizeof(host->error)) == 0 &&
           kcache_start(host->kcache) == 0;
}

static bool host_start(struct host *host, const char *options_text, const char *address)
{
    return host_open(host, options_text) && host_attach(host, address);
}

/* --- a client ---------------------------------------------------------------- */

/* The text of the reply; empty: none within half a second, or the port is closed. */
static const char *ask(const char *address, const char *text)
{
    static char answer[ANSWER_MAX + 1];
    const struct timeval patience = {.tv_usec = 500000};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    char request[512] = {0x12, 0x34, 0, 0, 0, 1, 0, 0};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    ssize_t n;

    to.sin_addr.s_addr = inet_addr(address);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    memcpy(request + 8, text, strlen(text));
    answer[0] = '\0';
    if (connect(fd, (struct sockaddr *)(void *)&to, sizeof(to)) == 0 &&
        send(fd, request, 8 + strlen(text), 0) > 0) {
        n = recv(fd, answer, ANSWER_MAX, 0);
        n = n > 8 ? n - 8 : 0;
        memmove(answer, answer + 8, (size_t)n);
        answer[n] = '\0';
    }
    close(fd);
    return answer;
}

static bool host_answers(const char *address)
{
    bool small, none, large;

    small = strcmp(ask(address, "get small\r\n"), "VALUE small 0 10\r\nvvvvvvvvvv\r\nEND\r\n") == 0;
    none = strcmp(ask(address, "get none\r\n"), "END\r\n") == 0;
    large = strncmp(ask(address, "get large\r\n"), "VALUE large 0 1300\r\nvvv", 23) == 0;
    return small && none && large;
}

static uint64_t counted(struct host *host, enum mc_count which)
{
    struct kcache_stats stats;

    kcache_stats(host->kcache, &stats);
    return stats.counts.count[which];
}

static void test_loopback(const char *options, bool xdp)
{
    struct kcache_stats stats;
    struct host host;
    char error[512];

    tap_under("%s: ", options);
    if (!ok(host_start(&host, options, "0.0.0.0"), "attaches to lo")) {
        diag("%s", host.error);
        return;
    }
    ok(host_answers("127.0.0.1"), "a hit, a miss and a large hit over lo are answered");
    ok(host_answers("10.99.1.1"), "requests to another address of the machine are answered");
    ok(counted(&host, MC_COUNT_SEEN) == 6 && counted(&host, MC_COUNT_HITS) == 4 &&
           counted(&host, MC_COUNT_MISSES) == 2 && counted(&host, MC_COUNT_KEYS) == 6,
       "each request is counted once");
    ok(counted(&host, MC_COUNT_ANSWERED_TC) == 6,
       "TC answered all requests, which have partial checksums");
    kcache_stats(host.kcache, &stats);
    ok(stats.view.ninterfaces == 1 && strcmp(stats.view.interfaces[0].name, "lo") == 0 &&
           stats.view.interfaces[0].xdp_generic == xdp && !stats.view.interfaces[0].xdp_native &&
           stats.view.interfaces[0].tc,
       "the statistics have the mode of attachment");
    kcache_reset_stats(host.kcache);
    ok(counted(&host, MC_COUNT_SEEN) == 0, "a reset sets the counts to zero");
    ask("127.0.0.1", "get small\r\n");
    ok(counted(&host, MC_COUNT_SEEN) == 1, "after a reset counting goes on");
    kcache_close(host.kcache);
    ok(ask("127.0.0.1", "get small\r\n")[0] == '\0', "after the end requests are not answered");
    ok(loader_xdp_present(1, error) == 0, "no program stays attached");
    tap_under("%s", "");
}

/* More addresses than fit: those of the attached interface come first. */
static void test_many_addresses(void)
{
    struct host host;

    run("for i in $(seq 1 80); do ip address add 10.99.2.$i/32 dev kc0; done");
    ok(host_start(&host, "bmc=lo", "0.0.0.0"), "a machine with more addresses than fit attaches");
    ok(host_answers("127.0.0.1") && host_answers("10.99.1.1"),
       "requests to the attached interface's addresses are answered");
    ok(host.control->local[host.control->local_in_use].n4 == MC_MAX_ADDRESSES,
       "as many addresses as fit are local");
    kcache_close(host.kcache);
    run("ip address flush dev kc0");
}

/* An event between attaching and the start: the start handles it, and not the thread later. */
static void test_start(void)
{
    const struct in6_addr any = {{{[10] = 0xff, [11] = 0xff}}};
    const struct kcache_served served = {.udp_port = PORT, .addresses = &any, .n = 1};
    const struct mc_control *control;
    struct host host;
    unsigned int n;

    if (!ok(host_open(&host, "bmc=kc0") &&
                kcache_attach(host.kcache, &served, host.error, sizeof(host.error)) == 0,
            "attached, and not started yet")) {
        diag("%s", host.error);
        return;
    }
    control = host.control;
    n = control->local[control->local_in_use].n4;
    run("ip address add 10.99.3.1/32 dev kc0");
    ok(kcache_start(host.kcache) == 0 && control->local[control->local_in_use].n4 == n + 1,
       "after the start an address that was added before it is known");
    kcache_close(host.kcache);
    run("ip address del 10.99.3.1/32 dev kc0");
}

/* --- refusals ------------------------------------------------------------------ */

static bool refused(const char *options, const char *says)
{
    struct host host;
    bool opened = host_open(&host, options);
    bool attached = opened && host_attach(&host, "0.0.0.0");

    if (opened)
        kcache_close(host.kcache);
    if (!attached && strstr(host.error, says))
        return true;
    diag("%s", host.error);
    return false;
}

static void drop_capabilities(uint64_t keep)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};

    data[0].effective = data[0].permitted = (uint32_t)keep;
    data[1].effective = data[1].permitted = (uint32_t)(keep >> 32);
    syscall(SYS_capset, &header, data);
}

static bool in_child(bool (*function)(void *), void *arg)
{
    pid_t child = fork();
    int status = -1;

    if (child == 0) {
        bool right = function(arg);

        fflush(stdout);
        _exit(right ? 0 : 1);
    }
    waitpid(child, &status, 0);
    return status == 0;
}

static bool refused_without_rights(void *arg)
{
    (void)arg;
    drop_capabilities(0);
    return refused("bmc=lo", "CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON");
}

static bool refused_without_net_admin(void *arg)
{
    (void)arg;
    drop_capabilities(1ull << 39 | 1ull << 38);
    return refused("bmc=lo", "CAP_NET_ADMIN");
}

static void test_refusals(void)
{
    struct host host;
    char error[512];

    ok(refused("bmc=nowhere0", "there is no interface nowhere0"),
       "an interface that does not exist is refused");
    ok(refused("bmc=lo,mode=native", "has no XDP"),
       "native XDP is refused where the driver has none");
    ok(in_child(refused_without_rights, NULL),
       "without any privilege the error names those that are needed");
    ok(in_child(refused_without_net_admin, NULL), "without CAP_NET_ADMIN the error names it");
    ok(host_start(&host, "bmc=lo,stall=0", "127.0.0.1"), "a first server attaches");
    ok(refused("bmc=lo", "has the same port"), "a second server on the same interface is refused");
    ok(refused("bmc=kc0,bmc=lo", "has the same port"),
       "a second server is refused if its second interface is taken");
    ok(host_answers("127.0.0.1"), "the first server still answers");
    ok(strcmp(ask("10.99.1.1", "get small\r\n"), "") == 0,
       "the first server answers on its own address only");
    ok(loader_xdp_present(index_of("kc0"), error) == 0,
       "a refused server leaves no program on its first interface");
    kcache_close(host.kcache);
    kcache_close(NULL);
}

/* --- programs that others detach ------------------------------------------------- */

static int cut(int fd)
{
    union bpf_attr attr = {.link_detach.link_fd = (uint32_t)fd};

    return (int)syscall(SYS_bpf, BPF_LINK_DETACH, &attr, sizeof(attr));
}

/* Detaches like `bpftool link detach` and `tc filter del`. */
static void cut_tc(struct loader_link *link)
{
    const struct loader_tc *tc = &link->tc[LOADER_INGRESS];
    struct loader_link filter;

    loader_link_init(&filter, link->ifindex);
    filter.tc[LOADER_INGRESS] = *tc;
    if (tc->filter)
        loader_detach(&filter);
    else
        cut(tc->link);
}

static void test_lost(void)
{
    char error[512];
    struct loader *loader = loader_open(error, sizeof(error));
    struct loader_link link;
    bool attached;

    loader_link_init(&link, 1);
    attached = loader && loader_attach_xdp(loader, &link, true) == 0 &&
               loader_attach_tc(loader, &link) == 0;
    if (!ok(attached, "XDP and TC are attached, TC by a %s",
            link.tc[LOADER_INGRESS].filter ? "filter" : "link"))
        return;
    ok(loader_lost(loader, &link) == 0, "no program is lost");
    cut_tc(&link);
    ok(loader_lost(loader, &link) == LOADER_LOST_TC && !loader_has_tc(&link, LOADER_INGRESS),
       "a detached TC program is reported as lost");
    ok(loader_lost(loader, &link) == 0 && link.xdp >= 0,
       "it is reported once, and XDP is not lost");
    ok(loader_attach_tc(loader, &link) == 0 && loader_lost(loader, &link) == 0,
       "TC can be attached again");
    cut(link.xdp);
    ok(loader_lost(loader, &link) == LOADER_LOST_XDP && link.xdp < 0,
       "a detached XDP program is reported as lost");
    ok(loader_attach_xdp(loader, &link, true) == 0 && loader_lost(loader, &link) == 0,
       "XDP can be attached again");
    loader_detach(&link);
    ok(loader_lost(loader, &link) == 0,
       "programs that the loader detached are not reported as lost");
    loader_close(loader);
}

/*
 * The programs are loaded by threads that need more descriptors than what is done before them: the
 * lowest limit at which that succeeds is too low for them.
 */
static void test_late_refusal(void)
{
    struct rlimit before, low;
    struct loader *loader = NULL;
    char error[512] = "";

    getrlimit(RLIMIT_NOFILE, &before);
    low = before;
    for (low.rlim_cur = 3; !loader && low.rlim_cur < 256; low.rlim_cur++) {
        setrlimit(RLIMIT_NOFILE, &low);
        loader = loader_open_guarded(&(struct loader_guard){0}, false, error, sizeof(error));
    }
    ok(loader && loader_wait(loader, error, sizeof(error)) == -EMFILE &&
           strstr(error, "no descriptors for the kernel's maps and programs"),
       "what a thread cannot load is reported by loader_wait: %s", error);
    setrlimit(RLIMIT_NOFILE, &before);
    loader_close(loader);
    loader = loader_open(error, sizeof(error));
    ok(loader, "then they can be loaded");
    loader_close(loader);
}

/* --- before the programs are loaded ------------------------------------------------ */

static uint32_t inner_id(const struct loader *loader, const char *outer, uint32_t index)
{
    uint32_t id = 0;

    bpf_map_lookup_elem(bpf_map__fd(object_map(&loader->object, outer)), &index, &id);
    return id;
}

/* More extents than are put in at once, and a table. */
static void test_early_memory(char *addr)
{
    struct loader *loader;
    char error[512] = "";
    uint32_t i, n = 0, found = 0;

    loader = loader_open_guarded(&(struct loader_guard){0}, 0, error, sizeof(error));
    for (i = 0; loader && i < EXTENTS; i++)
        n += loader_map_extent(loader, i, addr + (size_t)i * MC_EXTENT_BYTES) == 0;
    ok(n == EXTENTS && loader_map_table(loader, 3, addr + (size_t)n * MC_EXTENT_BYTES) == 0 &&
           loader_wait(loader, error, sizeof(error)) == 0,
       "memory is added before the programs are loaded: %s", error);
    for (i = 0; loader && i < EXTENTS; i++)
        found += inner_id(loader, "mc_heap", i) != 0;
    ok(found == EXTENTS && inner_id(loader, "mc_table", 3) != 0 && !inner_id(loader, "mc_table", 2),
       "all of it is there when they are loaded, %u extents", found);
    ok(loader_map_extent(loader, n, addr) == 0 && inner_id(loader, "mc_heap", n) != 0,
       "what is added later is there at once");
    ok(loader_map_extent(loader, MC_MAX_EXTENTS, addr) == -E2BIG,
       "and what the kernel refuses is said at once");
    loader_close(loader);
    loader = loader_open_guarded(&(struct loader_guard){0}, 0, error, sizeof(error));
    ok(loader && loader_map_extent(loader, MC_MAX_EXTENTS, addr) == 0 &&
           loader_wait(loader, error, sizeof(error)) == -E2BIG,
       "what it refuses of the memory before is reported by loader_wait: %s", error);
    loader_close(loader);
}

static void test_early_tc(void)
{
    const enum loader_hook each[] = {LOADER_EGRESS, LOADER_INGRESS};
    struct loader_link link;
    struct loader *loader;
    char error[512] = "";
    int i, rc = 0;

    loader_link_init(&link, 1);
    loader = loader_open_guarded(&(struct loader_guard){0}, 0, error, sizeof(error));
    for (i = 0; loader && !rc && i < 2; i++) {
        rc = loader_wait_hook(loader, each[i]);
        rc = rc ? rc : loader_attach_hook(loader, &link, each[i]);
    }
    ok(loader && !rc, "TC is attached before all programs are loaded: %d, %s", rc, error);
    ok(loader && loader_wait(loader, error, sizeof(error)) == 0 &&
           loader_wait_hook(loader, LOADER_INGRESS) == 0 && loader_attach_tc(loader, &link) == 0 &&
           loader_lost(loader, &link) == 0 && loader_attach_xdp(loader, &link, true) == 0,
       "then they are loaded, and XDP is attached: %s", error);
    loader_detach(&link);
    loader_close(loader);
}

static void test_early(void)
{
    const size_t size = (EXTENTS + 1) * (size_t)MC_EXTENT_BYTES;
    char *addr = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (addr == MAP_FAILED)
        skip_all("no address space");
    test_early_memory(addr);
    munmap(addr, size);
    test_early_tc();
}

/* --- memory after the privilege drop ---------------------------------------------- */

struct growth {
    struct host *host;
    uint64_t keep;
    int want;
};

static bool grows(void *arg)
{
    const struct growth *growth = arg;
    struct provider *provider = kcache_provider(growth->host->kcache);
    int rc;

    drop_capabilities(growth->keep);
    rc = provider->extent(provider, 1, growth->host->heap + MC_EXTENT_BYTES);
    if (rc == 0)
        growth->host->heap[MC_EXTENT_BYTES + 5] = 1;
    if (rc != growth->want)
        diag("%s", strerror(-rc));
    return rc == growth->want;
}

static void test_growth(void)
{
    struct host host;

    if (!ok(host_open(&host, "bmc=lo"), "the kernel path is opened"))
        return;
    ok(in_child(grows, &(struct growth){&host, 1ull << 39, 0}),
       "the heap can grow with CAP_BPF alone");
    ok(in_child(grows, &(struct growth){&host, 0, -EPERM}),
       "without CAP_BPF growing fails with EPERM");
    kcache_close(host.kcache);
}

/* --- veth --------------------------------------------------------------------------- */

/* Whether native XDP would be tried again there, after it has lost its replies. */
static bool tried_again(const char *name)
{
    struct attachment at = {.link = {.ifindex = index_of(name)},
                            .sending = {.counts = {.is_veth = true}}};
    const struct hostnet none = {0};

    snprintf(at.name, sizeof(at.name), "%s", name);
    return sending_again(&at, &none, 0);
}

static void test_veth(void)
{
    struct kcache_stats stats;
    struct host host, peer;

    ok(link_veth_peer(1) == VETH_NOT, "lo is not recognized as a veth");
    ok(link_veth_peer(index_of("kc0")) == VETH_PEER_WITHOUT_XDP,
       "a veth whose peer has no XDP program is recognized");
    ok(!tried_again("kc0"), "native XDP is not tried again there");
    if (!ok(host_start(&host, "bmc=kc0", "0.0.0.0"), "a server attaches to the veth"))
        return;
    kcache_stats(host.kcache, &stats);
    ok(stats.view.interfaces[0].xdp_generic && !stats.view.interfaces[0].xdp_native,
       "it attaches by generic XDP");
    kcache_close(host.kcache);
    ok(host_start(&peer, "bmc=kc1,mode=native", "0.0.0.0"), "another server attaches to the peer");
    ok(link_veth_peer(index_of("kc0")) == VETH_PEER_WITH_XDP,
       "a veth whose peer has an XDP program is recognized");
    ok(tried_again("kc0"), "native XDP is tried again there");
    ok(host_start(&host, "bmc=kc0", "0.0.0.0"), "a server attaches to the veth again");
    kcache_stats(host.kcache, &stats);
    ok(stats.view.interfaces[0].xdp_native && stats.view.interfaces[0].tc,
       "it attaches by native XDP");
    kcache_close(host.kcache);
    kcache_close(peer.kcache);
}

int main(void)
{
    test_options();
    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0)
        skip_all("needs root");
    if (loader_is_interrupted()) {
        ok(refused("bmc=lo", "PREEMPT_RT"),
           "a kernel where programs may interrupt each other is refused");
        ok(refused("bmc=lo,mode=chain", "PREEMPT_RT"), "the chain is refused on such a kernel");
        return done();
    }
    run("ip link set lo up && ip address add 10.99.1.1/32 dev lo && "
        "ip link add kc0 type veth peer name kc1 && ip link set kc1 up && ip link set kc0 up");
    test_loopback("bmc=lo", true);
    test_loopback("bmc=lo,mode=skb", true);
    test_loopback("bmc=lo,mode=tc", false);
    test_many_addresses();
    test_start();
    test_refusals();
    test_lost();
    test_late_refusal();
    test_early();
    test_growth();
    test_veth();
    return done();
}
