/* SPDX-License-Identifier: BSD-3-Clause */
/* path: names of files. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

/* An absolute copy, because a daemon changes its directory. NULL: no memory, or no directory. */
char *path_absolute(const char *name);

#endif
