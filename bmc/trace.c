/* SPDX-License-Identifier: BSD-3-Clause */
#include "bmc/trace.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/num.h"
#include "bmc/run.h"
#include "bpf/shared/chain.h"
#include "bpf/shared/layout.h"
#include "bpf/shared/tcp.h"
#include "bpf/trace/tracer.h"

enum { END_TEXT = INET6_ADDRSTRLEN + 8, ERROR_TEXT = 1024 };

/* --- the filter ------------------------------------------------------------------ */

static bool parse_port(const char *text, uint16_t *out)
{
    struct slice digits = {text, strlen(text)};
    uint64_t port;

    if (!digits.len || strspn(text, "0123456789") != digits.len || !num_parse_u64(digits, &port) ||
        port < 1 || port > 65535)
        return false;
    *out = htons((uint16_t)port);
    return true;
}

static bool parse_address(const char *text, struct trace_end *out)
{
    memset(out->address, 0, sizeof(out->address));
    if (inet_pton(AF_INET, text, &out->address[3]) == 1) {
        out->address[2] = htonl(0xffff);
        return true;
    }
    return inet_pton(AF_INET6, text, out->address) == 1;
}

bool trace_parse(const char *text, struct trace_end *out)
{
    bool bracket = *text == '[';
    char copy[END_TEXT];
    char *colon;

    *out = (struct trace_end){0};
    if (strlen(text) >= sizeof(copy))
        return false;
    strcpy(copy, text + bracket);
    colon = bracket ? strstr(copy, "]") : strchr(copy, ':');
    if (bracket && (!colon || colon[1] != ':'))
        return false;
    if (!colon || (!bracket && strchr(colon + 1, ':'))) /* none, or in an address of IPv6 */
        return parse_address(copy, out);
    *colon = '\0';
    return parse_address(copy, out) && parse_port(colon + 1 + bracket, &out->port);
}

/* --- a line ---------------------------------------------------------------------- */

static const char *const main_names[TRACE_COUNTS] = {MC_COUNTERS(COUNTER_KEY)};
static const char *const tcp_names[TRACE_COUNTS] = {MC_TCP_COUNTERS(COUNTER_KEY)};
static const char *const chain_names[TRACE_COUNTS] = {CHAIN_COUNTERS(COUNTER_KEY)};
static const char *const *const names[TRACE_KINDS] = {
    [TRACE_MAIN] = main_names, [TRACE_TCP] = tcp_names, [TRACE_CHAIN] = chain_names};

/* "12:00:00.123456 " of the wall clock. */
static void print_time(uint64_t tai_ns)
{
    const uint64_t second = 1000000000;
    struct timespec tai, real;
    struct tm local;
    time_t seconds;
    char text[16];

    clock_gettime(CLOCK_TAI, &tai);
    clock_gettime(CLOCK_REALTIME, &real);
    /* They differ by whole seconds, and these calls come one after the other. */
    seconds = (time_t)(tai_ns / second) - (tai.tv_sec - real.tv_sec);
    localtime_r(&seconds, &local);
    strftime(text, sizeof(text), "%H:%M:%S", &local);
    printf("%s.%06" PRIu64 " ", text, tai_ns % second / 1000);
}

static void print_end(const struct trace_end *end, const char *behind)
{
    const struct in6_addr *address = (const struct in6_addr *)end->address;
    bool v4 = IN6_IS_ADDR_V4MAPPED(address);
    char text[INET6_ADDRSTRLEN] = "?";

    if (v4)
        inet_ntop(AF_INET, &end->address[3], text, sizeof(text));
    else
        inet_ntop(AF_INET6, address, text, sizeof(text));
    printf(v4 || !end->port ? "%s" : "[%s]", text);
    if (end->port)
        printf(":%u", ntohs(end->port));
    fputs(behind, stdout);
}

