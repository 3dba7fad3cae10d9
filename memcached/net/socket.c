/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "bpf/shared/layout.h"

enum { TAG_MAX = 8 /* memcached's */ };

/* "HOST", "HOST:PORT", "[V6]", "[V6]:PORT", "V6", "*". */
static bool split_word(const char *text, size_t len, struct socket_word *word)
{
    const char *end = text + len;
    const char *colon = memrchr(text, ':', len);
    const char *host_end = end;
    char *digits_end;

    word->port = 0;
    if (len > 0 && text[0] == '[') {
        host_end = memchr(text, ']', len);
        if (!host_end || (host_end + 1 != end && host_end[1] != ':'))
            return false;
        text++;
        colon = host_end + 1 == end ? NULL : host_end + 1;
    } else if (colon && memchr(text, ':', (size_t)(colon - text))) {
        colon = NULL; /* an IPv6 address without brackets */
    } else if (colon) {
        host_end = colon;
    }
    if (colon) {
        long port = strtol(colon + 1, &digits_end, 10);

        if (digits_end == colon + 1 || digits_end != end || port < 1 || port > UINT16_MAX)
            return false;
        word->port = (int32_t)port;
    }
    snprintf(word->host, sizeof(word->host), "%.*s", (int)(host_end - text), text);
    if (strcmp(word->host, "*") == 0)
        word->host[0] = '\0';
    return true;
}

static bool begins(struct slice text, struct slice with)
{
    return text.len >= with.len && memcmp(text.ptr, with.ptr, with.len) == 0;
}

/* Cuts "NAME[VALUE]:" off the text, if that begins with `name`, "NAME[". False: it has no end. */
static bool cut_bracket(struct slice *text, struct slice name, struct slice *value)
{
    const char *end;

    value->ptr = NULL;
    if (!begins(*text, name))
        return true;
    end = memchr(text->ptr, ']', text->len);
    if (!end || end + 1 == text->ptr + text->len || end[1] != ':')
        return false;
    *value = (struct slice){text->ptr + name.len, (size_t)(end - text->ptr) - name.len};
    text->len -= (size_t)(end + 2 - text->ptr);
    text->ptr = end + 2;
    return true;
}

static bool set_protocol(struct socket_word *word, struct slice name)
{
    static const struct slice names[] = {
        [PROTOCOL_ANY] = {"negotiating", 11},
        [PROTOCOL_TEXT] = {"ascii", 5},
        [PROTOCOL_BINARY] = {"binary", 6},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (slice_equal(name, names[i])) {
            word->protocol = (enum protocol)i;
            word->has_protocol = true;
        }
    }
    return word->has_protocol;
}

/* Cuts off what stands before the address. NULL, or what is wrong. */
static const char *cut_prefixes(struct slice *text, struct socket_word *word)
{
    const struct slice notls = SLICE("notls:");
    struct slice value;

    word->notls = begins(*text, notls);
    if (word->notls)
        *text = (struct slice){text->ptr + notls.len, text->len - notls.len};
    word->has_protocol = false;
    if (!cut_bracket(text, SLICE("proto["), &value) || (value.ptr && !set_protocol(word, value)))
        return "The protocol in -l must be proto[ascii]:, proto[binary]: or proto[negotiating]:";
    if (!cut_bracket(text, SLICE("tag["), &value))
        return "The tag in -l must be tag[NAME]:";
    if (value.ptr && (value.len < 1 || value.len > TAG_MAX || memchr(value.ptr, '[', value.len)))
        return "The tag in -l must have 1 to 8 characters";
    return NULL;
}

int socket_next_word(const char **list, struct socket_word *word)
{
    struct slice whole, text;

    *list += strspn(*list, ",; ");
    whole = text = (struct slice){*list, strcspn(*list, ",; ")};
    if (text.len == 0)
        return 0;
    word->wrong = cut_prefixes(&text, word);
    if (!word->wrong &&
        (text.len == 0 || text.len >= sizeof(word->host) || !split_word(text.ptr, text.len, word)))
        word->wrong = "Invalid address or port in -l";
    if (word->wrong) {
        snprintf(word->host, sizeof(word->host), "%.*s", (int)whole.len, whole.ptr);
        return -1;
    }
    *list += whole.len;
    return 1;
}

