/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * testapp: starts the memcached-debug that lies beside it and talks to it: text over TCP and UDP,
 * and binary. TAP on standard output, exit status 0 if all is well. memcached's own `make test`
 * runs a program of this name.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t/lib/tap.h"

enum { START_MS = 20000, ANSWER_MS = 5000, ANSWER_MAX = 4096, FRAME = 8 };

struct exchange {
    const char *name;
    const char *request, *answer;
};

static const struct exchange text[] = {
    {"set stores a value", "set k 5 0 3\r\nabc\r\n", "STORED\r\n"},
    {"get returns it", "get k\r\n", "VALUE k 5 3\r\nabc\r\nEND\r\n"},
    {"add keeps an existing value", "add k 0 0 1\r\nx\r\n", "NOT_STORED\r\n"},
    {"append adds to the value", "append k 0 0 1\r\nd\r\n", "STORED\r\n"},
    {"a get of several keys returns those that exist", "set n 0 0 1\r\n9\r\nget k none n\r\n",
     "STORED\r\nVALUE k 5 4\r\nabcd\r\nVALUE n 0 1\r\n9\r\nEND\r\n"},
    {"incr adds to a number", "incr n 3\r\n", "12\r\n"},
    {"decr stops at 0", "decr n 20\r\n", "0\r\n"},
    {"incr of a word is an error", "incr k 1\r\n",
     "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"},
    {"touch of an existing key", "touch k 100\r\n", "TOUCHED\r\n"},
    {"get misses after delete", "delete k\r\nget k\r\n", "DELETED\r\nEND\r\n"},
    {"noreply suppresses the reply", "set k 0 0 1 noreply\r\nx\r\nget k\r\n",
     "VALUE k 0 1\r\nx\r\nEND\r\n"},
    {"mg returns the value", "mg k v\r\n", "VA 1\r\nx\r\n"},
    {"a wrong length is an error", "set k 0 0 1\r\nabc\r\n",
     "CLIENT_ERROR bad data chunk\r\nERROR\r\n"},
    {"an unknown command is an error", "nonsense\r\n", "ERROR\r\n"},
    {"get misses after flush_all", "flush_all\r\nget n\r\n", "OK\r\nEND\r\n"},
};

/* A binary request or answer, its length with it: there are NULs inside. */
struct packet {
    const char *bytes;
    size_t len;
};

#define PACKET(text)                                                                               \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static const struct {
    const char *name;
    struct packet request, answer;
} binary[] = {
    {"binary: noop", PACKET("\x80\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0"),
     PACKET("\x81\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0")},
    {"binary: a miss", PACKET("\x80\0\0\1\0\0\0\0\0\0\0\1\0\0\0\2\0\0\0\0\0\0\0\0z"),
     PACKET("\x81\0\0\0\0\0\0\1\0\0\0\x09\0\0\0\2\0\0\0\0\0\0\0\0Not found")},
    {"binary: setq and getq in one packet",
     PACKET("\x80\x11\0\1\x08\0\0\0\0\0\0\x0a\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0bv"
            "\x80\x09\0\1\0\0\0\0\0\0\0\1\0\0\0\4\0\0\0\0\0\0\0\0c"
            "\x80\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\0"),
     PACKET("\x81\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\0")},
    {"binary: delete", PACKET("\x80\4\0\1\0\0\0\0\0\0\0\1\0\0\0\6\0\0\0\0\0\0\0\0b"),
     PACKET("\x81\4\0\0\0\0\0\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\0")},
};

/* --- the server -------------------------------------------------------- */

static void program_beside(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    char *slash;

    path[n < 0 ? 0 : n] = '\0';
    slash = strrchr(path, '/');
    snprintf(slash ? slash + 1 : path, size - (slash ? (size_t)(slash + 1 - path) : 0),
             "memcached-debug");
}

