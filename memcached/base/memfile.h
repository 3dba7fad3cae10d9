/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memfile: a provider whose heap segments are those of a file, so that another process finds them
 * again: on tmpfs, memory that outlives the server (-e).
 *
 * Without an inner provider the segments are the file, mapped. With one, whose memory the kernel
 * programs see, they are copied from the file when they are mapped, and to it by memfile_save.
 * Tables and control block are never kept.
 */
#ifndef BASE_MEMFILE_H
#define BASE_MEMFILE_H

#include <stdbool.h>

#include "base/provider.h"

/*
 * Opens or creates the file and locks it against a second server. inner: NULL, or where memory
 * comes from; it must live longer. NULL with errno, EWOULDBLOCK if another server has the file,
 * EPERM if it is another user's.
 */
struct provider *memfile_open(const char *path, struct provider *inner);
/* What the file holds is not wanted: segments are zero. Before the first is mapped. 0 or -errno. */
int memfile_clear(struct provider *memfile);
/* Segments of the file that have memory already. */
uint32_t memfile_kept(struct provider *memfile);
/* The file, on its disk, has all that the segments have. 0 or -errno. */
int memfile_save(struct provider *memfile);
/* NULL is legal. What it has mapped stays. */
void memfile_close(struct provider *memfile);

#endif
