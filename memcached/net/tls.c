/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"

enum {
    RECORD = SSL3_RT_MAX_PLAIN_LENGTH, /* a larger write makes no fewer records */
    TURN = RECORD, /* bytes of the socket behind which a read of the library takes no more */
    GATHER_MIN = 1024,
    CHUNK_MAX = 1 << 30, /* SSL_read and SSL_write count in int */
};

struct tls {
    struct tls_config config; /* its strings are copies */
    struct clock clock;
    pthread_mutex_t lock; /* of what follows; a leaf */
    SSL_CTX *context;
    rel_time loaded;
    uint64_t refreshes, refresh_errors;
};

struct tls_local {
    struct tls *tls;
    struct tls_counts counts;
    size_t size;
    char gather[]; /* the pieces of a record */
};

struct tls_session {
    SSL *ssl;
    struct tls_local *local;
    int fd;
    size_t ntaken; /* of the socket, by the current read of the library */
    bool established;
    bool over; /* nothing more can be read: the end, or a failure */
    bool failed;
    bool drained;
};

/* --- certificates ------------------------------------------------------ */

/* Formats "WHAT: WHICH : why". The oldest error is the cause. Returns false, for the caller. */
static bool explain(char *error, size_t nerror, const char *what, const char *which)
{
    char why[256];

    ERR_error_string_n(ERR_get_error(), why, sizeof(why));
    snprintf(error, nerror, "%s: %s : %s", what, which, why);
    return false;
}

static bool load_pair(SSL_CTX *context, const struct tls_config *config, char *error, size_t nerror)
{
    const char *key = config->key ? config->key : config->chain_cert;

    if (!config->chain_cert) {
        snprintf(error, nerror, "Error loading the certificate chain: -o ssl_chain_cert is needed");
        return false;
    }
    if (SSL_CTX_use_certificate_chain_file(context, config->chain_cert) != 1)
        return explain(error, nerror, "Error loading the certificate chain", config->chain_cert);
    if (SSL_CTX_use_PrivateKey_file(context, key, (int)config->key_format) != 1 ||
        SSL_CTX_check_private_key(context) != 1)
        return explain(error, nerror, "Error loading the key", key);
    return true;
}

/* The authorities of client certificates; their names are sent to the client. */
static bool load_authorities(SSL_CTX *context, const char *path, char *error, size_t nerror)
{
    STACK_OF(X509_NAME) * names;

    if (!path)
        return true;
    if (SSL_CTX_load_verify_locations(context, path, NULL) != 1)
        return explain(error, nerror, "Error loading the CA certificate", path);
    names = SSL_load_client_CA_file(path);
    if (!names)
        return explain(error, nerror, "Error loading the client CA names", path);
    SSL_CTX_set_client_CA_list(context, names);
    return true;
}

static void set_session_cache(SSL_CTX *context, bool on)
{
    static const unsigned char name[] = "memcached";

    /* Sessions of clients that were asked for a certificate are refused without a name. */
    SSL_CTX_set_session_id_context(context, name, sizeof(name) - 1);
    if (on) {
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_SERVER);
        return;
    }
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(context, 0);
}

static bool configure(SSL_CTX *context, const struct tls_config *config, char *error, size_t nerror)
{
    static const int versions[] = {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION, TLS1_3_VERSION};
    static const int modes[] = {
        SSL_VERIFY_NONE,
        SSL_VERIFY_PEER,
        SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
        SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT | SSL_VERIFY_CLIENT_ONCE,
    };

    /* A reply is sent record by record from wherever it lies at the time. */
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(context, 1);
    /* A close without close_notify is no error: the value of a truncated request is not stored. */
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_verify(context, modes[config->verify_mode], NULL);
    set_session_cache(context, config->session_cache);
    if (SSL_CTX_set_min_proto_version(context, versions[config->min_version]) != 1) {
        snprintf(error, nerror, "Error setting the minimum protocol version");
        return false;
    }
    if (config->ciphers && SSL_CTX_set_cipher_list(context, config->ciphers) != 1) {
        snprintf(error, nerror, "Error setting the provided cipher(s): %s", config->ciphers);
        return false;
    }
    return load_pair(context, config, error, nerror) &&
           load_authorities(context, config->ca_cert, error, nerror);
}

