/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of -l, and sockets' names. */
#include "net/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/udp.h"
#include "t/lib/tap.h"

struct word_case {
    const char *text, *host;
    int32_t port;
    int got;
};

static const struct word_case words[] = {
    {"1.2.3.4", "1.2.3.4", 0, 1},
    {"1.2.3.4:5", "1.2.3.4", 5, 1},
    {"localhost:11211", "localhost", 11211, 1},
    {"*", "", 0, 1},
    {"*:7", "", 7, 1},
    {"::1", "::1", 0, 1},
    {"[::1]", "::1", 0, 1},
    {"[fe80::1%lo]:9", "fe80::1%lo", 9, 1},
    {"", "", 0, 0},
    {",;,", "", 0, 0},
    {"a:", "a:", 0, -1},
    {"a:x", "a:x", 0, -1},
    {"a:70000", "a:70000", 0, -1},
    {"a:0", "a:0", 0, -1},
    {"a:1x", "a:1x", 0, -1},
    {"[::1", "[::1", 0, -1},
    {"[::1]x", "[::1]x", 0, -1},
    {"tag[a]:1.2.3.4", "1.2.3.4", 0, 1},
    {"tag[123456789]:[::1]:9", "tag[123456789]:[::1]:9", 0, -1},
    {"tag[a-b_8900]", "tag[a-b_8900]", 0, -1},
    {"tag[12345678]:[::1]:9", "::1", 9, 1},
    {"tag[]:a", "tag[]:a", 0, -1},
    {"tag[a:[::1]:9", "tag[a:[::1]:9", 0, -1},
    {"tag[a", "tag[a", 0, -1},
    {"tag[a]", "tag[a]", 0, -1},
    {"tag[a]:", "tag[a]:", 0, -1},
    {"tag[a]b", "tag[a]b", 0, -1},
    {"notls:proto[ascii]:tag[a]:*:7", "", 7, 1},
    {"notls:", "notls:", 0, -1},
    {"proto[ascii]:notls:a", "proto[ascii]:notls:a", 0, -1},
};

static const struct {
    const char *text;
    bool given;
    enum protocol protocol;
    const char *wrong;
} protocol_words[] = {
    {"1.2.3.4", false, PROTOCOL_ANY, NULL},
    {"tag[a]:1.2.3.4", false, PROTOCOL_ANY, NULL},
    {"proto[ascii]:1.2.3.4:5", true, PROTOCOL_TEXT, NULL},
    {"proto[binary]:tag[a]:[::1]:5", true, PROTOCOL_BINARY, NULL},
    {"proto[negotiating]:*", true, PROTOCOL_ANY, NULL},
    {"proto[]:a", false, PROTOCOL_ANY, "proto[ascii]:, proto[binary]: or"},
    {"proto[auto]:a", false, PROTOCOL_ANY, "proto[ascii]:, proto[binary]: or"},
    {"proto[asciix]:a", false, PROTOCOL_ANY, "proto[ascii]:, proto[binary]: or"},
    {"proto[asci]:a", false, PROTOCOL_ANY, "proto[ascii]:, proto[binary]: or"},
    {"proto[ascii:a", false, PROTOCOL_ANY, "proto[ascii]:, proto[binary]: or"},
    {"proto[ascii]:", true, PROTOCOL_TEXT, "Invalid address or port"},
    {"proto[ascii]:tag[]:a", true, PROTOCOL_TEXT, "1 to 8 characters"},
    {"proto[ascii]:tag[123456789]:a", true, PROTOCOL_TEXT, "1 to 8 characters"},
    {"tag[a", false, PROTOCOL_ANY, "must be tag[NAME]:"},
};

static void words_choose_a_protocol(void)
{
    for (size_t i = 0; i < COUNT(protocol_words); i++) {
        const char *list = protocol_words[i].text, *wrong = protocol_words[i].wrong;
        struct socket_word word = {.host = ""};
        int got = socket_next_word(&list, &word);

        ok(wrong ? got == -1 && strstr(word.wrong, wrong) &&
                       strcmp(word.host, protocol_words[i].text) == 0
                 : got == 1 && word.has_protocol == protocol_words[i].given &&
                       (!word.has_protocol || word.protocol == protocol_words[i].protocol),
           "-l %s: %s", protocol_words[i].text, wrong ? word.wrong : "taken");
    }
}

static void words_are_taken_apart(void)
{
    for (size_t i = 0; i < COUNT(words); i++) {
        const struct word_case *c = &words[i];
        struct socket_word word = {.host = ""};
        const char *list = c->text;
        int got = socket_next_word(&list, &word);

        ok(got == c->got && (got != 1 || (strcmp(word.host, c->host) == 0 && word.port == c->port)),
           "-l %s", c->text);
    }
}

static void lists_are_walked(void)
{
    const char *list = "a:1,b;  [::2]:3,";
    struct socket_word word;

    ok(socket_next_word(&list, &word) == 1 && strcmp(word.host, "a") == 0,
       "the first word of a list");
    ok(socket_next_word(&list, &word) == 1 && strcmp(word.host, "b") == 0 && word.port == 0,
       "a semicolon separates words, too");
    ok(socket_next_word(&list, &word) == 1 && strcmp(word.host, "::2") == 0 && word.port == 3,
       "the third");
    ok(socket_next_word(&list, &word) == 0, "a comma at the end begins no further word");
}

static void sockets_have_names(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    char text[128], wanted[128];
    struct socket_name name;
    int fd;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = socket_open_udp((struct sockaddr *)&address, sizeof(address), AF_INET, true);
    ok(fd >= 0 && socket_local(fd, &name) == 0 && socket_port(&name) != 0,
       "a socket's name has its port");
    ok(!socket_is_any(&name), "a socket on 127.0.0.1 does not listen on every address");
    socket_text(text, sizeof(text), fd, false);
    snprintf(wanted, sizeof(wanted), "udp:127.0.0.1:%u", socket_port(&name));
    ok(strcmp(text, wanted) == 0, "a UDP socket's name is %s", text);
    close(fd);
    ok(socket_open_unix("/a/path/that/is/far/too/long/for/a/socket/address/and/so/it/is/refused/"
                        "before/it/is/looked/at/by/anybody/else",
                        0700, 1) == -ENAMETOOLONG,
       "a unix path that is too long is refused");
}

static void replies_are_split(void)
{
    ok(udp_ndatagrams(0) == 0, "an empty reply is no datagram");
    ok(udp_ndatagrams(1) == 1, "one byte is one datagram");
    ok(udp_ndatagrams(1392) == 1, "1,392 bytes are one datagram");
    ok(udp_ndatagrams(1393) == 2, "1,393 bytes are two datagrams");
    ok(udp_ndatagrams((size_t)1392 * 65535) == 65535,
       "the largest reply has as many datagrams as the header can count");
    ok(udp_ndatagrams((size_t)1392 * 65535 + 1) == 0, "a larger reply cannot be sent");
}

int main(void)
{
    words_are_taken_apart();
    words_choose_a_protocol();
    lists_are_walked();
    sockets_have_names();
    replies_are_split();
    return done();
}
