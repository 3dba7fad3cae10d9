/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap: Test Anything Protocol for C tests. A test's name states a behaviour. Single-threaded use;
 * `ok` does not stop the test.
 */
#ifndef T_LIB_TAP_H
#define T_LIB_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* One for all files of a program. */
__attribute__((weak)) int tap_count, tap_failed;
__attribute__((weak)) char tap_prefix[64];

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What the following names begin with: of which program, in which form. */
__attribute__((format(printf, 1, 2), unused)) static void tap_under(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(tap_prefix, sizeof(tap_prefix), format, args);
    va_end(args);
}

__attribute__((format(printf, 2, 3), unused)) static bool ok(bool pass, const char *format, ...)
{
    va_list args;

    tap_count++;
    tap_failed += !pass;
    printf("%sok %d - %s", pass ? "" : "not ", tap_count, tap_prefix);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
    return pass;
}

/* A comment in the test's output. */
__attribute__((format(printf, 1, 2), unused)) static void diag(const char *format, ...)
{
    va_list args;

    printf("# ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
}

/* Ends the whole test: a right or a kernel feature is missing. A failure with CI=true. */
__attribute__((unused, noreturn)) static void skip_all(const char *reason)
{
    const char *ci = getenv("CI");

    if (ci && *ci) {
        printf("1..1\nnot ok 1 - cannot run: %s\n", reason);
        exit(1);
    }
    printf("1..0 # SKIP %s\n", reason);
    exit(0);
}

/* The plan, and the exit status: return done(); */
__attribute__((unused)) static int done(void)
{
    printf("1..%d\n", tap_count);
    return tap_failed ? 1 : 0;
}

#endif
