/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/credentials.h"
#include "base/kept.h"
#include "base/log.h"
#include "base/notify.h"
#include "net/socket.h"

/* What is being opened, and where the error message goes. */
struct opening {
    struct listening *listening;
    const struct net_config *config;
    char *error;
    size_t nerror;
    bool tls; /* of the streams that are being opened */
    enum protocol protocol;
};

/* --- what was kept ------------------------------------------------------ */

/* A socket's name in the store: what it is, so that the next process finds it by what it wants. */
struct kept_name {
    char text[NOTIFY_NAME + 1];
};

/* number: among those of the address. Colons separate names. */
static void name_inet(struct kept_name *out, const char *kind, const struct sockaddr *address,
                      unsigned int number)
{
    char host[INET6_ADDRSTRLEN + 16] = "", port[8] = "";
    socklen_t len =
        address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

    getnameinfo(address, len, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    for (char *at = strchr(host, ':'); at; at = strchr(at, ':'))
        *at = '_';
    snprintf(out->text, sizeof(out->text), KEPT_PREFIX "%s-%s-%s-%u", kind, host, port, number);
}

/* By its inode: another socket may have come to the path. False: there is none with this mode. */
static bool name_unix(struct kept_name *out, const char *path, uint32_t access_mask)
{
    struct stat status;

    if (lstat(path, &status) != 0 || !S_ISSOCK(status.st_mode) ||
        (status.st_mode & 0777) != (access_mask & 0777))
        return false;
    snprintf(out->text, sizeof(out->text), KEPT_PREFIX "unix-%llx-%llx",
             (unsigned long long)status.st_dev, (unsigned long long)status.st_ino);
    return true;
}

/* The one of the name, if it is as wanted; -1: none is. */
static int check_kept(struct kept *kept, const struct kept_name *name, int fd, bool fits)
{
    if (fd < 0 || fits)
        return fd;
    log_write("the service manager has kept as %s what it is not: a new socket takes its place",
              name->text);
    close(fd);
    kept_forget(kept, name->text);
    return -1;
}

/*
 * The manager still holds the sockets that nothing has taken, as those of a port that is no longer
 * served: one of them may have an address that is wanted now. Whether to try again.
 */
static bool make_room(struct kept *kept, int error)
{
    if (error != -EADDRINUSE)
        return false;
    kept_forget_rest(kept);
    return kept_settle(kept);
}

/* --- one address ------------------------------------------------------- */

/* Notes a port on which the kernel does not answer. */
static void note_other(struct served *served, uint16_t port)
{
    size_t i;

    for (i = 0; i < served->nothers && i < OTHER_PORTS; i++)
        if (served->others[i] == port)
            return;
    if (i < OTHER_PORTS)
        served->others[i] = port;
    served->nothers++;
}

/* Notes an address. False: it has another port than the first one, or there are too many. */
static bool keep_address(struct served *served, const struct socket_name *name)
{
    static const struct in6_addr mapped = {{{[10] = 0xff, [11] = 0xff}}};
    struct in6_addr *address = &served->addresses[served->n];

    if (served->port == 0)
        served->port = socket_port(name);
    if (socket_port(name) != served->port)
        note_other(served, socket_port(name));
    if (socket_port(name) != served->port ||
        served->n == sizeof(served->addresses) / sizeof(*address))
        return false;
    *address = ((const struct sockaddr_in6 *)&name->address)->sin6_addr;
    if (name->address.ss_family == AF_INET) {
        *address = mapped;
        memcpy(&address->s6_addr[12], &((const struct sockaddr_in *)&name->address)->sin_addr, 4);
    }
    served->n++;
    return true;
}

/* That which was kept, or a new one. */
static int get_stream(const struct net_config *config, const struct addrinfo *info)
{
    struct kept *kept = config->kept;
    struct socket_name local;
    struct kept_name name;
    int fd;

    name_inet(&name, "tcp", info->ai_addr, 0);
    fd = kept_take(kept, name.text);
    fd = check_kept(kept, &name, fd,
                    fd >= 0 &&
                        socket_take_tcp(fd, info->ai_addr, info->ai_addrlen, (int)config->backlog));
    if (fd >= 0)
        return fd;
    do
        fd =
            socket_open_tcp(info->ai_addr, info->ai_addrlen, info->ai_family, (int)config->backlog);
    while (make_room(kept, fd));
    if (fd >= 0 && socket_local(fd, &local) == 0) {
        name_inet(&name, "tcp", (const struct sockaddr *)&local.address, 0);
        kept_store(kept, name.text, fd);
    }
    return fd;
}

static int open_stream(struct opening *opening, const struct addrinfo *info)
{
    struct listening *listening = opening->listening;
    struct stream_socket *stream = &listening->streams[listening->nstreams];
    struct socket_name name;
    int fd;

    if (listening->nstreams == NET_LISTENERS)
        return -E2BIG;
    fd = get_stream(opening->config, info);
    if (fd < 0)
        return fd;
    *stream = (struct stream_socket){.fd = fd, .tls = opening->tls, .protocol = opening->protocol};
    stream->shown = !stream->tls && socket_local(fd, &name) == 0 &&
                    keep_address(&listening->served_tcp, &name) && opening->config->boundaries;
    listening->nstreams++;
    return 0;
}

static int add_udp(struct listening *listening, int fd, unsigned int worker)
{
    struct udp_socket *udp =
        reallocarray(listening->udp, listening->nudp + 1, sizeof(*listening->udp));

    if (!udp) {
        close(fd);
        return -ENOMEM;
    }
    listening->udp = udp;
    udp[listening->nudp++] = (struct udp_socket){fd, worker};
    return 0;
}

/*
 * A group with SO_REUSEPORT would silently join the group of another server of the same user. So a
 * socket without it is bound first: it fails if the port is taken, and picks the port if 0 was
 * asked.
 */
static int claim_udp(struct listening *listening, const struct addrinfo *info,
                     struct socket_name *name)
{
    struct sockaddr_in *wanted = (struct sockaddr_in *)info->ai_addr;
    bool ephemeral = wanted->sin_port == 0;
    int fd, error;

    if (ephemeral) {
        /* All addresses share one port if they can. */
        wanted->sin_port = htons(listening->served_udp.port);
    }
    fd = socket_open_udp(info->ai_addr, info->ai_addrlen, info->ai_family, false);
    if (fd == -EADDRINUSE && ephemeral && listening->served_udp.port != 0) {
        wanted->sin_port = 0;
        fd = socket_open_udp(info->ai_addr, info->ai_addrlen, info->ai_family, false);
    }
    if (fd < 0)
        return fd;
    error = socket_local(fd, name);
    close(fd);
    return error;
}

/* The kept socket of an address and worker; -1: there is none. */
static int take_udp(const struct net_config *config, const struct sockaddr *address, socklen_t len,
                    unsigned int worker)
{
    struct kept_name name;
    int fd;

    name_inet(&name, "udp", address, worker);
    fd = kept_take(config->kept, name.text);
    return check_kept(config->kept, &name, fd,
                      fd >= 0 && socket_take_udp(fd, address, len, config->reuseport));
}

static int make_udp(const struct net_config *config, const struct sockaddr *address, socklen_t len,
                    unsigned int worker)
{
    int fd = socket_open_udp(address, len, address->sa_family, config->reuseport);
    struct kept_name name;

    if (fd < 0)
        return fd;
    name_inet(&name, "udp", address, worker);
    kept_store(config->kept, name.text, fd);
    return fd;
}

/*
 * A socket for each worker; a socket's number in the group is the order in which it joined. first:
 * the first worker's, if it was kept: then the others have joined behind it, or join now.
 */
static int open_group(struct opening *opening, const struct socket_name *name, int first)
{
    const struct sockaddr *address = (const struct sockaddr *)&name->address;
    unsigned int n = opening->config->nthreads;
    bool reuseport = opening->config->reuseport;
    int fd = first;

    for (unsigned int i = 0; i < n; i++) {
        int error;

        if (i > 0)
            fd = reuseport ? take_udp(opening->config, address, name->len, i)
                           : fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0 && (i == 0 || reuseport))
            fd = make_udp(opening->config, address, name->len, i);
        error = fd < 0 ? (reuseport ? fd : -errno) : add_udp(opening->listening, fd, i);
        if (error)
            return error;
    }
    if (reuseport && n > 1 && socket_steer_by_cpu(fd, n) != 0) {
        log_write("cannot steer UDP packets by CPU: %s; the kernel spreads them by flow",
                  strerror(errno));
    }
    return 0;
}

