/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *path_absolute(const char *name)
{
    char *folder, *path;

    if (*name == '/')
        return strdup(name);
    folder = getcwd(NULL, 0);
    if (!folder || asprintf(&path, "%s/%s", folder, name) < 0)
        path = NULL;
    free(folder);
    return path;
}
