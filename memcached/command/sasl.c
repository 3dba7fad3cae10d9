/* SPDX-License-Identifier: BSD-3-Clause */
/* sasl: libsasl2 (Cyrus SASL). The only file that uses it. */
#include "command/sasl.h"

#include <errno.h>
#include <pthread.h>
#include <sasl/sasl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "command/authfile.h"

enum {
    NAME_MAX_BYTES = 256, /* of a host, a file */
    PATH_BYTES = 4096,
    LOG_BYTES = 512,
    PASSWORD_FILE_MAX = 1 << 20,
    NCALLBACKS = 5,
};

struct sasl {
    sasl_callback_t callbacks[NCALLBACKS + 1]; /* ends with SASL_CB_LIST_END */
    char realm[NAME_MAX_BYTES];                /* realm of users that name none: this host */
    char host[NAME_MAX_BYTES];                 /* the host's full name; empty: unknown */
    char application[NAME_MAX_BYTES];          /* the library reads APPLICATION.conf */
    char conf_path[PATH_BYTES];                /* directories separated by colons; may be empty */
    const char *password_file;                 /* from the environment; NULL: none */
    bool unreadable; /* the file is unreadable, which was logged; atomic */
};

struct sasl_exchange {
    sasl_conn_t *conn;
    bool waiting; /* for the client's next message */
    char mechanism[SASL_MECHANISM_MAX + 1];
};

static const char service[] = "memcached";

/* --- callbacks of the library --------------------------------------------- */

static void *new_lock(void)
{
    pthread_mutex_t *lock = malloc(sizeof(*lock));

    if (lock && pthread_mutex_init(lock, NULL) != 0) {
        free(lock);
        return NULL;
    }
    return lock;
}

static int lock_lock(void *lock)
{
    return pthread_mutex_lock(lock) == 0 ? SASL_OK : SASL_FAIL;
}

static int unlock_lock(void *lock)
{
    return pthread_mutex_unlock(lock) == 0 ? SASL_OK : SASL_FAIL;
}

static void free_lock(void *lock)
{
    if (lock) {
        pthread_mutex_destroy(lock);
        free(lock);
    }
}

/*
 * A message may repeat input of the client: mechanism, user. One that may contain a password is not
 * logged.
 */
static int on_log(void *context, int severity, const char *message)
{
    char line[LOG_BYTES];
    size_t i;

    (void)context;
    if (log_get_level() < 1 || severity >= SASL_LOG_PASS || !message)
        return SASL_OK;
    for (i = 0; i < sizeof(line) - 1 && message[i]; i++)
        line[i] = message[i] >= ' ' && message[i] < 0x7f ? message[i] : '?';
    line[i] = '\0';
    log_write("SASL (severity %d): %s", severity, line);
    return SASL_OK;
}

static int on_conf_path(void *context, char **path)
{
    *path = ((struct sasl *)context)->conf_path;
    return SASL_OK;
}

/* Whether there is a configuration in the library's usual places. */
static bool has_configuration(void)
{
    static const char *const paths[] = {"/etc/sasl2/memcached.conf", "/etc/sasl/memcached.conf",
                                        "/usr/lib/sasl2/memcached.conf"};
    size_t i;

    for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (access(paths[i], R_OK) == 0)
            return true;
    return false;
}

/*
 * With a password file and no configuration the server can check clear-text passwords only, so it
 * offers no other mechanism.
 */
static int on_option(void *context, const char *plugin, const char *option, const char **result,
                     unsigned int *len)
{
    static const char plain[] = "plain";

    (void)context;
    if (plugin || strcmp(option, "mech_list") != 0)
        return SASL_FAIL;
    *result = plain;
    if (len)
        *len = sizeof(plain) - 1;
    return SASL_OK;
}

/* Compares every line, so that the time does not reveal which one matches. */
static bool file_has(struct slice text, const struct auth_entry *as_given,
                     const struct auth_entry *without_realm)
{
    struct slice line;
    bool found = false;

    while (auth_next_line(&text, &line)) {
        struct auth_entry entry;

        if (auth_entry_parse(&entry, line)) {
            found |= auth_entry_equal(&entry, as_given);
            found |= auth_entry_equal(&entry, without_realm);
        }
        explicit_bzero(&entry, sizeof(entry));
    }
    return found;
}

/* The user without the server's own realm, which the library adds. */
static struct slice plain_user(const struct sasl *sasl, const char *user)
{
    const char *at = strrchr(user, '@');