static int open_datagram(struct opening *opening, const struct addrinfo *info)
{
    struct listening *listening = opening->listening;
    struct socket_name name;
    int first = take_udp(opening->config, info->ai_addr, info->ai_addrlen, 0), error;

    do
        error = first < 0 ? claim_udp(listening, info, &name) : socket_local(first, &name);
    while (make_room(opening->config->kept, error));
    if (error == 0)
        error = open_group(opening, &name, first);
    if (error)
        return error;
    keep_address(&listening->served_udp, &name);
    return 0;
}

/* --- all addresses ----------------------------------------------------- */

/* IPv6 may be switched off: then IPv4 alone is enough. */
static bool is_absent(const struct addrinfo *info, const char *host, int error)
{
    return error == -EAFNOSUPPORT ||
           (info->ai_family == AF_INET6 && !host && error == -EADDRNOTAVAIL);
}

/* Opens every address of one host. 0, or -errno with the start of the error message written. */
static int open_host(struct opening *opening, const char *host, int32_t port, int type)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = type};
    struct addrinfo *infos;
    char service[16];
    int nopen = 0;
    int error;

    snprintf(service, sizeof(service), "%d", port < 0 ? 0 : port);
    error = getaddrinfo(host, service, &hints, &infos);
    if (error) {
        snprintf(opening->error, opening->nerror, "getaddrinfo(): %s\n",
                 error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
        return -EADDRNOTAVAIL;
    }
    for (const struct addrinfo *info = infos; info && error == 0; info = info->ai_next) {
        error = type == SOCK_STREAM ? open_stream(opening, info) : open_datagram(opening, info);
        if (error && is_absent(info, host, error))
            error = 0;
        else
            nopen++;
    }
    freeaddrinfo(infos);
    return error == 0 && nopen == 0 ? -EADDRNOTAVAIL : error;
}