static int refuse_passphrase(char *out, int size, int writing, void *context)
{
    (void)out;
    (void)size;
    (void)writing;
    (void)context;
    return -1;
}

/*
 * asks: the library may ask at the terminal for the passphrase of a key. A server that runs has
 * none, or would wait for it in the place of its clients. NULL: `error` says why.
 */
static SSL_CTX *load(const struct tls_config *config, bool asks, char *error, size_t nerror)
{
    SSL_CTX *context;

    ERR_clear_error();
    context = SSL_CTX_new(TLS_server_method());
    if (!context) {
        explain(error, nerror, "Error starting OpenSSL", OPENSSL_VERSION_TEXT);
        return NULL;
    }
    if (!asks)
        SSL_CTX_set_default_passwd_cb(context, refuse_passphrase);
    if (!configure(context, config, error, nerror)) {
        SSL_CTX_free(context);
        context = NULL;
    }
    ERR_clear_error();
    return context;
}

/* --- life -------------------------------------------------------------- */

/* Makes the path absolute, for -d and a later refresh. False: no memory. */
static bool keep_path(char **path)
{
    const char *given = *path;

    *path = given ? path_absolute(given) : NULL;
    return *path || !given;
}

static bool keep_config(struct tls_config *config)
{
    bool whole = keep_path(&config->chain_cert);

    whole &= keep_path(&config->key);
    whole &= keep_path(&config->ca_cert);
    if (config->ciphers) {
        config->ciphers = strdup(config->ciphers);
        whole &= config->ciphers != NULL;
    }
    return whole;
}

struct tls *tls_new(const struct tls_config *config, const struct clock *clock, char *error,
                    size_t nerror)
{
    struct tls *tls = calloc(1, sizeof(*tls));

    if (!tls) {
        snprintf(error, nerror, "out of memory");
        return NULL;
    }
    /* With the paths as given, so that an error shows them so. */
    tls->context = load(config, true, error, nerror);
    if (!tls->context) {
        free(tls);
        return NULL;
    }
    tls->config = *config;
    tls->clock = *clock;
    tls->loaded = clock_now(clock);
    pthread_mutex_init(&tls->lock, NULL);
    if (!keep_config(&tls->config)) {
        snprintf(error, nerror, "out of memory");
        tls_free(tls);
        return NULL;
    }
    return tls;
}

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    free(tls->config.chain_cert);
    free(tls->config.key);
    free(tls->config.ca_cert);
    free(tls->config.ciphers);
    SSL_CTX_free(tls->context);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}

/* The library would wait for the writer of a FIFO. */
static bool are_files(const struct tls_config *config, char *error, size_t nerror)
{
    const char *const paths[] = {config->chain_cert, config->key, config->ca_cert};
    struct stat is;

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        if (paths[i] && stat(paths[i], &is) == 0 && !S_ISREG(is.st_mode)) {
            snprintf(error, nerror, "Error loading %s: Not a regular file", paths[i]);
            return false;
        }
    }
    return true;
}

bool tls_refresh(struct tls *tls, char *error, size_t nerror)
{
    bool good = are_files(&tls->config, error, nerror);
    SSL_CTX *fresh = good ? load(&tls->config, false, error, nerror) : NULL;
    SSL_CTX *old = NULL;

    pthread_mutex_lock(&tls->lock);
    if (fresh) {
        old = tls->context;
        tls->context = fresh;
        tls->loaded = clock_now(&tls->clock);
        tls->refreshes++;
    } else {
        tls->refresh_errors++;
    }
    pthread_mutex_unlock(&tls->lock);
    SSL_CTX_free(old);
    return fresh != NULL;
}