int socket_local(int fd, struct socket_name *name)
{
    name->len = sizeof(name->address);
    return getsockname(fd, (struct sockaddr *)&name->address, &name->len) == 0 ? 0 : -errno;
}

uint16_t socket_port(const struct socket_name *name)
{
    /* The port is at the same place in both. */
    return ntohs(((const struct sockaddr_in *)&name->address)->sin_port);
}

bool socket_is_any(const struct socket_name *name)
{
    if (name->address.ss_family == AF_INET)
        return ((const struct sockaddr_in *)&name->address)->sin_addr.s_addr == INADDR_ANY;
    return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)&name->address)->sin6_addr);
}

static void unix_text(char *out, size_t size, const struct socket_name *name)
{
    const struct sockaddr_un *address = (const struct sockaddr_un *)&name->address;
    size_t len = name->len - offsetof(struct sockaddr_un, sun_path);

    /* The path need not end in a NUL; a client's is empty. */
    snprintf(out, size, "unix:%.*s", (int)strnlen(address->sun_path, len), address->sun_path);
}

static void inet_text(char *out, size_t size, const struct sockaddr_storage *address,
                      const char *protocol)
{
    char host[INET6_ADDRSTRLEN] = "";
    /* The port is at the same place in both. */
    unsigned int port = ntohs(((const struct sockaddr_in *)address)->sin_port);

    if (address->ss_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, host, sizeof(host));
        snprintf(out, size, "%s:%s:%u", protocol, host, port);
    } else {
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, host, sizeof(host));
        snprintf(out, size, "%s6:[%s]:%u", protocol, host, port);
    }
}

void socket_text(char *out, size_t size, int fd, bool peer)
{
    struct socket_name name = {.len = sizeof(name.address)};
    int type = SOCK_STREAM;
    socklen_t len = sizeof(type);
    int failed = peer ? getpeername(fd, (struct sockaddr *)&name.address, &name.len)
                      : getsockname(fd, (struct sockaddr *)&name.address, &name.len);

    if (failed) {
        snprintf(out, size, "<unknown>");
        return;
    }
    if (name.address.ss_family == AF_UNIX) {
        unix_text(out, size, &name);
        return;
    }
    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len);
    inet_text(out, size, &name.address, type == SOCK_DGRAM ? "udp" : "tcp");
}

/* No other machine can use such a source: Linux drops it from outside. */
static bool is_own_source(const struct sockaddr_storage *own, const struct sockaddr_storage *peer)
{
    const struct sockaddr_in6 *own6 = (const struct sockaddr_in6 *)own;
    const struct sockaddr_in6 *peer6 = (const struct sockaddr_in6 *)peer;
    const struct in6_addr *from = &peer6->sin6_addr;
    in_addr_t from4 = ((const struct sockaddr_in *)peer)->sin_addr.s_addr;

    if (peer->ss_family == AF_INET)
        return from4 == ((const struct sockaddr_in *)own)->sin_addr.s_addr ||
               ntohl(from4) >> 24 == IN_LOOPBACKNET;
    return peer->ss_family == AF_INET6 &&
           (IN6_ARE_ADDR_EQUAL(from, &own6->sin6_addr) || IN6_IS_ADDR_LOOPBACK(from) ||
            (IN6_IS_ADDR_V4MAPPED(from) && from->s6_addr[12] == IN_LOOPBACKNET));
}

bool socket_is_local(int fd)
{
    struct socket_name own = {.len = sizeof(own.address)}, peer = {.len = sizeof(peer.address)};

    if (getsockname(fd, (struct sockaddr *)&own.address, &own.len) ||
        getpeername(fd, (struct sockaddr *)&peer.address, &peer.len))
        return false;
    return own.address.ss_family == AF_UNIX || is_own_source(&own.address, &peer.address);
}

void socket_source_text(char *out, size_t size, const struct sockaddr_storage *source)
{
    inet_text(out, size, source, "udp");
}

