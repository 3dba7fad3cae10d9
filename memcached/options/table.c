/* SPDX-License-Identifier: BSD-3-Clause */
#include "options/table.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "options/set.h"

/* A row reads as a row. */
/* clang-format off */

#define FIELD(member) .field = offsetof(struct options, member)
#define SHOWN(nth, key, how) .place = (nth), .setting = (key), .show = (how)
#define RANGE(low, high) .minimum = (low), .maximum = (high)
#define PORT RANGE(-1, UINT16_MAX), .wrong = "ERROR: Invalid port number %s."
#define NUMBER .argument = "<num>", .kind = OPTION_U32
#define REAL .argument = "<num>", .kind = OPTION_REAL
#define PARSED(name) .wrong = "could not parse argument to " name, .strict = true
#define TLS OPTION_LACKS(ENABLE_TLS, "SSL")
#define EXTSTORE OPTION_LACKS(ENABLE_EXTSTORE, "extstore")

const struct option_row option_table[] = {
    /* --- options with a letter, in the order of -h --- */
    {'p', "port", "<num>", OPTION_I32, FIELD(net.tcp_port), PORT, .fallback = "11211",
     SHOWN(3, "tcpport", SHOW_NUMBER), .help = "TCP port to listen on, 0 is off"},
    {'U', "udp-port", "<num>", OPTION_I32, FIELD(net.udp_port), PORT, .fallback = "0",
     SHOWN(4, "udpport", SHOW_NUMBER), .help = "UDP port to listen on, 0 is off"},
    {'s', "unix-socket", "<file>", OPTION_TEXT, FIELD(net.socket_path),
     SHOWN(9, "domain_socket", SHOW_TEXT),
     .help = "UNIX socket to listen on (disables network support)"},
    {'a', "unix-mask", "<mask>", OPTION_ACTION, .set = set_access_mask, .fallback = "700",
     FIELD(net.access_mask), SHOWN(10, "umask", SHOW_OCTAL),
     .help = "access mask for UNIX socket, in octal"},
    {'A', "enable-shutdown", NULL, OPTION_SWITCH, FIELD(commands.shutdown_enabled),
     .help = "enable ascii \"shutdown\" command"},
    {'l', "listen", "<addr>", OPTION_ACTION, FIELD(net.addresses), .set = set_listen,
     SHOWN(5, "inter", SHOW_TEXT), .manual = "See LISTENING.",
     .help = "addresses to listen on: HOST, HOST:PORT, [V6]:PORT or *,\n"
             "separated by commas (default: all)"},
    {'d', "daemon", NULL, OPTION_SWITCH, FIELD(daemonize), .help = "run as a daemon",
     .manual = "The working directory is / unless -r is given, standard output and error are "
               "/dev/null unless -v is. The command ends when the daemon serves."},
    {'r', "enable-coredumps", NULL, OPTION_SWITCH, FIELD(coredumps),
     .help = "maximize core file limit"},
    {'u', "user", "<user>", OPTION_TEXT, FIELD(user),
     .help = "assume identity of <user> (only when run as root)",
     .manual = "Root must give one."},
    {'m', "memory-limit", "<num>", OPTION_ACTION, .set = set_memory, .fallback = "64",
     FIELD(store.memory_limit), SHOWN(1, "maxbytes", SHOW_U64), .help = "item memory in megabytes",
     .manual = "In a memory cgroup with a lower limit the cache grows as far as that has room, and "
               "evicts from then on. What the hash table takes beyond what memcached's would "
               "counts as item memory, unless nothing may be evicted. At most 262079."},
    {'M', "disable-evictions", NULL, OPTION_OFF, FIELD(store.evict), .fallback = "on",
     SHOWN(8, "evictions", SHOW_ON_OFF),
     .help = "return error on memory exhausted instead of evicting"},
    {'c', "conn-limit", "<num>", OPTION_U32, FIELD(net.max_connections), RANGE(1, INT32_MAX),
     .wrong = "Maximum connections must be greater than 0", .fallback = "1024",
     SHOWN(2, "maxconns", SHOW_NUMBER), .help = "max simultaneous connections",
     .manual = "As many files must be allowed to be open; the limit is raised if it can be."},
    {'k', "lock-memory", NULL, OPTION_SWITCH, FIELD(lock_memory),
     .help = "lock down all paged memory"},
    {'v', "verbose", NULL, OPTION_COUNT, FIELD(verbosity), SHOWN(6, "verbosity", SHOW_VERBOSITY),
     .help = "verbose (print errors/warnings while in event loop)",
     .manual = "Given twice, each request and response is shown; three times, also the states of "
               "connections, by the names in \"stats conns\". From two on the kernel path stands "
               "aside."},
    {.name = "vv", .help = "very verbose (also print client commands/responses)"},
    {.name = "vvv", .help = "extremely verbose (internal state transitions)"},
    {'h', "help", NULL, OPTION_ACTION, .set = show_help, .help = "print this help and exit"},
    {'i', "license", NULL, OPTION_ACTION, .set = show_license,
     .help = "print the license and exit"},
    {'V', "version", NULL, OPTION_ACTION, .set = show_version, .help = "print version and exit"},
    {'P', "pidfile", "<file>", OPTION_TEXT, FIELD(pid_file),
     .help = "save PID in <file>, removed at exit with -d",
     .manual = "A file that is there is replaced."},
    {'f', "slab-growth-factor", "<num>", OPTION_REAL, FIELD(store.growth_factor), RANGE(1, DBL_MAX),
     .wrong = "Factor must be greater than 1", .fallback = "1.25",
     SHOWN(11, "growth_factor", SHOW_REAL), .help = "chunk size growth factor"},
    {'n', "slab-min-size", "<bytes>", OPTION_U32, FIELD(store.chunk_min), RANGE(1, 1 << 20),
     .wrong = "Chunk size must be greater than 0", .fallback = "48",
     SHOWN(12, "chunk_size", SHOW_NUMBER), .help = "min space used for key+value+flags"},
    {'L', "enable-largepages", NULL, OPTION_SWITCH, FIELD(store.prealloc),
     .help = "try to use large memory pages (if available)",
     .manual = "All memory is taken at the start."},
    {'D', NULL, "<char>", OPTION_ACTION, .set = set_delimiter,
     FIELD(commands.prefix_delimiter), SHOWN(15, "stat_key_prefix", SHOW_CHAR),
     .help = "delimiter between key prefixes and IDs for\n"
             "per-prefix stats reporting (default: \":\");\n"
             "turns collection on, as \"stats detail on\" does"},
    {'t', "threads", "<num>", OPTION_U32, FIELD(net.nthreads), RANGE(1, 1024),
     .wrong = "Number of threads must be greater than 0", .set = check_threads, .fallback = "4",
     SHOWN(13, "num_threads", SHOW_NUMBER), .help = "number of threads to use"},
    {'R', "max-reqs-per-event", "<num>", OPTION_U32, FIELD(net.reqs_per_event), RANGE(1, INT32_MAX),
     .wrong = "Number of requests per event must be greater than 0", .fallback = "20",
     SHOWN(17, "reqs_per_event", SHOW_NUMBER),
     .help = "maximum number of requests per event, limits the\n"
             "requests processed per connection to prevent\n"
             "starvation"},
    {'C', "disable-cas", NULL, OPTION_OFF, FIELD(store.cas), .fallback = "on",
     SHOWN(18, "cas_enabled", SHOW_YES_NO), .help = "disable use of CAS"},
    {'b', "listen-backlog", "<num>", OPTION_U32, FIELD(net.backlog), RANGE(INT32_MIN, INT32_MAX),
     .fallback = "1024", SHOWN(19, "tcp_backlog", SHOW_NUMBER),
     .help = "set the backlog queue limit"},
    {'B', "protocol", "<name>", OPTION_ACTION, .set = set_binding, .fallback = "auto",
     FIELD(net.protocol), SHOWN(20, "binding_protocol", SHOW_BINDING),
     .help = "protocol - one of ascii, binary, or auto"},
    {'I', "max-item-size", "<num>", OPTION_ACTION, .set = set_item_max, .fallback = "1m",
     FIELD(store.item_max), SHOWN(23, "item_size_max", SHOW_U64),
     .help = "adjusts max item size, min: 1k, max: 1024m",
     .manual = "A number, or one with k or m behind it: at most half of -m, and a multiple of "
               "slab_chunk_max."},
    {'F', "disable-flush-all", NULL, OPTION_OFF, FIELD(commands.flush_enabled), .fallback = "on",
     SHOWN(35, "flush_enabled", SHOW_YES_NO), .help = "disable flush_all command"},
    {'W', "disable-watch", NULL, OPTION_OFF, FIELD(commands.watch_enabled), .fallback = "on",
     SHOWN(81, "watch_enabled", SHOW_YES_NO),
     .help = "disable the watch command"},
    {'X', "disable-dumping", NULL, OPTION_OFF, FIELD(commands.dump_enabled), .fallback = "on",
     SHOWN(36, "dump_enabled", SHOW_YES_NO),
     .help = "disable stats cachedump and lru_crawler metadump",
     .manual = "If a word of the argument behind it begins with bmc=, it is another option: see "
               "THE KERNEL PATH."},
    {.name = "X bmc=<if>[,...]",
     .help = "answer UDP gets in the kernel on interface <if>; further\n"
             "words: bmc=<if>|auto, mode=native|skb|tc|auto,\n"
             "stall=<seconds>, allow=<prefix>|@<file>,... (SIGHUP reads\n"
             "<file> again), rate=<num>[/<burst>],\n"
             "amplification=<num>, optional, tcp=on (experimental: gets\n"
             "over TCP too), unstamped=on, refresh=<seconds>,\n"
             "udp=off, xsk=on\n"
             "(experimental: UDP requests for the server by AF_XDP); or\n"
             "by the chain: mode=chain, entries=<num>, keymax=<bytes>,\n"
             "valuemax=<bytes>, maxage=<ms>, settle=<ms>,\n"
             "connections=<num>"},
    {'S', "enable-sasl", NULL, OPTION_ON, FIELD(sasl), OPTION_LACKS(ENABLE_SASL, "SASL"),
     .help = "turn on SASL authentication, binary protocol only"},
    {'Y', "auth-file", "<file>", OPTION_TEXT, FIELD(auth_file),
     SHOWN(22, "auth_enabled_ascii", SHOW_TEXT_OR_NO),
     .help = "authenticate clients of the ascii protocol by the lines\n"
             "user:password of <file>; SIGHUP reads it again"},
    {'e', "memory-file", "<file>", OPTION_TEXT, FIELD(memory_file),
     SHOWN(90, "memory_file", SHOW_TEXT),
     .help = "keep the items' memory in <file>, on a tmpfs: after a\n"
             "stop by SIGUSR1 the next server takes them over"},
    {'Z', "enable-ssl", NULL, OPTION_SWITCH, FIELD(ssl_enabled), TLS,
     SHOWN(62, "ssl_enabled", SHOW_YES_NO),
     .help = "TLS over TCP, except at addresses of -l that begin with\n"
             "notls: (UDP and unix sockets have none)"},
    {'N', "napi-ids", "<num>", OPTION_IGNORE, .alias = "napi_ids",
     .manual = "accepted without effect, as 1.6 has it; in the form --napi_ids of its -h, too"},
    {'o', "extended", "<list>", OPTION_ACTION, .set = options_extended,
     .help = "comma separated list of extended options;\n"
             "most options have a 'no_' prefix to disable"},

    /* --- suboptions of -o --- */
    {.name = "maxconns_fast", .kind = OPTION_SWITCH, FIELD(net.maxconns_fast), .fallback = "on",
     SHOWN(24, "maxconns_fast", SHOW_YES_NO),
     .help = "immediately close new connections after limit"},
    {.name = "hashpower", .argument = "<num>", .kind = OPTION_ACTION, .set = set_hashpower,
     .missing = MISSING_NUMBER, FIELD(hashpower), SHOWN(25, "hashpower_init", SHOW_NUMBER),
     .help = "an integer multiplier for how large the hash\n"
             "table should be. normally grows at runtime, from 16.\n"
             "set based on \"STAT hash_power_level\""},
    {.name = "tail_repair_time", NUMBER, FIELD(store.tail_repair_time), .missing = MISSING_NUMBER,
     RANGE(10, UINT32_MAX), .wrong = "Cannot set tail_repair_time to less than 10 seconds",
     SHOWN(34, "tail_repair_time", SHOW_NUMBER), .help = "accepted; no item can be stuck here"},
    {.name = "hash_algorithm", .argument = "<name>", .kind = OPTION_ACTION,
     .set = set_hash_algorithm, .fallback = "murmur3", FIELD(hash_algorithm),
     SHOWN(37, "hash_algorithm", SHOW_TEXT),
     .help = "accepted: jenkins, murmur3; the table has its own"},
    {.name = "slab_reassign", .kind = OPTION_SWITCH, FIELD(commands.slab_reassign),
     .fallback = "on", SHOWN(26, "slab_reassign", SHOW_YES_NO),
     .manual = "let memory move from one slab class to another"},
    {.name = "slab_automove", .argument = "[0|1|2]", .kind = OPTION_U32,
     FIELD(store.tuning.automove), .fallback = "1", RANGE(0, 2),
     .wrong = "slab_automove must be between 0 and 2", SHOWN(27, "slab_automove", SHOW_NUMBER),
     .manual = "0: only on command; 1: when a class has pages to spare; 2: at each eviction"},
    {.name = "no_slab_automove", .kind = OPTION_ACTION, .set = set_no_automove,
     .manual = "the same as slab_automove=0"},
    {.name = "slab_automove_ratio", REAL, FIELD(store.tuning.automove_ratio), RANGE(0, 1),
     .fallback = "0.8", .wrong = "slab_automove_ratio must be > 0 and < 1",
     SHOWN(28, "slab_automove_ratio", SHOW_REAL),
     .manual = "age of the oldest class to the youngest above which a page moves"},
    {.name = "slab_automove_window", NUMBER, FIELD(store.automove_window), RANGE(3, UINT32_MAX),
     .fallback = "30", .wrong = "slab_automove_window must be > 2",
     SHOWN(29, "slab_automove_window", SHOW_NUMBER),
     .manual = "seconds over which slab_automove judges"},
    {.name = "lru_crawler", .kind = OPTION_SWITCH, FIELD(lru_crawler), .fallback = "on",
     SHOWN(31, "lru_crawler", SHOW_YES_NO), .help_off = "disable LRU Crawler background thread.",
     .manual = "a thread that removes expired items"},
    {.name = "lru_crawler_sleep", NUMBER, FIELD(store.tuning.crawler_sleep_us), RANGE(0, 1000000),
     .fallback = "100", .missing = MISSING_VALUE,
     .wrong = "LRU crawler sleep must be between 0 and 1 second",
     SHOWN(32, "lru_crawler_sleep", SHOW_NUMBER), .help = "microseconds to sleep between items"},
    {.name = "lru_crawler_tocrawl", NUMBER, FIELD(store.tuning.crawler_tocrawl), .strict = true,
     RANGE(0, UINT32_MAX), .fallback = "0", .missing = MISSING_VALUE,
     .wrong = "lru_crawler_tocrawl takes a numeric 32bit value",
     SHOWN(33, "lru_crawler_tocrawl", SHOW_NUMBER),
     .help = "max items to crawl per slab per run, 0 is unlimited"},
    {.name = "lru_maintainer", .kind = OPTION_SWITCH, FIELD(store.maintained), .fallback = "on",
     .set = set_lru_maintainer, SHOWN(38, "lru_maintainer_thread", SHOW_YES_NO),
     .help_off = "one LRU per class, no background thread.",
     .manual = "each class has segments of hot, warm and cold items; "
               "a thread keeps them in order"},
    {.name = "hot_lru_pct", NUMBER, FIELD(store.tuning.hot_pct), RANGE(1, 79), .fallback = "20",
     .wrong = "hot_lru_pct must be > 1 and < 80", SHOWN(40, "hot_lru_pct", SHOW_NUMBER),
     .help = "pct of slab memory to reserve for hot lru\n(requires lru_maintainer)"},
    {.name = "warm_lru_pct", NUMBER, FIELD(store.tuning.warm_pct), RANGE(1, 79), .fallback = "40",
     .wrong = "warm_lru_pct must be > 1 and < 80", SHOWN(41, "warm_lru_pct", SHOW_NUMBER),
     .help = "pct of slab memory to reserve for warm lru\n(requires lru_maintainer)"},
    {.name = "hot_max_factor", REAL, FIELD(store.tuning.hot_max_factor), RANGE(0, DBL_MAX),
     .fallback = "0.2", .wrong = "hot_max_factor must be > 0",
     SHOWN(42, "hot_max_factor", SHOW_REAL),
     .help = "items idle > cold lru age * drop from hot lru."},
    {.name = "warm_max_factor", REAL, FIELD(store.tuning.warm_max_factor), RANGE(0, DBL_MAX),
     .fallback = "2.0", .wrong = "warm_max_factor must be > 0",
     SHOWN(43, "warm_max_factor", SHOW_REAL),
     .help = "items idle > cold lru age * this drop from warm."},
    {.name = "temporary_ttl", NUMBER, FIELD(store.tuning.temporary_ttl), RANGE(0, UINT32_MAX),
     .fallback = "61", .set = enable_temp_lru, SHOWN(45, "temporary_ttl", SHOW_NUMBER),
     .help = "TTL's below get separate LRU, can't be evicted\n(requires lru_maintainer)"},
    {.name = "idle_timeout", NUMBER, FIELD(net.idle_timeout), RANGE(0, INT32_MAX), .fallback = "0",
     .missing = MISSING_NUMBER, SHOWN(46, "idle_timeout", SHOW_NUMBER),
     .help = "timeout for idle connections, 0 is never"},
    {.name = "slab_sizes", .argument = "<a-b-c>", .kind = OPTION_ACTION, .set = set_slab_sizes,
     .help = "chunk sizes of the slab classes, separated by -"},
    {.name = "slab_chunk_max", .argument = "<num>", .kind = OPTION_ACTION, .set = set_chunk_max,
     .fallback = "512", FIELD(store.chunk_max), SHOWN(30, "slab_chunk_max", SHOW_U64),
     .help = "maximum chunk size: up to 1024 in kilobytes, above in\n"
             "bytes. use extreme care.",
     .manual = "memcached takes bytes until 1.6.23, and kilobytes from 1.6.24 on. A line at the "
               "start says which it was taken for."},
    {.name = "watcher_logbuf_size", NUMBER, FIELD(commands.watcher_logbuf), RANGE(1, 1 << 21),
     .scale = 1024, .fallback = "256", PARSED("watcher_logbuf_size"),
     SHOWN(47, "watcher_logbuf_size", SHOW_NUMBER),
     .help = "size in kilobytes of per-watcher write buffer."},
    {.name = "worker_logbuf_size", NUMBER, FIELD(commands.worker_logbuf), RANGE(1, 1 << 21),
     .scale = 1024, .fallback = "64", PARSED("worker_logbuf_size"),
     SHOWN(48, "worker_logbuf_size", SHOW_NUMBER),
     .help = "size in kilobytes of per-worker-thread buffer"},
    {.name = "track_sizes", .kind = OPTION_ON, FIELD(store.track_sizes),
     SHOWN(49, "track_sizes", SHOW_YES_NO),
     .help = "enable dynamic reports for 'stats sizes' command."},
    {.name = "no_hashexpand", .kind = OPTION_OFF, FIELD(store.expand), .fallback = "on",
     .help = "disables hash table expansion (dangerous)"},
    {.name = "no_chunked_items", .kind = OPTION_ACTION, .set = set_no_chunked_items,
     .manual = "the same as slab_chunk_max=1048576"},
    {.name = "inline_ascii_resp", .kind = OPTION_SWITCH, FIELD(inline_ascii_response),
     SHOWN(50, "inline_ascii_response", SHOW_NO), .manual = "accepted without effect"},
    {.name = "modern", .kind = OPTION_IGNORE,
     .help = "enables options which will be default in future.\ncurrently: nothing"},
    {.name = "no_modern", .kind = OPTION_ACTION, .set = set_no_modern,
     .help = "uses defaults of previous major version (1.4.x)"},
    {.name = "drop_privileges", .kind = OPTION_ON, FIELD(drop_privileges),
     OPTION_LACKS(ENABLE_SECCOMP, "seccomp"), SHOWN(51, "drop_privileges", SHOW_YES_NO),
     .help = "after the start, allow only the system calls that\n"
             "serving needs: any other ends the process"},
    {.name = "no_drop_privileges", .kind = OPTION_OFF, FIELD(drop_privileges),
     .help = ENABLE_SECCOMP ? "do without that filter, the default" : NULL},
    {.name = "relaxed_privileges", .kind = OPTION_ON, FIELD(relaxed_privileges),
     .help = ENABLE_SECCOMP ? "with drop_privileges: such a call fails instead" : NULL},
    {.name = "read_buf_mem_limit", .argument = "<num>", .kind = OPTION_U64,
     FIELD(net.read_buf_limit), PARSED("read_buf_mem_limit"), RANGE(0, 1 << 30),
     .scale = 1 << 20, .fallback = "0", SHOWN(92, "read_buf_mem_limit", SHOW_U64),
     .help = "limit in megabytes for what clients have sent of\n"
             "requests that wait. 0: no limit",
     .manual = "Each worker thread has its share. A client that goes beyond it is disconnected. "
               "What waits is an incomplete request, and requests behind it or behind those that "
               "-R allows at a time, up to 16 KB of them. A client that waits for each answer "
               "takes nothing of it, and a value goes straight to the memory of its item."},
    {.name = "resp_obj_mem_limit", .argument = "<num>", .kind = OPTION_IGNORE, .set = warn_ignored,
     .manual = "accepted without effect, with a warning, as replies have no memory of their own "
               "to limit: see read_buf_mem_limit"},
    {.name = "sock_cookie_id", .argument = "<num>", .kind = OPTION_IGNORE, .set = warn_ignored,
     .manual = "accepted without effect, with a warning: sockets get no mark"},
    {.name = "reuseport", .kind = OPTION_SWITCH, FIELD(net.reuseport), .fallback = "on",
     SHOWN(80, "reuseport", SHOW_YES_NO),
     .help = "a UDP socket for each thread, steered to the thread on\n"
             "the receiving CPU. no_reuseport: one socket for all"},
    {.name = "s3_fifo", .kind = OPTION_ON, FIELD(store.s3_fifo), SHOWN(91, "s3_fifo", SHOW_YES_NO),
     .help = "evict by S3-FIFO: items that nobody reads go soon\n"
             "(requires lru_maintainer; not with extstore)",
     .manual = "New items are in the hot segment, a queue of hot_lru_pct percent of the memory of "
               "their slab class. At its end those that were read go to the cold segment, and the "
               "others are evicted; who comes back soon goes to the cold segment at once. At the "
               "end of that an item that was read since it came there stays. The warm segment is "
               "not used. Hit rates are higher than without where few keys are asked for often, "
               "and beside scans; where the popular keys change within minutes they are equal."},
    {.name = "bmc", .argument = "<if>[,...]", .kind = OPTION_ACTION,
     .help = "the same as -X bmc=<if>"},
    {.name = "ext_path", .argument = "<file>:<size>[:<bucket>]", .kind = OPTION_ACTION, EXTSTORE,
     .set = set_ext_path, .missing = "missing argument to ext_path, ie: ext_path=/d/file:5G",
     .help = "file on flash for values that memory has no room for,\n"
             "its size in k, m, g, t or p, and what it is for:\n"
             "default, compact, lowttl, chunked. Several for several\n"
             "disks. Not with -U. ie: ext_path=/mnt/d1/extstore:1G"},
    {.name = "ext_page_size", NUMBER, FIELD(flash.page_bytes), EXTSTORE, PARSED("ext_page_size"),
     RANGE(1, 2048), .scale = 1 << 20, .set = check_ext_page_size, .fallback = "64",
     .help = "size in megabytes of storage pages. before ext_path"},
    {.name = "ext_wbuf_size", NUMBER, FIELD(flash.buffer_bytes), EXTSTORE, PARSED("ext_wbuf_size"),
     RANGE(1, 2048), .scale = 1 << 20, .fallback = "4", SHOWN(56, "ext_wbuf_size", SHOW_U32),
     .help = "size in megabytes of page write buffers."},
    {.name = "ext_threads", NUMBER, FIELD(flash.nthreads), EXTSTORE, PARSED("ext_threads"),
     RANGE(1, 1024), .fallback = "1", .help = "number of IO threads to run."},
    {.name = "ext_io_depth", NUMBER, FIELD(flash.depth), EXTSTORE, PARSED("ext_io_depth"),
     RANGE(1, 1 << 20), .fallback = "1",
     .help = "reads that an IO thread takes from the queue at once."},
    {.name = "ext_max_sleep", NUMBER, FIELD(ignored), EXTSTORE, PARSED("ext_max_sleep"),
     RANGE(0, UINT32_MAX), .set = warn_ignored,
     .manual = "accepted without effect, with a warning: threads that wait are woken"},
    {.name = "ext_item_size", NUMBER, FIELD(ext.item_size), EXTSTORE, PARSED("ext_item_size"),
     RANGE(0, UINT32_MAX), .fallback = "512", SHOWN(52, "ext_item_size", SHOW_U32),
     .help = "store items larger than this (bytes)"},
    {.name = "ext_item_age", NUMBER, FIELD(ext.item_age), EXTSTORE, PARSED("ext_item_age"),
     RANGE(0, UINT32_MAX), SHOWN(53, "ext_item_age", SHOW_U32),
     .help = "store items idle at least this long (seconds,\ndefault: no age limit)"},
    {.name = "ext_low_ttl", NUMBER, FIELD(ext.low_ttl), EXTSTORE, PARSED("ext_low_ttl"),
     RANGE(0, UINT32_MAX), .fallback = "0", SHOWN(54, "ext_low_ttl", SHOW_U32),
     .help = "items with a lower TTL have pages of their own"},
    {.name = "ext_drop_unread", .kind = OPTION_SWITCH, FIELD(ext.drop_unread), EXTSTORE,
     SHOWN(61, "ext_drop_unread", SHOW_YES_NO),
     .help = "compaction drops unread values (see ext_drop_under)"},
    {.name = "ext_recache_rate", NUMBER, FIELD(ext.recache_rate), EXTSTORE,
     PARSED("ext_recache_rate"), RANGE(0, UINT32_MAX), .fallback = "2000",
     SHOWN(55, "ext_recache_rate", SHOW_U32),
     .help = "one read in so many brings the item back to memory"},
    {.name = "ext_compact_under", NUMBER, FIELD(ext.compact_under), EXTSTORE,
     PARSED("ext_compact_under"), RANGE(0, UINT32_MAX), SHOWN(57, "ext_compact_under", SHOW_U32),
     .help = "compact when fewer than this many free pages\n(default: a quarter of them)"},
    {.name = "ext_drop_under", NUMBER, FIELD(ext.drop_under), EXTSTORE, PARSED("ext_drop_under"),
     RANGE(0, UINT32_MAX), SHOWN(58, "ext_drop_under", SHOW_U32),
     .help = "with ext_drop_unread: drop when fewer than this many free pages\n"
             "(default: a quarter of them; 0 with ext_compact_under)"},
    {.name = "ext_max_frag", REAL, FIELD(ext.max_frag), EXTSTORE, PARSED("ext_max_frag"),
     RANGE(-DBL_MIN, DBL_MAX), /* 0 too */ .fallback = "0.8", SHOWN(59, "ext_max_frag", SHOW_REAL),
     .help = "max page fragmentation to tolerate. 0: any"},
    {.name = "slab_automove_freeratio", REAL, FIELD(ext.free_ratio), EXTSTORE,
     PARSED("slab_automove_freeratio"), RANGE(0, 1), .fallback = "0.01",
     SHOWN(60, "slab_automove_freeratio", SHOW_MILLI),
     .help = "ratio of memory to hold free as buffer."},
    {.name = "ssl_chain_cert", .argument = "<file>", .kind = OPTION_TEXT, TLS,
     FIELD(tls.chain_cert), SHOWN(63, "ssl_chain_cert", SHOW_TEXT),
     .help = "certificate chain, PEM"},
    {.name = "ssl_key", .argument = "<file>", .kind = OPTION_TEXT, TLS, FIELD(tls.key),
     SHOWN(64, "ssl_key", SHOW_TEXT), .help = "private key, if it is not in ssl_chain_cert"},
    {.name = "ssl_verify_mode", .argument = "<num>", .kind = OPTION_ACTION, TLS,
     FIELD(tls.verify_mode), .set = set_ssl_level, RANGE(0, 3), .fallback = "0",
     SHOWN(65, "ssl_verify_mode", SHOW_TLS_VERIFY),
     .help = "client certificates: 0 not asked for, 1 verified if\n"
             "there is one, 2 required, 3 the same, once"},
    {.name = "ssl_keyformat", NUMBER, TLS, FIELD(tls.key_format), RANGE(0, INT32_MAX),
     PARSED("ssl_keyformat"), .fallback = "1", SHOWN(66, "ssl_keyformat", SHOW_NUMBER),
     .help = "private key's format, 1: PEM, 2: DER"},
    {.name = "ssl_ciphers", .argument = "<list>", .kind = OPTION_TEXT, TLS, FIELD(tls.ciphers),
     SHOWN(67, "ssl_ciphers", SHOW_TEXT), .help = "ciphers of TLS 1.2 and below, as in ciphers(1)"},
    {.name = "ssl_ca_cert", .argument = "<file>", .kind = OPTION_TEXT, TLS, FIELD(tls.ca_cert),
     SHOWN(68, "ssl_ca_cert", SHOW_TEXT),
     .help = "PEM file of those who may sign clients' certificates"},
    {.name = "ssl_wbuf_size", NUMBER, TLS, FIELD(tls.wbuf_size), RANGE(0, 1 << 20), .scale = 1024,
     PARSED("ssl_wbuf_size"), .fallback = "16", SHOWN(69, "ssl_wbuf_size", SHOW_NUMBER),
     .help = "kilobytes of a reply that are encrypted together"},
    {.name = "ssl_kernel_tls", .kind = OPTION_IGNORE, .set = warn_ignored, TLS,
     .manual = "accepted without effect, with a warning: the server encrypts itself"},
    {.name = "ssl_session_cache", .kind = OPTION_SWITCH, TLS, FIELD(tls.session_cache),
     SHOWN(70, "ssl_session_cache", SHOW_YES_NO), .help = "let clients resume sessions"},
    {.name = "ssl_min_version", .argument = "<num>", .kind = OPTION_ACTION, TLS,
     FIELD(tls.min_version), .set = set_ssl_level, RANGE(0, 3), .fallback = "2",
     SHOWN(71, "ssl_min_version", SHOW_TLS_VERSION),
     .help = "lowest version that is accepted, 0: TLS 1.0 to 3: TLS 1.3"},

    /* --- settings without an option of their own --- */
    {FIELD(net.nthreads), SHOWN(7, "oldest", SHOW_ZERO)},
    {FIELD(net.nthreads), SHOWN(14, "num_threads_per_udp", SHOW_NUMBER)},
    {FIELD(commands.detail_enabled), SHOWN(16, "detail_enabled", SHOW_YES_NO)},
    {FIELD(sasl), SHOWN(21, "auth_enabled_sasl", SHOW_YES_NO)},
    {FIELD(store.tuning.lru_segmented), SHOWN(39, "lru_segmented", SHOW_YES_NO)},
    {FIELD(store.tuning.temp), SHOWN(44, "temp_lru", SHOW_YES_NO)},
};

/* clang-format on */

const size_t option_count = sizeof(option_table) / sizeof(option_table[0]);
