/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay: runs a fuzz target on the inputs that were found before, without a fuzzer. They are the
 * files of the folders named, or of SRCDIR/t/fuzz/corpus/NAME for a program called NAME.
 */
#include <dirent.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "t/lib/tap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The longest input that is kept. */
enum { INPUT_MAX = 1 << 20 };

static bool replay_file(const char *path)
{
    static uint8_t data[INPUT_MAX];
    FILE *file = fopen(path, "rb");
    size_t n;

    if (!file) {
        perror(path);
        return false;
    }
    n = fread(data, 1, sizeof(data), file);
    fclose(file);
    LLVMFuzzerTestOneInput(data, n);
    return true;
}

static void replay_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[4096];
    unsigned int n = 0;
    bool good = true;

    if (!dir)
        perror(folder);
    while (dir && (entry = readdir(dir))) {
        struct stat stat_buffer;

        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (stat(path, &stat_buffer) == 0 && S_ISREG(stat_buffer.st_mode)) {
            diag("%s", entry->d_name);
            good = replay_file(path) && good;
            n++;
        }
    }
    if (dir)
        closedir(dir);
    ok(good && n > 0, "the target accepts each of the %u inputs in %s", n, folder);
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    const char *source = getenv("SRCDIR");
    char folder[4096];
    int i;

    for (i = 1; i < argc; i++)
        replay_folder(argv[i]);
    if (argc == 1) {
        snprintf(folder, sizeof(folder), "%s/t/fuzz/corpus/%s", source ? source : ".", name);
        replay_folder(folder);
    }
    return done();
}