    return (struct slice){user, at && strcmp(at + 1, sasl->realm) == 0 ? (size_t)(at - user)
                                                                       : strlen(user)};
}

/* The file is read each time: a change needs no signal. */
static int on_password(sasl_conn_t *conn, void *context, const char *user, const char *password,
                       unsigned int npassword, struct propctx *properties)
{
    struct sasl *sasl = context;
    struct slice given = {password, npassword};
    struct auth_entry as_given, without_realm;
    bool found = false;
    size_t len = 0;
    char *text;

    (void)conn;
    (void)properties;
    if (!*user || npassword == 0 ||
        !auth_entry_make(&as_given, (struct slice){user, strlen(user)}, given) ||
        !auth_entry_make(&without_realm, plain_user(sasl, user), given))
        return SASL_BADAUTH;
    text = auth_read(sasl->password_file, PASSWORD_FILE_MAX, &len);
    if (text) {
        found = file_has((struct slice){text, len}, &as_given, &without_realm);
        auth_forget(text, len);
        __atomic_store_n(&sasl->unreadable, false, __ATOMIC_RELAXED);
    } else if (!__atomic_exchange_n(&sasl->unreadable, true, __ATOMIC_RELAXED)) {
        log_write("cannot read %s: %s", sasl->password_file, strerror(errno));
    }
    explicit_bzero(&as_given, sizeof(as_given));
    explicit_bzero(&without_realm, sizeof(without_realm));
    return found ? SASL_OK : SASL_BADAUTH;
}

/* --- the library ---------------------------------------------------------- */

/* libsasl2 has one type for all callbacks. */
#define CALLBACK(number, function, object)                                                         \
    ((sasl_callback_t){(number), (int (*)(void))(void (*)(void))(function), (object)})

static void make_callbacks(struct sasl *sasl)
{
    sasl_callback_t *next = sasl->callbacks;

    *next++ = CALLBACK(SASL_CB_LOG, on_log, NULL);
    if (sasl->conf_path[0])
        *next++ = CALLBACK(SASL_CB_GETCONFPATH, on_conf_path, sasl);
    if (sasl->password_file)
        *next++ = CALLBACK(SASL_CB_SERVER_USERDB_CHECKPASS, on_password, sasl);
    if (sasl->password_file && !sasl->conf_path[0] && !has_configuration())
        *next++ = CALLBACK(SASL_CB_GETOPT, on_option, NULL);
    *next = CALLBACK(SASL_CB_LIST_END, NULL, NULL);
}

/* SASL_CONF_PATH may also name the file itself, as it had to for older libraries. */
static void find_configuration(struct sasl *sasl, const char *path)
{
    static const char ending[] = ".conf";
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t nname = strlen(name);
    size_t nending = sizeof(ending) - 1;
    struct stat status;

    snprintf(sasl->application, sizeof(sasl->application), "%s", service);
    snprintf(sasl->conf_path, sizeof(sasl->conf_path), "%s", path);
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || nname <= nending ||
        strcmp(name + nname - nending, ending) != 0)
        return;
    snprintf(sasl->application, sizeof(sasl->application), "%.*s", (int)(nname - nending), name);
    snprintf(sasl->conf_path, sizeof(sasl->conf_path), "%.*s", slash ? (int)(slash - path) : 1,
             slash ? path : ".");
}

static int new_conn(const struct sasl *sasl, sasl_conn_t **conn)
{
    return sasl_server_new(service, sasl->host[0] ? sasl->host : NULL,
                           sasl->realm[0] ? sasl->realm : NULL, NULL, NULL, NULL, 0, conn);
}

/* Resolved once: the library would query the resolver for each client, and block a worker. */
static void find_host(struct sasl *sasl)
{
    const void *name = NULL;
    sasl_conn_t *conn;

    if (new_conn(sasl, &conn) != SASL_OK)
        return;
    if (sasl_getprop(conn, SASL_SERVERFQDN, &name) == SASL_OK && name)
        snprintf(sasl->host, sizeof(sasl->host), "%s", (const char *)name);
    sasl_dispose(&conn);
}

/* --- one client ----------------------------------------------------------- */

struct sasl_exchange *sasl_exchange_new(struct sasl *sasl)
{
    /* No anonymous mechanism, and none that would encrypt the connection. */
    const sasl_security_properties_t properties = {.security_flags = SASL_SEC_NOANONYMOUS};
    struct sasl_exchange *exchange = calloc(1, sizeof(*exchange));