static pid_t start(const char *ports)
{
    char path[PATH_MAX];
    pid_t child;

    program_beside(path, sizeof(path));
    setenv("MEMCACHED_PORT_FILENAME", ports, 1);
    child = fork();
    if (child == 0) {
        execl(path, path, "-l", "127.0.0.1", "-p", "-1", "-U", "-1", "-t", "2", "-u", "nobody",
              (char *)NULL);
        perror(path);
        _exit(127);
    }
    return child;
}

/* The server writes its ports as the user that it becomes. */
static bool give_away(const char *directory)
{
    const struct passwd *user = getpwnam("nobody");

    return geteuid() != 0 || (user && chown(directory, user->pw_uid, user->pw_gid) == 0);
}

/* The ports that the server wrote down; false if it did not. */
static bool read_ports(const char *path, uint16_t *tcp, uint16_t *udp)
{
    for (int ms = 0; ms < START_MS; ms += 10) {
        FILE *file = fopen(path, "re");
        int n = file ? fscanf(file, "TCP INET: %hu UDP INET: %hu", tcp, udp) : 0;

        if (file)
            fclose(file);
        if (n == 2)
            return true;
        poll(NULL, 0, 10);
    }
    return false;
}

static int reach(int type, uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* --- exchanges --------------------------------------------------------- */

/* Reads `want` bytes, or what there is until the time is over. */
static size_t receive(int fd, char *answer, size_t want)
{
    size_t got = 0;

    while (got < want) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        ssize_t n = poll(&ready, 1, ANSWER_MS) == 1 ? read(fd, answer + got, want - got) : 0;

        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return got;
}

static bool answers(int fd, struct packet request, struct packet want)
{
    char got[ANSWER_MAX];

    return write(fd, request.bytes, request.len) == (ssize_t)request.len &&
           receive(fd, got, want.len) == want.len && memcmp(got, want.bytes, want.len) == 0;
}

static void text_over_tcp(uint16_t port)
{
    int fd = reach(SOCK_STREAM, port);

    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
        const struct exchange *e = &text[i];

        ok(answers(fd, (struct packet){e->request, strlen(e->request)},
                   (struct packet){e->answer, strlen(e->answer)}),
           "%s", e->name);
    }
    close(fd);
}

static void binary_over_tcp(uint16_t port)
{
    int fd = reach(SOCK_STREAM, port);

    for (size_t i = 0; i < sizeof(binary) / sizeof(binary[0]); i++)
        ok(answers(fd, binary[i].request, binary[i].answer), "%s", binary[i].name);
    close(fd);
}

static void text_over_udp(uint16_t port)
{
    static const struct packet set = PACKET("\0\1\0\0\0\1\0\0set u 0 0 2\r\nhi\r\n");
    static const struct packet get = PACKET("\0\2\0\0\0\1\0\0get u\r\n");
    static const struct packet stored = PACKET("\0\1\0\0\0\1\0\0STORED\r\n");
    static const struct packet value = PACKET("\0\2\0\0\0\1\0\0VALUE u 0 2\r\nhi\r\nEND\r\n");
    int fd = reach(SOCK_DGRAM, port);

    ok(answers(fd, set, stored), "UDP: set stores a value");
    ok(answers(fd, get, value), "UDP: get returns it");
    close(fd);
}

static void exits_on_sigterm(pid_t child)
{
    int status = -1;

    kill(child, SIGTERM);
    waitpid(child, &status, 0);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the server exits with status 0 on SIGTERM");
}

int main(void)
{
    char directory[] = "/tmp/testapp-XXXXXX";
    char ports[sizeof(directory) + 8];
    uint16_t tcp = 0, udp = 0;
    pid_t child;

    signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(directory) || !give_away(directory)) {
        perror(directory);
        return 1;
    }
    snprintf(ports, sizeof(ports), "%s/ports", directory);
    child = start(ports);
    if (ok(child > 0 && read_ports(ports, &tcp, &udp), "the server starts")) {
        text_over_tcp(tcp);
        binary_over_tcp(tcp);
        text_over_udp(udp);
    }
    if (child > 0)
        exits_on_sigterm(child);
    unlink(ports);
    rmdir(directory);
    return done();
}
