/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "iface/attach.h"
#include "t/lib/tap.h"

enum { MAX = 8 };

struct statistic {
    const char *name;
    uint64_t value;
};

static struct driver_counts sum(const char *driver, const struct statistic *of)
{
    struct driver_counts counts = {0};
    char names[MAX][ETH_GSTRING_LEN];
    uint64_t values[MAX];
    size_t n;

    for (n = 0; of[n].name; n++) {
        memset(names[n], 0, sizeof(names[n]));
        memcpy(names[n], of[n].name, strnlen(of[n].name, sizeof(names[n])));
        values[n] = of[n].value;
    }
    driver_sum(driver, names, values, n, &counts);
    return counts;
}

static void test_names(void)
{
    struct driver_counts veth = sum("veth", (const struct statistic[]){
                                                {"peer_ifindex", 7},
                                                {"rx_queue_0_xdp_packets", 1000},
                                                {"rx_queue_0_xdp_tx", 3},
                                                {"rx_queue_1_xdp_tx", 4},
                                                {"rx_queue_1_xdp_tx_errors", 50},
                                                {"tx_queue_0_xdp_xmit", 6},
                                                {"tx_queue_0_xdp_xmit_errors", 900},
                                                {0},
                                            });
    struct driver_counts older = sum("virtio_net", (const struct statistic[]){
                                                       {"rx_queue_0_xdp_tx", 100},
                                                       {"tx_queue_0_xdp_tx", 100},
                                                       {"tx_queue_0_xdp_tx_drops", 60},
                                                       {0},
                                                   });
    struct driver_counts newer = sum("virtio_net", (const struct statistic[]){
                                                       {"rx0_xdp_tx", 100},
                                                       {"tx0_xdp_tx", 100},
                                                       {"tx0_xdp_tx_drops", 60},
                                                       {0},
                                                   });
    struct driver_counts mlx5 = sum("mlx5_core", (const struct statistic[]){
                                                     {"rx_xdp_tx_full", 10},
                                                     {"rx_xdp_tx_err", 2},
                                                     {"rx0_xdp_tx_full", 10},
                                                     {"rx0_xdp_tx_err", 2},
                                                     {"rx_xdp_tx_xmit", 5000},
                                                     {"rx_xdp_redirect", 5000},
                                                     {0},
                                                 });
    struct driver_counts gve = sum("gve", (const struct statistic[]){
                                              {"rx_xdp_tx_errors[0]", 3},
                                              {"rx_xdp_tx_errors[1]", 4},
                                              {"rx_xdp_redirect_errors[1]", 100},
                                              {"a name of all thirty-two letters", 1},
                                              {0},
                                          });

    ok(veth.counts_sent && veth.is_veth && veth.sent == 7 && veth.lost == 50,
       "a veth counts what left, and what was lost");
    ok(older.counts_sent && !older.is_veth && older.sent == 40 && older.lost == 60,
       "virtio_net counts what it tried to send");
    ok(newer.counts_sent && newer.sent == 40 && newer.lost == 60,
       "so it does by the names that it has since Linux 6.9");
    ok(!mlx5.counts_sent && mlx5.lost == 12, "one frame in two counts was lost once");
    ok(!gve.counts_sent && gve.lost == 7, "counts of queues alone are added");
}

/* How the driver's counts, and that of the answers, are at one look after another. */
static void test_verdicts(void)
{
    struct sending sending = {0};
    struct sending_view view = {.counts = {.counts_sent = true, .sent = 100, .lost = 5}};

    ok(sending_judge(&sending, 100, &view) == SENDING_FINE, "the first look finds nothing");
    view.counts.sent = 110;
    ok(sending_judge(&sending, 110, &view) == SENDING_FINE, "all left");
    view.counts.sent = 120, view.counts.lost = 6;
    ok(sending_judge(&sending, 120, &view) == SENDING_MIXED, "one was lost");
    view.counts.lost = 9;
    ok(sending_judge(&sending, 123, &view) == SENDING_MIXED, "all three were lost");
    ok(sending_judge(&sending, 124, &view) == SENDING_FINE, "none was sent");
    view.counts.lost = 10;
    ok(sending_judge(&sending, 125, &view) == SENDING_LOST && sending.nlost == 1,
       "the fourth was lost, and none was sent between");
    view.counts.sent = 121;
    sending_judge(&sending, 126, &view);
    view.counts.lost = 13;
    ok(sending_judge(&sending, 129, &view) == SENDING_MIXED, "one that left begins the count anew");
    view.counts = (struct driver_counts){.counts_sent = true, .sent = 0, .lost = 0};
    ok(sending_judge(&sending, 130, &view) == SENDING_FINE, "the driver began to count anew");
    view.counts.lost = 4;
    ok(sending_judge(&sending, 127, &view) == SENDING_LOST, "then the only ones were lost");
    view.counts.is_veth = true;
    view.counts.lost = 5;
    ok(sending_judge(&sending, 128, &view) == SENDING_LOST, "of a veth one says enough");
    view.counts.sent = 1, view.counts.lost = 6;
    ok(sending_judge(&sending, 129, &view) == SENDING_FINE, "a veth's ring was full");
    view.is_deaf = true;
    ok(sending_judge(&sending, 124, &view) == SENDING_FINE, "nothing is asked of a deaf veth");
    view.counts.sent = 4;
    ok(sending_judge(&sending, 127, &view) == SENDING_LOST && sending.nlost == 3,
       "what it sends is lost");
    view.redirects = true;
    ok(sending_judge(&sending, 132, &view) == SENDING_LOST && sending.nlost == 5,
       "of a bond, what it redirects to another port");
}

/* Of a driver that does not count what left. */
static void test_rough_verdicts(void)
{
    struct sending sending = {0};
    struct sending_view view = {0};

    sending_judge(&sending, 1000, &view);
    view.counts.lost = 500;
    ok(sending_judge(&sending, 2000, &view) == SENDING_MIXED, "half of the answers were lost");
    view.counts.lost = 1490;
    ok(sending_judge(&sending, 3000, &view) == SENDING_LOST, "nearly all were lost");
    ok(sending_judge(&sending, 4000, &view) == SENDING_FINE, "none was lost");
}

static void test_waits(void)
{
    struct attachment at = {.sending = {.counts = {.is_veth = true}}};
    struct sending *sending = &at.sending;
    const struct hostnet none = {0};

    sending_fail(sending, 1000);
    ok(sending->again == 1001, "a veth may be native again after a second,");
    sending->tried = 1001;
    sending_fail(sending, 1003);
    ok(sending->again == 1005, "after two if it fails again soon,");
    sending->tried = 1005;
    sending_fail(sending, 1100);
    ok(sending->again == 1101, "after one if it has worked for a while");
    for (int i = 0; i < 10; i++) {
        sending->tried = sending->again;
        sending_fail(sending, sending->tried + 1);
    }
    ok(sending->again - sending->tried == 65, "it never waits for longer than 64");
    *sending = (struct sending){0};
    sending_fail(sending, 1000);
    ok(!sending_again(&at, &none, 1059), "another driver is not tried again before,");
    ok(sending_again(&at, &none, 1060), "but after a minute");
    sending_fail(sending, 1061);
    ok(sending->again == 1181, "and later each time");
}

int main(void)
{
    test_names();
    test_verdicts();
    test_rough_verdicts();
    test_waits();
    return done();
}
