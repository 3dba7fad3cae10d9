/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Users and passwords: which lines a file may have, which users may log in, and that the comparison
 * takes the same number of steps whatever part of a guess is right. Steps are instructions of the
 * processor, counted by ptrace, not time.
 */
#include "command/authfile.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t/unit/command_client.h"

static struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static bool has(const struct auth_table *table, const char *user, const char *password)
{
    return auth_table_has(table, slice_of(user), slice_of(password));
}

/* --- lines ------------------------------------------------------------------ */

struct file_case {
    const char *name;
    struct slice text;
    unsigned int n;
    bool more;
    const char *wrong; /* a part of the error message; NULL: the file is accepted */
};

#define BYTES_250 BYTES_50 BYTES_50 BYTES_50 BYTES_50 BYTES_50
#define BYTES_50  "01234567890123456789012345678901234567890123456789"

static const struct file_case file_cases[] = {
    {"one line", {"user:pass\n", 10}, 1, false, NULL},
    {"one line without an end (CVE-2021-37519)", {"user:pass", 9}, 1, false, NULL},
    {"a line that ends with CRLF", {"user:pass\r\n", 11}, 1, false, NULL},
    {"nothing", {"", 0}, 0, false, NULL},
    {"a colon alone", {":", 1}, 1, false, NULL},
    {"eight lines", {"a:b\na:b\na:b\na:b\na:b\na:b\na:b\na:b\n", 32}, 8, false, NULL},
    {"nine", {"a:b\na:b\na:b\na:b\na:b\na:b\na:b\na:b\na:b", 35}, 8, true, NULL},
    {"a malformed ninth line", {"a:b\na:b\na:b\na:b\na:b\na:b\na:b\na:b\n\n", 33}, 8, true, NULL},
    {"255 bytes in a line", {"abc:" BYTES_250 "x\n", 256}, 1, false, NULL},
    {"an empty ninth line", {"abc:" BYTES_250 "x\r\n", 257}, 1, false, NULL},
    {"256 bytes in a line", {"abc:" BYTES_250 "xy\n", 257}, 0, false, "more than 255 bytes"},
    {"256 bytes without an end", {"abc:" BYTES_250 "xy", 256}, 0, false, "more than 255 bytes"},
    {"an empty line", {"\n", 1}, 0, false, "malformed"},
    {"an empty line with CR", {"\r\n", 2}, 0, false, "malformed"},
    {"a CR without an end", {"\r", 1}, 0, false, "malformed"},
    {"a line without a colon", {"user\n", 5}, 0, false, "malformed"},
    {"a malformed line after a good one", {"a:b\nuser", 8}, 1, false, "malformed"},
};

static void files(void)
{
    for (size_t i = 0; i < COUNT(file_cases); i++) {
        const struct file_case *c = &file_cases[i];
        char *copy = malloc(
            c->text.len
                ? c->text.len
                : 1); /* exactly as long as its bytes, so that the sanitizer sees an overrun */
        struct auth_table table;
        const char *wrong;

        if (!copy)
            die("malloc");
        memcpy(copy, c->text.ptr, c->text.len);
        wrong = auth_table_parse(&table, (struct slice){copy, c->text.len});
        free(copy);
        ok(c->wrong ? wrong && strstr(wrong, c->wrong) != NULL
                    : !wrong && table.n == c->n && table.more == c->more,
           "a file with %s", c->name);
    }
}

/* --- who may log in --------------------------------------------------------- */