bool socket_is_unanswerable(const struct sockaddr_storage *source, uint16_t own_port)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)source;
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)source)->sin6_addr;
    uint64_t half[2];

    if (mc_port_is_unanswerable(in->sin_port, htons(own_port)))
        return true;
    if (source->ss_family == AF_INET)
        return mc_source4_is_unanswerable((uint8_t)(ntohl(in->sin_addr.s_addr) >> 24));
    memcpy(half, in6, sizeof(half));
    return mc_source6_is_unanswerable(in6->s6_addr[0], half[0], half[1]);
}

static void set_flag(int fd, int level, int option)
{
    const int one = 1;

    setsockopt(fd, level, option, &one, sizeof(one));
}

/*
 * Requests that come while the worker waits for a CPU wait here. Linux's default has room for 256
 * short ones, which a busy machine's scheduler makes too few. It takes what net.core.rmem_max
 * allows, and doubles it.
 */
static void enlarge_receive_buffer(int fd)
{
    const int wanted = 512 * 1024;
    int now = 0;
    socklen_t len = sizeof(now);

    if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &now, &len) == 0 && now < 2 * wanted)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof(wanted));
}

static int close_failed(int fd)
{
    int error = -errno;

    close(fd);
    return error;
}

static int open_bound(const struct sockaddr *address, socklen_t len, int family, int type,
                      bool reuseport)
{
    int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    if (type == SOCK_STREAM)
        set_flag(fd, SOL_SOCKET, SO_REUSEADDR); /* for UDP it would share the port */
    if (family == AF_INET6)
        set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY);
    if (reuseport)
        set_flag(fd, SOL_SOCKET, SO_REUSEPORT);
    if (bind(fd, address, len) != 0)
        return close_failed(fd);
    return fd;
}

/* Accepted sockets inherit the flags. */
static int begin_to_listen(int fd, int backlog)
{
    set_flag(fd, SOL_SOCKET, SO_KEEPALIVE);
    set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
    return listen(fd, backlog) != 0 ? close_failed(fd) : fd;
}

int socket_open_tcp(const struct sockaddr *address, socklen_t len, int family, int backlog)
{
    int fd = open_bound(address, len, family, SOCK_STREAM, false);

    return fd < 0 ? fd : begin_to_listen(fd, backlog);
}

static void prepare_udp(int fd, int family)
{
    const int largest = 1 << 28; /* the kernel takes what net.core.wmem_max allows */
    struct socket_name name;

    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &largest, sizeof(largest));
    enlarge_receive_buffer(fd);
    /* Bound to any address, a reply must leave from the address that the request was sent to. */
    if (socket_local(fd, &name) == 0 && socket_is_any(&name)) {
        if (family == AF_INET)
            set_flag(fd, IPPROTO_IP, IP_PKTINFO);
        else
            set_flag(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO);
    }
}

int socket_open_udp(const struct sockaddr *address, socklen_t len, int family, bool reuseport)
{
    int fd = open_bound(address, len, family, SOCK_DGRAM, reuseport);

    if (fd >= 0)
        prepare_udp(fd, family);
    return fd;
}

/* --- one that was kept ------------------------------------------------- */

/* -1: it has none. */
static long long option_of(int fd, int level, int option)
{
    long long value = 0;
    socklen_t n = sizeof(value);

    return getsockopt(fd, level, option, &value, &n) == 0 ? value : -1;
}

/* A unit's PrivateNetwork= may have changed. */
static bool is_in_namespace_of(int fd, int other)
{
    long long cookie = option_of(fd, SOL_SOCKET, SO_NETNS_COOKIE);

    return cookie > 0 && cookie == option_of(other, SOL_SOCKET, SO_NETNS_COOKIE);
}

static bool is_bound_to(int fd, const struct sockaddr *address, socklen_t len)
{
    struct socket_name own, peer = {.len = sizeof(peer.address)};

    return socket_local(fd, &own) == 0 && own.len == len &&
           memcmp(&own.address, address, len) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer.address, &peer.len) != 0;
}

