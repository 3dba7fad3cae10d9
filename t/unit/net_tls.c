/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS: how much of its socket one call may take, whatever the client sends. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/tls.h"
#include "t/lib/tap.h"

enum {
    UPDATES = 3000, /* of 27 bytes: more than a call may take, less than a socket holds */
    TAKEN_MAX = 40 * 1024,
    BULK = 100 * 1000,
};

static struct {
    SSL *client;
    struct tls_session *server;
    int client_fd, server_fd;
} ends;

/* A key and its certificate, in one file. */
static void write_pair(const char *path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    FILE *file = fopen(path, "w");

    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_sign(cert, key, EVP_sha256());
    PEM_write_X509(file, cert);
    PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
    fclose(file);
    X509_free(cert);
    EVP_PKEY_free(key);
}

/* Returns as tls_receive. */
static ssize_t receive(char *to, size_t n)
{
    const struct iovec iov = {to, n};

    return tls_receive(ends.server, &iov, 1);
}

static bool shake_hands(void)
{
    char byte;

    for (int i = 0; i < 10; i++) {
        if (SSL_connect(ends.client) == 1)
            return receive(&byte, 1) < 0 && errno == EAGAIN;
        receive(&byte, 1);
    }
    return false;
}

static void connect_ends(SSL_CTX *context, struct tls_local *local)
{
    int fds[2];

    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds);
    ends.client_fd = fds[0];
    ends.server_fd = fds[1];
    ends.client = SSL_new(context);
    SSL_set_fd(ends.client, ends.client_fd);
    ends.server = tls_open(local, ends.server_fd);
}

static void close_ends(void)
{
    SSL_free(ends.client);
    tls_close(ends.server);
    close(ends.client_fd);
    close(ends.server_fd);
}

static size_t unread(void)
{
    int n = 0;

    ioctl(ends.server_fd, FIONREAD, &n);
    return (size_t)n;
}

/* Prepares updates, and data behind them; sends all of it at once. Returns the bytes. */
static size_t send_updates(const char *data, size_t n)
{
    BIO *memory = BIO_new(BIO_s_mem());
    bool good = true;
    char *bytes;
    long nbytes;

    SSL_set0_wbio(ends.client, memory);
    for (int i = 0; i < UPDATES; i++)
        good = good && SSL_key_update(ends.client, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
               SSL_do_handshake(ends.client) == 1;
    good = good && SSL_write(ends.client, data, (int)n) == (int)n;
    nbytes = BIO_get_mem_data(memory, &bytes);
    return good && write(ends.client_fd, bytes, (size_t)nbytes) == nbytes ? (size_t)nbytes : 0;
}

static void updates_of_keys_without_end(void)
{
    size_t sent = send_updates("data", 4);
    size_t before = unread(), most = 0;
    unsigned int ncalls = 0;
    char data[16];
    ssize_t n;

    ok(sent > TAKEN_MAX && before == sent, "%d updates of the keys are in the socket (%zu bytes)",
       UPDATES, sent);
    do {
        n = receive(data, sizeof(data));
        most = before - unread() > most ? before - unread() : most;
        before = unread();
        ncalls++;
    } while (n < 0 && errno == EAGAIN && before > 0);
    ok(most <= TAKEN_MAX, "one call takes no more than %d bytes of them (%zu)", TAKEN_MAX, most);
    ok(n == 4 && memcmp(data, "data", 4) == 0, "the data behind them come in call %u", ncalls);
}

static void data_as_fast_as_they_come(void)
{
    static char sent[BULK], got[BULK];
    size_t n = 0;
    ssize_t some;

    SSL_set_fd(ends.client, ends.client_fd);
    for (size_t i = 0; i < sizeof(sent); i++)
        sent[i] = (char)(i * i >> 8);
    ok(SSL_write(ends.client, sent, sizeof(sent)) == sizeof(sent), "%d bytes of data are sent",
       BULK);
    while (n < BULK && (some = receive(got + n, BULK - n)) > 0)
        n += (size_t)some;
    ok(n == BULK && memcmp(sent, got, n) == 0, "no call that finds data seems to find none");
}

int main(void)
{
    char path[] = "/tmp/net_tls.XXXXXX";
    struct tls_config config = {
        .chain_cert = path, .key_format = SSL_FILETYPE_PEM, .min_version = 2};
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    struct tls_local *local;
    char error[256] = "";
    struct clock clock;
    struct tls *tls;

    close(mkstemp(path));
    write_pair(path);
    clock_init(&clock);
    tls = tls_new(&config, &clock, error, sizeof(error));
    unlink(path);
    if (!ok(tls, "there is a certificate %s", error))
        return done();
    local = tls_local_new(tls);
    connect_ends(context, local);
    if (ok(shake_hands(), "the ends have shaken hands")) {
        updates_of_keys_without_end();
        data_as_fast_as_they_come();
    }
    close_ends();
    tls_local_free(local);
    tls_free(tls);
    SSL_CTX_free(context);
    return done();
}