static void users_who_may_log_in(void)
{
    struct auth_table table;

    auth_table_parse(&table, SLICE("user:pass\nuser:again\na:b:c\n:none\nempty:\n"));
    ok(has(&table, "user", "pass") && has(&table, "user", "again") && has(&table, "a", "b:c"),
       "a user in the file may log in; the first colon separates user and password");
    ok(!has(&table, "user", "pas") && !has(&table, "user", "passs") &&
           !has(&table, "use", "rpass") && !has(&table, "", "pass") && !has(&table, "user", "") &&
           !has(&table, "User", "pass"),
       "another user or password is refused");
    ok(!has(&table, "a:b", "c"), "moving the colon does not match another entry");
    ok(!has(&table, "", "none") && !has(&table, "empty", "") && !has(&table, "", ""),
       "an empty user name and password never log in, even if the file has them");
    ok(!auth_table_has(&table, (struct slice){BYTES_250 BYTES_50, 300}, SLICE("x")) &&
           !auth_table_has(&table, SLICE("x"), (struct slice){BYTES_250 BYTES_50, 300}) &&
           !auth_table_has(&table, (struct slice){"x", SIZE_MAX}, (struct slice){"x", 5}),
       "a guess longer than any entry is refused");
    auth_table_parse(&table, SLICE(""));
    ok(!has(&table, "", "") && !has(&table, "a", "b"), "with an empty file nobody may log in");
}

static void every_byte_counts(void)
{
    struct auth_table table;
    char user[100], password[154];
    unsigned int wrong = 0;

    memset(user, 'u', sizeof(user));
    memset(password, 'p', sizeof(password));
    table = (struct auth_table){.n = 1};
    auth_entry_make(&table.entries[0], (struct slice){user, sizeof(user)},
                    (struct slice){password, sizeof(password)});
    wrong += !auth_table_has(&table, (struct slice){user, sizeof(user)},
                             (struct slice){password, sizeof(password)});
    for (size_t i = 0; i < sizeof(user) + sizeof(password); i++) {
        char *byte = i < sizeof(user) ? &user[i] : &password[i - sizeof(user)];

        for (int bit = 0; bit < 8; bit++) {
            *byte = (char)(*byte ^ 1 << bit);
            wrong += auth_table_has(&table, (struct slice){user, sizeof(user)},
                                    (struct slice){password, sizeof(password)});
            *byte = (char)(*byte ^ 1 << bit);
        }
    }
    ok(wrong == 0, "in an entry of 255 bytes a change of any bit makes the login fail");
}

/* --- steps ------------------------------------------------------------------ */

/* ThreadSanitizer adds instructions of its own, and does not support single-stepping. */
extern void __tsan_init(void) __attribute__((weak));

/* The number of instructions for judging this guess; 0: they cannot be counted. */
static unsigned long steps(const struct auth_table *table, const char *user, const char *password)
{
    unsigned long n = 0;
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        struct slice guess[2] = {slice_of(user), slice_of(password)};

        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(1);
        raise(SIGSTOP);
        auth_table_has(table, guess[0], guess[1]);
        kill(getpid(), SIGKILL);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        return 0;
    while (WIFSTOPPED(status) && ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0 &&
           waitpid(child, &status, 0) == child)
        n++;
    return n;
}

static void a_guess_takes_as_many_steps_whatever_is_right_about_it(void)
{
    static const struct {
        const char *name, *user, *password;
    } guesses[] = {
        {"nothing", "xxxx", "yyyyyyyy"},
        {"the user", "user", "yyyyyyyy"},
        {"all but the last byte", "user", "passworx"},
        {"all", "user", "password"},
        {"all, of the last entry", "last", "wordpass"},
    };
    struct auth_table table;
    unsigned long first = 0;

    if (__tsan_init) {
        diag("ThreadSanitizer: steps are not counted");
        return;
    }
    auth_table_parse(&table, SLICE("user:password\na:b\nc:d\nlast:wordpass\n"));
    for (size_t i = 0; i < COUNT(guesses); i++) {
        unsigned long n = steps(&table, guesses[i].user, guesses[i].password);

        if (i == 0)
            first = n;
        if (!ok(n == first && n > 1000,
                "CVE-2026-47783: a guess with %s right takes as many steps as one with nothing "
                "right",
                guesses[i].name))
            diag("%lu steps, %lu when nothing is right", n, first);
    }
}