static void fail(struct opening *opening, const char *what, const char *which, int error)
{
    size_t used = strlen(opening->error);

    snprintf(opening->error + used, opening->nerror - used, "failed to listen on %s %s: %s", what,
             which, strerror(-error));
}

/* What a word asks of its listeners. False: they cannot be so. */
static bool choose_kind(struct opening *opening, const struct socket_word *word)
{
    const struct net_config *config = opening->config;

    if (word->notls && !config->tls) {
        snprintf(opening->error, opening->nerror,
                 "'notls' option is valid only when SSL is enabled");
        return false;
    }
    /* Another protocol has no credentials: it would be a way round those of this one. */
    if (word->has_protocol && config->authenticates && word->protocol != config->protocol) {
        snprintf(opening->error, opening->nerror,
                 "With authentication every listener of -l has the protocol of the credentials: "
                 "leave proto[...] out, or give proto[ascii] with -Y and proto[binary] with -S");
        return false;
    }
    opening->tls = config->tls && !word->notls;
    opening->protocol = word->has_protocol ? word->protocol : config->protocol;
    return true;
}

/* Opens TCP or UDP on every address of -l. */
static bool open_all(struct opening *opening, int32_t port, int type)
{
    const char *list = opening->config->addresses;
    struct socket_word word;
    int got;

    if (port == 0)
        return true;
    opening->tls = opening->config->tls != NULL;
    opening->protocol = opening->config->protocol;
    if (!list) {
        int error = open_host(opening, NULL, port, type);
        char text[16];

        snprintf(text, sizeof(text), "%d", port);
        if (error)
            fail(opening, type == SOCK_STREAM ? "TCP port" : "UDP port", text, error);
        return error == 0;
    }
    while ((got = socket_next_word(&list, &word)) == 1) {
        int error;

        if (!choose_kind(opening, &word))
            return false;
        error =
            open_host(opening, word.host[0] ? word.host : NULL, word.port ? word.port : port, type);
        if (error) {
            fail(opening, "one of interface(s)", opening->config->addresses, error);
            return false;
        }
    }
    if (got < 0)
        snprintf(opening->error, opening->nerror, "%s: \"%s\"", word.wrong, word.host);
    return got == 0;
}