void tls_stats(struct tls *tls, rel_time *loaded, uint64_t *refreshes, uint64_t *refresh_errors)
{
    pthread_mutex_lock(&tls->lock);
    *loaded = tls->loaded;
    *refreshes = tls->refreshes;
    *refresh_errors = tls->refresh_errors;
    pthread_mutex_unlock(&tls->lock);
}

struct tls_local *tls_local_new(struct tls *tls)
{
    size_t size = tls->config.wbuf_size < GATHER_MIN ? GATHER_MIN
                  : tls->config.wbuf_size > RECORD   ? RECORD
                                                     : tls->config.wbuf_size;
    struct tls_local *local = calloc(1, sizeof(*local) + size);

    if (local) {
        local->tls = tls;
        local->size = size;
    }
    return local;
}

void tls_local_free(struct tls_local *local)
{
    free(local);
}

const struct tls_counts *tls_local_counts(const struct tls_local *local)
{
    return &local->counts;
}

static void count(uint64_t *counter)
{
    __atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

/* --- sessions ---------------------------------------------------------- */

/*
 * A read of the library goes on until data comes. A client may send without end what is none, such
 * as updates of its keys: so after TURN bytes of one read the socket seems to be empty. Data do not
 * wait for that, as a record of them has as many.
 */
static long on_bio(BIO *bio, int operation, const char *bytes, size_t len, int argi, long argl,
                   int result, size_t *nprocessed)
{
    struct tls_session *session = (struct tls_session *)(void *)BIO_get_callback_arg(bio);

    (void)bytes;
    (void)len;
    (void)argi;
    (void)argl;
    if (operation == BIO_CB_READ && session->ntaken >= TURN) {
        BIO_clear_retry_flags(bio);
        BIO_set_retry_read(bio);
        return -1;
    }
    if (operation == (BIO_CB_READ | BIO_CB_RETURN) && result > 0)
        session->ntaken += *nprocessed;
    return result;
}

struct tls_session *tls_open(struct tls_local *local, int fd)
{
    struct tls_session *session = calloc(1, sizeof(*session));

    if (!session)
        return NULL;
    session->local = local;
    session->fd = fd;
    session->drained = true;
    pthread_mutex_lock(&local->tls->lock);
    session->ssl = SSL_new(local->tls->context);
    pthread_mutex_unlock(&local->tls->lock);
    if (!session->ssl || SSL_set_fd(session->ssl, fd) != 1) {
        SSL_free(session->ssl);
        free(session);
        ERR_clear_error();
        return NULL;
    }
    BIO_set_callback_ex(SSL_get_rbio(session->ssl), on_bio);
    BIO_set_callback_arg(SSL_get_rbio(session->ssl), (char *)session);
    SSL_set_accept_state(session->ssl);
    return session;
}

void tls_close(struct tls_session *session)
{
    if (!session)
        return;
    if (session->established && !session->failed) {
        ERR_clear_error();
        SSL_shutdown(session->ssl);
    }
    SSL_free(session->ssl);
    ERR_clear_error();
    free(session);
}

/* A client that connects and closes without a byte is not counted as a failure. */
static void count_failure(struct tls_session *session, const char *why)
{
    struct tls_counts *counts = &session->local->counts;

    if (session->established) {
        count(&counts->protocol_errors);
        log_at(1, "%d: TLS failed: %s", session->fd, why);
    } else if (BIO_number_read(SSL_get_rbio(session->ssl)) > 0) {
        count(&counts->handshake_errors);
        log_at(1, "%d: TLS handshake failed: %s", session->fd, why);
    }
}

/* Maps a result of SSL_read or SSL_write that is not positive to 0 (end) or -1 with errno. */
static ssize_t interpret(struct tls_session *session, int result)
{
    int saved = errno;
    unsigned long code = ERR_peek_error();
    const char *why = "the connection was closed";

    switch (SSL_get_error(session->ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        session->over = true;
        if (!session->established)
            count_failure(session, why);
        return 0;
    case SSL_ERROR_SYSCALL:
        why = saved ? strerror(saved) : why;
        break;
    default:
        why = ERR_reason_error_string(code);
        saved = EPROTO;
        break;
    }
    session->over = session->failed = true;
    count_failure(session, why ? why : "unknown error");
    ERR_clear_error();
    errno = saved && saved != EAGAIN ? saved : EPROTO;
    return -1;
}

static void note_handshake(struct tls_session *session)
{
    struct tls_counts *counts = &session->local->counts;

    if (!session->established && SSL_is_init_finished(session->ssl)) {
        session->established = true;
        count(&counts->handshakes);
        if (SSL_session_reused(session->ssl))
            count(&counts->resumed);
    }
}

/* Returns as recv. */
static ssize_t read_some(struct tls_session *session, char *ptr, size_t len)
{
    int n;

    errno = 0;
    session->ntaken = 0;
    n = SSL_read(session->ssl, ptr, (int)(len < CHUNK_MAX ? len : CHUNK_MAX));
    note_handshake(session);
    return n > 0 ? n : interpret(session, n);
}

ssize_t tls_receive(struct tls_session *session, const struct iovec *iov, size_t niov)
{
    size_t total = 0;

    session->drained = false;
    if (session->over) {
        errno = EPROTO;
        return session->failed ? -1 : 0;
    }
    ERR_clear_error();
    for (size_t i = 0; i < niov; i++) {
        for (size_t filled = 0; filled < iov[i].iov_len;) {
            ssize_t n =
                read_some(session, (char *)iov[i].iov_base + filled, iov[i].iov_len - filled);

            if (n <= 0) {
                session->drained = !session->over;
                return total > 0 ? (ssize_t)total : n;
            }
            filled += (size_t)n;
            total += (size_t)n;
            /* Saves a read of an empty socket. */
            session->drained = !SSL_has_pending(session->ssl);
            if (session->drained)
                return (ssize_t)total;
        }
    }
    return (ssize_t)total;
}

bool tls_drained(const struct tls_session *session)
{
    return session->drained;
}

bool tls_waits_to_write(const struct tls_session *session)
{
    return SSL_want(session->ssl) == SSL_WRITING;
}

/* The bytes of the next record: one piece if it is long enough, else several pieces, gathered. */
static struct slice next_record(struct tls_local *local, const struct iovec *iov, size_t niov)
{
    size_t len = 0;

    if (niov == 1 || iov[0].iov_len >= local->size) {
        len = iov[0].iov_len < local->size ? iov[0].iov_len : local->size;
        return (struct slice){iov[0].iov_base, len};
    }
    for (size_t i = 0; i < niov && len < local->size; i++) {
        size_t room = local->size - len;
        size_t n = iov[i].iov_len < room ? iov[i].iov_len : room;

        memcpy(local->gather + len, iov[i].iov_base, n);
        len += n;
    }
    return (struct slice){local->gather, len};
}

ssize_t tls_send(struct tls_session *session, const struct iovec *iov, size_t niov)
{
    struct slice record = next_record(session->local, iov, niov);
    ssize_t outcome;
    int n;

    if (session->failed) {
        errno = EPROTO;
        return -1;
    }
    ERR_clear_error();
    errno = 0;
    n = SSL_write(session->ssl, record.ptr, (int)record.len);
    if (n > 0)
        return n;
    outcome = interpret(session, n);
    /* Nothing is sent before the handshake is complete, so TLS cannot have to read first. */
    if (outcome == 0 || SSL_want(session->ssl) == SSL_READING) {
        session->over = session->failed = true;
        errno = EPROTO;
    }
    return -1;
}