/* --- the file of a server --------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        die(path);
}

static const char *login(struct server *server, const char *body)
{
    static char request[512];

    snprintf(request, sizeof(request), "set x 0 0 %zu\r\n%s\r\n", strlen(body), body);
    return ask(server, request);
}

static void a_server(const char *path)
{
    struct command_auth auth = {.file = path};
    struct store_config store;
    struct server server;
    char error[256] = "";

    server_defaults(&server, &store);
    server_start(&server, &store);
    ok(!server.client.unauthenticated && !strcmp(ask(&server, "get k\r\n"), "END\r\n"),
       "without an auth file no authentication is required");
    write_file(path, "user:pass");
    ok(commands_authenticate(server.commands, &auth, error, sizeof(error)),
       "an auth file is accepted");
    command_client_open(server.local, COMMAND_STREAM, 5, &server.client);
    ok(!strcmp(ask(&server, "get k\r\n"), "CLIENT_ERROR unauthenticated\r\n"),
       "with an auth file an unauthenticated get is refused");
    ok(!strcmp(login(&server, "user no"), "CLIENT_ERROR authentication failure\r\n"),
       "a wrong password is answered with an error");
    for (server.step = 1; server.step < 12; server.step++) {
        command_client_open(server.local, COMMAND_STREAM, 5, &server.client);
        if (strcmp(login(&server, "user pass"), "STORED\r\n") != 0 || server.client.unauthenticated)
            break;
    }
    ok(server.step == 12, "a login is accepted when its token arrives in pieces of any length");
    ok(!strcmp(ask(&server, "get k\r\n"), "END\r\n"), "after a login gets are answered");
    command_client_open(server.local, COMMAND_DATAGRAM, 5, &server.client);
    ok(!strcmp(login(&server, "user pass"), "") && server.closed && server.client.unauthenticated,
       "over UDP a login is not answered");
    write_file(path, "other:pass\n");
    ok(commands_reload(server.commands, error, sizeof(error)), "the file is reloaded");
    command_client_open(server.local, COMMAND_STREAM, 5, &server.client);
    ok(!strcmp(login(&server, "user pass"), "CLIENT_ERROR authentication failure\r\n") &&
           !strcmp(login(&server, "other pass"), "STORED\r\n"),
       "after a reload only the new file's users may log in");
    write_file(path, "nonsense\n");
    ok(!commands_reload(server.commands, error, sizeof(error)) && strstr(error, "malformed"),
       "a malformed file is refused on reload");
    command_client_open(server.local, COMMAND_STREAM, 5, &server.client);
    ok(!strcmp(login(&server, "other pass"), "STORED\r\n"), "a refused reload keeps the old users");
    command_client_close(&server.client);
    server_stop(&server);
}

static void reading(const char *path)
{
    size_t len = 77;
    char *bytes;

    write_file(path, "12345");
    bytes = auth_read(path, 5, &len);
    ok(bytes && len == 5 && memcmp(bytes, "12345", 5) == 0,
       "a file of exactly the maximum size is read");
    auth_forget(bytes, len);
    ok(!auth_read(path, 4, &len) && errno == EFBIG, "a file one byte larger is refused");
    ok(!auth_read("/", 10, &len) && errno == EISDIR, "a directory is refused");
    ok(!auth_read("/dev/zero", 10, &len) && errno == EISDIR, "a device is refused");
    unlink(path);
    ok(mkfifo(path, 0600) == 0 && !auth_read(path, 10, &len) && errno == EISDIR,
       "a named pipe is refused, without blocking");
    unlink(path);
    ok(!auth_read(path, 10, &len) && errno == ENOENT, "a missing file is an error");
}

int main(void)
{
    char folder[] = "/tmp/memcached-auth-XXXXXX";
    char path[sizeof(folder) + 8];

    if (!mkdtemp(folder))
        die("mkdtemp");
    snprintf(path, sizeof(path), "%s/users", folder);
    files();
    users_who_may_log_in();
    every_byte_counts();
    a_guess_takes_as_many_steps_whatever_is_right_about_it();
    a_server(path);
    reading(path);
    rmdir(folder);
    return done();
}
