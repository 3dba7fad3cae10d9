/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * manual: generates memcached.1 at build time. Copies a template and replaces the lines @OPTIONS@,
 * @SUBOPTIONS@ and @ENVIRONMENT@ by the option table, the suboptions and the environment.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "options/env.h"
#include "options/table.h"

enum { COLUMNS = 78, TEXT_MAX = 1024 };

/* Whether a word is plain English, and not a name that mdoc must not change. */
static bool is_plain(const char *word, size_t len)
{
    while (len > 0 && isalpha((unsigned char)*word)) {
        word++;
        len--;
    }
    return len == 0 || strchr(",.;", *word);
}

/* Prints a word as mdoc; at the start of a line it must not look like a macro. */
static void put_word(const char *word, size_t len, bool first, bool begins)
{
    if (first && (*word == '.' || *word == '\''))
        printf("\\&");
    for (size_t i = 0; i < len; i++) {
        if (word[i] == '\\') {
            printf("\\e");
        } else {
            putchar(i == 0 && begins && is_plain(word, len) ? toupper((unsigned char)*word)
                                                            : word[i]);
        }
    }
}

/* Prints text in lines of limited length; each sentence begins a line. */
static void put_text(const char *text)
{
    bool ends = true;
    size_t column = 0;

    while (*(text += strspn(text, " \n"))) {
        size_t len = strcspn(text, " \n");

        if (column + 1 + len > COLUMNS) {
            putchar('\n');
            column = 0;
        }
        if (column)
            putchar(' ');
        put_word(text, len, column == 0, ends);
        ends = strchr(".?!", text[len - 1]) != NULL;
        column = ends ? COLUMNS : column + 1 + len;
        text += len;
    }
    putchar('\n');
}

/* Prints the argument without its brackets, as words of a macro line. */
static void put_argument(const char *argument)
{
    size_t len = strlen(argument);
    bool optional = argument[0] == '[';

    if (optional || (argument[0] == '<' && argument[len - 1] == '>')) {
        argument++;
        len -= 2;
    }
    printf("Ar ");
    for (size_t i = 0; i < len; i++)
        if (!strchr("<>", argument[i]))
            putchar(argument[i]);
}

static void put_letter_item(const struct option_row *row)
{
    printf(".It Fl %c", row->letter);
    if (row->argument) {
        printf(" ");
        put_argument(row->argument);
    }
    if (row->name) {
        printf(" , Fl \\-%s", row->name);
        if (row->argument) {
            printf(" Ns = Ns ");
            put_argument(row->argument);
        }
    }
    putchar('\n');
}

static void put_word_item(const struct option_row *row)
{
    printf(".It Cm %s", row->name);
    if (row->argument) {
        bool optional = row->argument[0] == '[';

        printf(optional ? " Ns Op = Ns " : " Ns = Ns ");
        put_argument(row->argument);
    }
    if (row->kind == OPTION_SWITCH)
        printf(" , Cm no_%s", row->name);
    putchar('\n');
}

static void put_default(const struct option_row *row)
{
    if (row->kind == OPTION_SWITCH && !row->letter)
        printf("The default is %s.\n", row->fallback ? "on" : "off");
    else if (row->fallback && row->argument)
        printf("The default is %s.\n", row->fallback);
}

static void put_row(const struct option_row *row)
{
    const char *text = row->help ? row->help : row->manual;
    size_t len = text ? strlen(text) : 0;

    if (row->letter)
        put_letter_item(row);
    else
        put_word_item(row);
    if (row->lacks) {
        printf("Not in this build, which has no %s.\n", row->lacks);
        return;
    }
    if (len) {
        char sentence[TEXT_MAX];

        /* Each text of -h becomes a sentence. */
        snprintf(sentence, sizeof(sentence), "%s%s", text, text[len - 1] == '.' ? "" : ".");
        put_text(sentence);
    }
    if (row->help && row->manual)
        put_text(row->manual);
    put_default(row);
}

static void put_rows(bool letters)
{
    printf(".Bl -tag -width Ds\n");
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_table[i];

        if (row->kind != OPTION_NONE && !row->letter != letters)
            put_row(row);
    }
    printf(".El\n");
}

static void put_environment(void)
{
    printf(".Bl -tag -width Ds\n");
    for (size_t i = 0; i < environment_count; i++) {
        printf(".It Ev %s\n", environment_table[i].name);
        put_text(environment_table[i].help);
    }
    printf(".El\n");
}

int main(int argc, char **argv)
{
    FILE *template = argc == 2 ? fopen(argv[1], "r") : NULL;
    char line[1024];

    if (!template) {
        fprintf(stderr, "usage: manual TEMPLATE\n");
        return 64;
    }
    while (fgets(line, sizeof(line), template))
        if (strcmp(line, "@OPTIONS@\n") == 0)
            put_rows(true);
        else if (strcmp(line, "@SUBOPTIONS@\n") == 0)
            put_rows(false);
        else if (strcmp(line, "@ENVIRONMENT@\n") == 0)
            put_environment();
        else
            fputs(line, stdout);
    fclose(template);
    return fflush(stdout) == 0 ? 0 : 1;
}