static const char *verdict_of(const struct trace_event *event)
{
    static const char *const xdp[] = {"aborted", "drop", "pass", "tx", "redirect"};
    static const char *const tc[] = {"next",   "ok",     "reclassify", "shot",    "pipe",
                                     "stolen", "queued", "repeat",     "redirect"};
    size_t at = (size_t)(event->verdict + event->is_tc); /* TC_ACT_UNSPEC is -1 */
    size_t n = event->is_tc ? sizeof(tc) / sizeof(tc[0]) : sizeof(xdp) / sizeof(xdp[0]);

    return at >= n ? "?" : event->is_tc ? tc[at] : xdp[at];
}

/* Bytes say nothing of why. */
static bool is_silent(int kind, int counter)
{
    if (kind == TRACE_MAIN)
        return counter == MC_COUNT_BYTES_READ || counter == MC_COUNT_BYTES_WRITTEN;
    return kind == TRACE_TCP && (counter == MC_TCP_BYTES_READ || counter == MC_TCP_BYTES_WRITTEN);
}

/* The counters that have risen, which are the reason. "-": none has. */
static void print_reason(const struct trace_event *event)
{
    bool any = false;
    int kind, i;

    for (kind = 0; kind < TRACE_KINDS; kind++)
        for (i = 0; i < TRACE_COUNTS; i++) {
            if (!event->rise[kind][i] || !names[kind][i] || is_silent(kind, i))
                continue;
            printf(" %s", names[kind][i]);
            if (event->rise[kind][i] > 1)
                printf("=%u", event->rise[kind][i]);
            any = true;
        }
    puts(any ? "" : " -");
}

static void print_event(void *context, const struct trace_event *event, const char *program)
{
    char interface[IF_NAMESIZE];

    (void)context;
    print_time(event->tai_ns);
    if (if_indextoname(event->ifindex, interface))
        printf("%s", interface);
    else /* of another network namespace */
        printf("if%u", event->ifindex);
    printf(" %s ", program);
    print_end(&event->from, " > ");
    print_end(&event->to, " ");
    if (event->protocol == IPPROTO_UDP || event->protocol == IPPROTO_TCP)
        fputs(event->protocol == IPPROTO_UDP ? "udp" : "tcp", stdout);
    else
        printf("ip-%u", event->protocol);
    printf(" %u: %s", event->length, verdict_of(event));
    print_reason(event);
}

/* --- the loop -------------------------------------------------------------------- */

/* Whether it goes on. */
static bool follow(struct tracer *tracer, int *before)
{
    char error[ERROR_TEXT];
    int n = tracer_follow(tracer, error, sizeof(error));

    if (n < 0)
        log_write("bmc: trace: %s", error);
    else if (n == 0 && *before == 0)
        log_write("bmc: trace: no memcached -X bmc=... and no bmc runs on this machine");
    else if (n == 0)
        log_write("bmc: trace: the last server has ended");
    else if (n != *before)
        log_write("bmc: trace: programs that are traced: %d", n);
    if (n > 0)
        *before = n;
    return n > 0;
}

static bool live(struct tracer *tracer, int signals, int clock)
{
    struct pollfd fds[] = {{.fd = -1, .events = POLLIN},
                           {.fd = signals, .events = POLLIN},
                           {.fd = clock, .events = POLLIN}};
    uint64_t times;
    int n = 0;

    while (follow(tracer, &n)) {
        fds[0].fd = tracer_descriptor(tracer);
        do {
            if (poll(fds, 3, -1) < 0)
                return errno == EINTR;
            if (fds[0].revents)
                tracer_read(tracer);
            if (fds[1].revents)
                return true;
        } while (!fds[2].revents || read(clock, &times, sizeof(times)) != sizeof(times));
    }
    return n > 0;
}

int trace_show(const struct trace_end *filter)
{
    struct tracer *tracer = tracer_open(filter, print_event, NULL);
    int signals = run_open_signals(), clock = run_open_clock();
    bool well = false;
    uint64_t lost;

    if (!tracer || signals < 0 || clock < 0) {
        log_write("bmc: trace: %s", strerror(errno));
    } else {
        well = live(tracer, signals, clock);
        lost = tracer_lost(tracer);
        if (lost)
            log_write("bmc: trace: packets without a line, because they came too fast: %" PRIu64,
                      lost);
    }
    if (tracer)
        tracer_close(tracer);
    return well ? EXIT_SUCCESS : EXIT_FAILURE;
}
