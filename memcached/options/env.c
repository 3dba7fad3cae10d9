/* SPDX-License-Identifier: BSD-3-Clause */
#include "options/env.h"

#include <errno.h>
#include <stdlib.h>

const struct environment_row environment_table[] = {
    {"MEMCACHED_PORT_FILENAME",
     "A file that gets the ports that are listened on, a line for each socket, such as\n"
     "\"TCP INET: 11211\". It is written beside itself with .lck behind the name and then "
     "renamed.\n"
     "This is done as the user of -u.",
     0},
    {"SASL_CONF_PATH",
     "With -S: where memcached.conf is, which tells libsasl2 its mechanisms; directories with a\n"
     "colon between them, or the file itself.",
     0},
    {"MEMCACHED_SASL_PWDB",
     "With -S: a file of lines user:password, which PLAIN asks first. It is read each time.", 0},
    {"NOTIFY_SOCKET",
     "The unix socket of a service manager (sd_notify(3); systemd sets it with Type=notify). The\n"
     "server tells it when it serves and the kernel's programs are attached, in a line what it\n"
     "serves and how, and its end. It also waits up to 10 seconds for interfaces of -X bmc= that\n"
     "do not exist yet: at boot they may be late.",
     0},
    {"FDSTORE",
     "How many descriptors the service manager keeps for the next process (systemd sets it since\n"
     "version 254, with FileDescriptorStoreMax=; for an older one the unit has "
     "Environment=FDSTORE=).\n"
     "If it is more than 0, the server gives it its listening and UDP sockets, under names that\n"
     "begin with memcached-. LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES then hand them to the next\n"
     "server, which serves those that it would open itself: between the two no connect is refused.",
     0},
    {"WATCHDOG_USEC",
     "With NOTIFY_SOCKET: the server tells every second that all of its workers run (systemd sets\n"
     "it with WatchdogSec=, and starts a server that hangs again).",
     0},
    {"T_MEMD_INITIAL_MALLOC",
     "Bytes that count as allocated from the start. For tests of limits beyond 4 gigabytes.",
     offsetof(struct options, store.allocated_before)},
    {"T_MEMD_SLABS_ALLOC", "Of memcached's tests; without effect, as no memory is preallocated.",
     0},
    {"MEMCACHED_HASH_BULK_MOVE", "Without effect: the hash table grows by one line at a time.", 0},
    {"MEMCACHED_SLAB_BULK_CHECK", "Without effect.", 0},
};

const size_t environment_count = sizeof(environment_table) / sizeof(environment_table[0]);

void options_environment(struct options *options)
{
    for (size_t i = 0; i < environment_count; i++) {
        const struct environment_row *row = &environment_table[i];
        const char *text = getenv(row->name);
        unsigned long long value;
        char *end;

        if (!text || !row->field)
            continue;
        errno = 0;
        value = strtoull(text, &end, 10);
        if (errno == 0 && end != text && !*end && *text != '-')
            *(uint64_t *)((char *)options + row->field) = value;
    }
}