/* Whether open_bound would have made it. */
static bool is_bound_so(int fd, const struct sockaddr *address, socklen_t len, int type,
                        bool reuseport)
{
    int family = address->sa_family, other = socket(family, type | SOCK_CLOEXEC, 0);
    bool same =
        other >= 0 && option_of(fd, SOL_SOCKET, SO_DOMAIN) == family &&
        option_of(fd, SOL_SOCKET, SO_PROTOCOL) == option_of(other, SOL_SOCKET, SO_PROTOCOL) &&
        is_in_namespace_of(fd, other) && is_bound_to(fd, address, len);

    if (other >= 0)
        close(other);
    if (family == AF_INET6)
        same = same && option_of(fd, IPPROTO_IPV6, IPV6_V6ONLY) == 1;
    if (family != AF_UNIX)
        same = same && option_of(fd, SOL_SOCKET, SO_REUSEPORT) == reuseport &&
               option_of(fd, SOL_SOCKET, SO_BINDTOIFINDEX) == 0;
    return same && option_of(fd, SOL_SOCKET, SO_ACCEPTCONN) == (type == SOCK_STREAM);
}

/* A filter would be one of the process before. False: it cannot be taken away. */
static bool take_over(int fd)
{
    return (setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &fd, sizeof(fd)) == 0 ||
            errno == ENOENT) &&
           fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0;
}

bool socket_take_tcp(int fd, const struct sockaddr *address, socklen_t len, int backlog)
{
    return is_bound_so(fd, address, len, SOCK_STREAM, false) && take_over(fd) &&
           listen(fd, backlog) == 0;
}

bool socket_take_unix(int fd, const char *path, int backlog)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);

    if (len >= sizeof(address.sun_path))
        return false;
    strcpy(address.sun_path, path);
    len += offsetof(struct sockaddr_un, sun_path) + 1;
    return is_bound_so(fd, (const struct sockaddr *)&address, (socklen_t)len, SOCK_STREAM, false) &&
           take_over(fd) && listen(fd, backlog) == 0;
}

bool socket_take_udp(int fd, const struct sockaddr *address, socklen_t len, bool reuseport)
{
    if (!is_bound_so(fd, address, len, SOCK_DGRAM, reuseport) || !take_over(fd))
        return false;
    prepare_udp(fd, address->sa_family);
    return true;
}

int socket_open_unix(const char *path, uint32_t access_mask, int backlog)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    mode_t old_mask;
    int fd, failed;

    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    /* Replaces the socket of an earlier server, and no other kind of file. */
    if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode))
        unlink(path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    old_mask = umask(~access_mask & 0777);
    failed = bind(fd, (const struct sockaddr *)&address, sizeof(address));
    umask(old_mask);
    if (failed || listen(fd, backlog) != 0)
        return close_failed(fd);
    return fd;
}

int socket_steer_by_cpu(int fd, unsigned int nsockets)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_AD_OFF + SKF_AD_CPU),
        BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, nsockets),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    struct sock_fprog program;

    memset(&program, 0, sizeof(program)); /* its padding is copied too */
    program.len = sizeof(code) / sizeof(code[0]);
    program.filter = code;
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) != 0)
        return -errno;
    return 0;
}

void socket_set_reset(int fd, bool on)
{
    const struct linger linger = {.l_onoff = on};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static int get_option(int fd, int name, int *value)
{
    socklen_t n = sizeof(*value);

    return getsockopt(fd, IPPROTO_TCP, name, value, &n);
}

static void set_keepalive(int fd, int idle, int count)
{
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    /* A connection that has been idle for longer than this is probed at once. */
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
}

void socket_probe(int fd, struct socket_keepalive *before)
{
    const int most = 127; /* probes without an answer, before the connection ends */

    if (!before->idle && (get_option(fd, TCP_KEEPCNT, &before->count) ||
                          get_option(fd, TCP_KEEPIDLE, &before->idle)))
        return;
    set_keepalive(fd, 1, most);
}

void socket_calm(int fd, struct socket_keepalive *before)
{
    const int most = 32767; /* seconds that Linux takes, where its own default may be longer */

    if (before->idle)
        set_keepalive(fd, before->idle < most ? before->idle : most, before->count);
    before->idle = 0;
}