    if (!exchange)
        return NULL;
    if (new_conn(sasl, &exchange->conn) != SASL_OK ||
        sasl_setprop(exchange->conn, SASL_SEC_PROPS, &properties) != SASL_OK) {
        sasl_exchange_free(exchange);
        return NULL;
    }
    return exchange;
}

void sasl_exchange_free(struct sasl_exchange *exchange)
{
    if (exchange) {
        if (exchange->conn)
            sasl_dispose(&exchange->conn);
        free(exchange);
    }
}

struct slice sasl_exchange_mechanisms(struct sasl_exchange *exchange)
{
    const char *names = NULL;
    unsigned int len = 0;

    if (sasl_listmech(exchange->conn, NULL, "", " ", "", &names, &len, NULL) != SASL_OK)
        return (struct slice){0};
    return (struct slice){names, len};
}

static enum sasl_outcome outcome(struct sasl_exchange *exchange, int result, const char *out,
                                 unsigned int nout, struct slice *answer)
{
    exchange->waiting = result == SASL_CONTINUE;
    *answer = (struct slice){out, out ? nout : 0};
    if (result == SASL_OK || result == SASL_CONTINUE)
        return result == SASL_OK ? SASL_OUTCOME_OK : SASL_OUTCOME_CONTINUE;
    log_at(1, "SASL: %s", sasl_errstring(result, NULL, NULL));
    return SASL_OUTCOME_FAIL;
}

enum sasl_outcome sasl_exchange_start(struct sasl_exchange *exchange, struct slice mechanism,
                                      struct slice data, struct slice *answer)
{
    const char *out = NULL;
    unsigned int nout = 0;
    int result;

    if (mechanism.len > SASL_MECHANISM_MAX || memchr(mechanism.ptr, '\0', mechanism.len))
        return SASL_OUTCOME_FAIL;
    memcpy(exchange->mechanism, mechanism.ptr, mechanism.len);
    exchange->mechanism[mechanism.len] = '\0';
    /* Empty data is no initial response: the mechanism then asks for it. */
    result = sasl_server_start(exchange->conn, exchange->mechanism, data.len > 0 ? data.ptr : NULL,
                               (unsigned int)data.len, &out, &nout);
    return outcome(exchange, result, out, nout, answer);
}

enum sasl_outcome sasl_exchange_step(struct sasl_exchange *exchange, struct slice mechanism,
                                     struct slice data, struct slice *answer)
{
    const char *out = NULL;
    unsigned int nout = 0;
    int result;

    if (!exchange->waiting ||
        !slice_equal(mechanism, (struct slice){exchange->mechanism, strlen(exchange->mechanism)}))
        return SASL_OUTCOME_FAIL;
    result = sasl_server_step(exchange->conn, data.len > 0 ? data.ptr : "", (unsigned int)data.len,
                              &out, &nout);
    return outcome(exchange, result, out, nout, answer);
}

/* --- start and end -------------------------------------------------------- */

static void check_mechanisms(struct sasl *sasl)
{
    struct sasl_exchange *exchange = sasl_exchange_new(sasl);

    if (!exchange || sasl_exchange_mechanisms(exchange).len == 0) {
        log_write(
            "SASL has no mechanism to offer: no client can authenticate (see mech_list in %s.conf; "
            "is libsasl2-modules installed?)",
            sasl->application);
    }
    sasl_exchange_free(exchange);
}

struct sasl *sasl_setup(char *error, size_t nerror)
{
    const char *conf = getenv("SASL_CONF_PATH");
    struct sasl *sasl = calloc(1, sizeof(*sasl));
    int result;

    if (!sasl) {
        snprintf(error, nerror, "Error initializing sasl.");
        return NULL;
    }
    find_configuration(sasl, conf ? conf : "");
    sasl->password_file = getenv("MEMCACHED_SASL_PWDB");
    if (gethostname(sasl->realm, sizeof(sasl->realm) - 1) != 0)
        sasl->realm[0] = '\0';
    make_callbacks(sasl);
    sasl_set_mutex(new_lock, lock_lock, unlock_lock, free_lock);
    result = sasl_server_init(sasl->callbacks, sasl->application);
    if (result != SASL_OK) {
        snprintf(error, nerror, "Error initializing sasl. (%s)",
                 sasl_errstring(result, NULL, NULL));
        free(sasl);
        return NULL;
    }
    find_host(sasl);
    check_mechanisms(sasl);
    log_at(1, "Initialized SASL.");
    return sasl;
}

void sasl_teardown(struct sasl *sasl)
{
    if (sasl) {
        sasl_server_done();
        free(sasl);
    }
}
