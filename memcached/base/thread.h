/* SPDX-License-Identifier: BSD-3-Clause */
/* thread: threads that take no signals. The server's main thread takes them. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/* pthread_create with all signals blocked in the new thread. 0 or -errno. */
int thread_start(pthread_t *thread, void *(*body)(void *), void *context);

#endif