static int get_unix(const struct net_config *config)
{
    const char *path = config->socket_path;
    struct kept_name name;
    int fd = -1;

    if (name_unix(&name, path, config->access_mask)) {
        fd = kept_take(config->kept, name.text);
        fd = check_kept(config->kept, &name, fd,
                        fd >= 0 && socket_take_unix(fd, path, (int)config->backlog));
    }
    if (fd >= 0)
        return fd;
    fd = socket_open_unix(path, config->access_mask, (int)config->backlog);
    if (fd >= 0 && name_unix(&name, path, config->access_mask))
        kept_store(config->kept, name.text, fd);
    return fd;
}

static bool open_unix(struct opening *opening)
{
    const struct net_config *config = opening->config;
    int fd = get_unix(config);

    if (fd < 0) {
        fail(opening, "UNIX socket:", config->socket_path, fd);
        return false;
    }
    opening->listening->streams[opening->listening->nstreams++] =
        (struct stream_socket){.fd = fd, .protocol = config->protocol};
    return true;
}

/* --- MEMCACHED_PORT_FILENAME ------------------------------------------- */

static void write_port(FILE *file, const char *protocol, int fd)
{
    struct socket_name name;

    if (socket_local(fd, &name) == 0) {
        fprintf(file, "%s %s: %u\n", protocol,
                name.address.ss_family == AF_INET6 ? "INET6" : "INET", socket_port(&name));
    }
}

/* Writes a temporary file and renames it: a process that waits for the file finds it complete. */
static void write_ports(const struct listening *listening, const char *path)
{
    char *draft;
    FILE *file;

    if (asprintf(&draft, "%s.lck", path) < 0)
        return;
    file = credentials_create(draft, 0666);
    if (!file) {
        log_write("Failed to open \"%s\": %s", draft, strerror(errno));
        free(draft);
        return;
    }
    for (size_t i = 0; i < listening->nstreams; i++)
        write_port(file, "TCP", listening->streams[i].fd);
    for (size_t i = 0; i < listening->nudp; i++)
        if (listening->udp[i].worker == 0)
            write_port(file, "UDP", listening->udp[i].fd);
    if (fclose(file) != 0 || rename(draft, path) != 0)
        log_write("Failed to write \"%s\": %s", path, strerror(errno));
    free(draft);
}

bool listening_open(struct listening *listening, const struct net_config *config, char *error,
                    size_t nerror)
{
    struct opening opening = {listening, config, error, nerror, false, config->protocol};
    const char *port_file = getenv("MEMCACHED_PORT_FILENAME");

    *listening = (struct listening){0};
    error[0] = '\0';
    if (config->socket_path ? !open_unix(&opening)
                            : !open_all(&opening, config->tcp_port, SOCK_STREAM) ||
                                  !open_all(&opening, config->udp_port, SOCK_DGRAM)) {
        listening_close(listening);
        return false;
    }
    if (port_file && !config->socket_path) {
        credentials_override(config->user);
        write_ports(listening, port_file);
        credentials_revert(config->user);
    }
    return true;
}

void listening_close(struct listening *listening)
{
    for (size_t i = 0; i < listening->nstreams; i++)
        close(listening->streams[i].fd);
    for (size_t i = 0; i < listening->nudp; i++)
        close(listening->udp[i].fd);
    free(listening->udp);
    *listening = (struct listening){0};
}
