/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * relay: the cable between two tap devices. Hands every frame that comes out of the one to the
 * other, until standard input ends or a signal comes. A tap takes one frame a call.
 */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/options.h"

enum { FRAME_MAX = 65536, TURN = 64 };

static const struct option_table table = {
    "usage: relay FD FD\n"
    "Copies frames between two tap devices that are open and do not block.",
    NULL, 0};

/* Hands over what is there, a turn's worth. What the other side has no room for is lost. */
static void carry(int from, int to)
{
    static uint8_t frame[FRAME_MAX];

    for (int i = 0; i < TURN; i++) {
        ssize_t n = read(from, frame, sizeof(frame));

        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            fail("read: %s", strerror(errno));
        if (write(to, frame, (size_t)n) < 0 && errno != EAGAIN && errno != ENOBUFS && errno != EIO)
            fail("write: %s", strerror(errno));
    }
}

int main(int argc, char **argv)
{
    struct pollfd polled[3] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    int operand = options_parse(&table, NULL, argc, argv);

    if (operand != argc - 2)
        usage_error("%s", table.usage);
    for (int i = 1; i <= 2; i++)
        polled[i] = (struct pollfd){.fd = atoi(argv[operand + i - 1]), .events = POLLIN};
    while (!polled[0].revents) {
        if (poll(polled, 3, -1) < 0)
            fail("poll: %s", strerror(errno));
        for (int i = 1; i <= 2; i++)
            if (polled[i].revents)
                carry(polled[i].fd, polled[3 - i].fd);
    }
    return 0;
}
