/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line: the values that are stored, the errors and their statuses, and the forms of -X.
 */
#include "config.h"
#include "options/options.h"

#include <string.h>

#include "config.h"
#include "options/table.h"
#include "t/lib/tap.h"

enum { MAX_WORDS = 80, ERROR_TEXT = 4096 };

struct outcome {
    struct options options;
    int status;
    char output[ERROR_TEXT];
    char line[512];
};

/* Parses `line`, split at blanks. */
static void parse(struct outcome *outcome, const char *line)
{
    char *argv[MAX_WORDS + 2] = {outcome->line};
    char *save = NULL;
    int argc = 1;
    FILE *output;

    memset(outcome->output, 0, sizeof(outcome->output));
    snprintf(outcome->line, sizeof(outcome->line), "memcached %s", line);
    strtok_r(outcome->line, " ", &save);
    while (argc <= MAX_WORDS && (argv[argc] = strtok_r(NULL, " ", &save)) != NULL)
        argc++;
    output = fmemopen(outcome->output, sizeof(outcome->output) - 1, "w");
    options_init(&outcome->options);
    outcome->status = options_parse(&outcome->options, argc, argv, output, output);
    fclose(output);
}

/* memcached's unit has changed. */
static void chunks_have_two_units(void)
{
    static const struct {
        const char *line;
        uint64_t bytes;
        const char *told; /* NULL: nothing */
    } cases[] = {
        {"-m 64", 512 << 10, NULL},
        {"-o slab_chunk_max=512", 512 << 10,
         "=512 was taken for kilobytes, as from memcached 1.6.24"},
        {"-o slab_chunk_max=1", 1 << 10, "=1 was taken for kilobytes"},
        {"-o slab_chunk_max=1024", 1 << 20, "=1024 was taken for kilobytes"},
        {"-o slab_chunk_max=2048", 2048, "=2048 was taken for bytes, as until memcached 1.6.23"},
        {"-o slab_chunk_max=524288", 512 << 10, "=524288 was taken for bytes"},
        {"-o slab_chunk_max=512,no_chunked_items", 1 << 20, NULL},
        {"-o slab_chunk_max=512,no_modern", 1 << 20, NULL},
    };
    struct outcome o;

    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *told = cases[i].told;

        parse(&o, cases[i].line);
        ok(o.status == OPTIONS_RUN && o.options.store.chunk_max == cases[i].bytes &&
               (told ? strstr(o.output, told) && strchr(o.output, '\n')[1] == '\0' : !o.output[0]),
           "%s: %llu bytes, and %s", cases[i].line, (unsigned long long)cases[i].bytes,
           told ? "a line says so" : "no line");
        options_fini(&o.options);
    }
}

static void table_is_consistent(void)
{
    bool unique = true, fits = true;

    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_table[i];

        fits &= row->place <= OPTION_PLACES && !row->place == !row->setting;
        for (size_t j = 0; j < i; j++) {
            const struct option_row *other = &option_table[j];

            unique &= !row->letter || row->letter != other->letter;
            unique &= !row->place || row->place != other->place;
            unique &= !row->name || !other->name || !row->letter == !!other->letter ||
                      strcmp(row->name, other->name) != 0;
        }
    }
    ok(unique, "no letter, name or position in stats settings is used twice");
    ok(fits, "each setting has a position");
}

static void defaults_are_memcacheds(void)
{
    struct outcome o;

    parse(&o, "");
    ok(o.status == OPTIONS_RUN && !o.output[0], "an empty command line is accepted");
    ok(o.options.net.tcp_port == 11211 && o.options.net.udp_port == 0,
       "TCP port 11211, no UDP port");
    ok(o.options.store.memory_limit == 64u << 20 && o.options.store.item_max == 1u << 20 &&
           o.options.store.chunk_max == 1u << 19 && o.options.store.chunk_min == 48,
       "64 MB, items to 1 MB, chunks to 512 KB");
    ok(o.options.net.nthreads == 4 && o.options.net.max_connections == 1024 &&
           o.options.net.backlog == 1024 && o.options.net.reqs_per_event == 20,
       "4 threads, 1024 connections, backlog 1024, 20 requests");
    ok(o.options.store.cas && o.options.store.evict && o.options.commands.flush_enabled &&
           o.options.commands.dump_enabled && o.options.net.maxconns_fast &&
           o.options.store.maintained && o.options.store.tuning.lru_segmented &&
           o.options.store.expand && o.options.net.reuseport && !o.options.store.tuning.temp,
       "switches have memcached's defaults");
    options_fini(&o.options);
}

static void optional_kernel_paths(void)
{
    struct outcome o;

    parse(&o, "-X bmc=lo,tcp=on,optional -p 0 -U 1");
    ok(o.status == OPTIONS_RUN && strstr(options_without_kernel(&o.options), "a TCP port (-p)"),
       "with optional a kernel path that can answer nothing refuses no start: %s", o.output);
    options_fini(&o.options);
    parse(&o, "-X bmc=lo,optional -s /x");
    ok(o.status == OPTIONS_RUN && strstr(options_without_kernel(&o.options), "a unix socket"),
       "whatever the reason");
    options_fini(&o.options);
    parse(&o, "-X bmc=lo,tcp=on -p 1");
    ok(o.status == OPTIONS_RUN && !options_without_kernel(&o.options),
       "one that can answer has no reason");
    options_fini(&o.options);
}

static void values_are_stored(void)
{
    struct outcome o;

    parse(&o,
          "-p 1 -U 2 -c 18 -t 3 -m 100 -f 1.5 -n 64 -b 5 -R 9 -I 512k -a 770 -s /x -u u -P p -vv "
          "-M -C -F -A -k -r -d -L -l a -l b,c -D / -o hashpower=20,idle_timeout=4,"
          "no_maxconns_fast,slab_sizes=100-200-304,no_hashexpand,temporary_ttl=7");
    ok(o.status == OPTIONS_RUN, "a long line of options is accepted: %s", o.output);
    ok(o.options.net.tcp_port == 1 && o.options.net.udp_port == 0, "-s leaves no UDP port");
    ok(o.options.net.max_connections == 18 && o.options.net.nthreads == 3 &&
           o.options.net.backlog == 5 && o.options.net.reqs_per_event == 9 &&
           o.options.store.chunk_min == 64,
       "numbers are stored");
    ok(o.options.store.memory_limit == 100u << 20 && o.options.store.item_max == 512u << 10,
       "sizes too");
    ok(o.options.store.growth_factor == 1.5 && o.options.net.access_mask == 0770,
       "factors and masks are stored");
    ok(strcmp(o.options.net.addresses, "a,b,c") == 0, "several -l are joined");
    ok(!o.options.store.evict && !o.options.store.cas && !o.options.commands.flush_enabled &&
           !o.options.store.expand && !o.options.net.maxconns_fast,
       "switches are off");
    ok(o.options.commands.shutdown_enabled && o.options.lock_memory && o.options.coredumps &&
           o.options.daemonize && o.options.store.prealloc && o.options.verbosity == 2,
       "or on");
    ok(o.options.commands.prefix_delimiter == '/' && o.options.commands.detail_enabled,
       "-D turns collection of statistics on");
    ok(o.options.store.slab_sizes[2] == 304 && o.options.store.slab_sizes[3] == 0,
       "slab sizes are a list");
    ok(o.options.store.tuning.temp && o.options.store.tuning.temporary_ttl == 7,
       "temporary_ttl turns the temporary LRU segment on");
    options_fini(&o.options);
}

static void short_lines_are_taken(void)
{
    struct outcome o;

    parse(&o, "stray --threads=2 words --no-such=1");
    ok(o.status == 1 && strstr(o.output, "Illegal argument \"?\""),
       "an unknown long option is an error");
    options_fini(&o.options);
    parse(&o, "stray --threads=2 words -U 77");
    ok(o.status == OPTIONS_RUN && o.options.net.nthreads == 2, "operands are ignored");
    ok(o.options.net.tcp_port == 77 && o.options.net.udp_port == 77,
       "-U alone sets the TCP port, too");
    options_fini(&o.options);
    parse(&o, "-p -1 -U -1");
    ok(o.options.net.tcp_port == -1 && o.options.net.udp_port == -1,
       "port -1 is an ephemeral port");
    options_fini(&o.options);
    parse(&o, "-l a -l a,bc -l b -l bc -l c;a");
    ok(strcmp(o.options.net.addresses, "a,a,bc,b,c;a") == 0,
       "a repeated -l names an address once: %s", o.options.net.addresses);
    options_fini(&o.options);
    parse(&o, "--napi-ids=1 --napi_ids=1 --napi-ids 1 -N 1 -o read_buf_mem_limit=5000");
    ok(o.status == OPTIONS_RUN && !o.output[0], "--napi-ids has two forms, as 1.6 has it: %s",
       o.output);
    ok(o.options.net.read_buf_limit == 5000ull << 20, "read_buf_mem_limit is in megabytes");
    options_fini(&o.options);
    parse(&o, "-o no_lru_maintainer");
    ok(!o.options.store.tuning.lru_segmented, "without the maintainer the LRU has no segments");
    options_fini(&o.options);
    parse(&o, "-m 8 -o slab_automove,modern,worker_logbuf_size=1 -B ascii -o no_slab_automove");
    ok(o.status == OPTIONS_RUN && o.options.store.tuning.automove == 0 &&
           o.options.commands.worker_logbuf == 1024,
       "an optional argument may be left out; later options override");
    options_fini(&o.options);
}

struct refusal {
    const char *line;
    int status;
    const char *text;
};

static const struct refusal refusals[] = {
    {"-p 65536", 64, "ERROR: Invalid port number 65536."},
    {"-U -2", 64, "ERROR: Invalid port number -2."},
    {"-p x", 64, "ERROR: Invalid port number x."},
    {"-c 0", 1, "Maximum connections must be greater than 0"},
    {"-t 0", 1, "Number of threads must be greater than 0"},
    {"-t x", 1, "Number of threads must be greater than 0"},
    {"-R 0", 1, "Number of requests per event must be greater than 0"},
    {"-f 1", 1, "Factor must be greater than 1"},
    {"-f x", 1, "Factor must be greater than 1"},
    {"-n 0", 1, "Chunk size must be greater than 0"},
    {"-t 1025", 1, "must be between 1 and 1024"},
    {"-n 1048577", 1, "must be between 1 and 1048576"},
    {"-b x", 64, "Invalid value \"x\" for --listen-backlog"},
    {"-a 9", 64, "Invalid access mask"},
    {"-m x", 64, "Invalid memory limit"},
    {"-B foo", 64, "Invalid value for binding protocol: foo"},
    {"-I 1023", 64, "cannot be less than 1024 bytes"},
    {"-I -5", 64, "cannot be less than 1024 bytes"},
    {"-I 33m", 64, "higher than 1/2 of memory max"},
    {"-m 4096 -I 1025m", 64, "higher than a gigabyte"},
    {"-I 600k", 64, "must be evenly divisible by slab_chunk_max"},
    {"-o slab_chunk_max=0", 1, "could not parse argument to slab_chunk_max"},
    {"-o slab_chunk_max=300000 -I 900000", 64, "must divide evenly into 1048576"},
    {"-o slab_sizes=100-100", 64, "cannot be lower than or equal to a previous class size"},
    {"-o slab_sizes=100-101", 64, "must be at least 8 bytes larger than previous class"},
    {"-o slab_sizes=x", 64, "slab size 0 is out of valid range"},
    {"-o slab_sizes", 1, "Missing slab_sizes argument"},
    {"-o hashpower", 1, "Missing numeric argument for hashpower"},
    {"-o hashpower=11", 1, "Initial hashtable multiplier of 11 is too low"},
    {"-o hashpower=", 1, "Initial hashtable multiplier of 0 is too low"},
    {"-o hashpower=x", 1, "Initial hashtable multiplier of 0 is too low"},
    {"-o hashpower=-1", 1, "Initial hashtable multiplier of -1 is too low"},
    {"-o hashpower=33", 1, "Initial hashtable multiplier of 33 is too high"},
    {"-o slab_chunk_max=300", 64, "must be evenly divisible by slab_chunk_max (bytes: 307200)"},
    {"-o slab_chunk_max=1025", 64, "must be evenly divisible by slab_chunk_max (bytes: 1025)"},
    {"-o read_buf_mem_limit", 1, "Missing read_buf_mem_limit argument"},
    {"-o read_buf_mem_limit=x", 1, "could not parse argument to read_buf_mem_limit"},
    {"-o read_buf_mem_limit=-1", 1, "could not parse argument to read_buf_mem_limit"},
    {"-o read_buf_mem_limit=5m", 1, "could not parse argument to read_buf_mem_limit"},
    {"-o slab_chunk_max=16x", 1, "could not parse argument to slab_chunk_max"},
    {"-o slab_chunk_max=2097152", 64, "cannot be larger than -I"},
    {"-o slab_sizes=", 64, "needs at least one size"},
    {"-o slab_sizes=100-600000", 64, "slab size 600000 is out of valid range"},
    {"-o no_track_sizes", 1, "Illegal suboption"},
    {"-o no_relaxed_privileges", 1, "Illegal suboption"},
    {"-o hashexpand", 1, "Illegal suboption"},
    {"-o chunked_items", 1, "Illegal suboption"},
    {"-o watcher_logbuf_size=9x", 1, "could not parse argument to watcher_logbuf_size"},
    {"-o lru_crawler_tocrawl=5x", 1, "lru_crawler_tocrawl takes a numeric 32bit value"},
    {"-o hash_algorithm=md5", 1, "Unknown hash_algorithm option"},
    {"-o slab_automove=3", 1, "slab_automove must be between 0 and 2"},
    {"-o slab_automove_ratio=0", 1, "slab_automove_ratio must be > 0 and < 1"},
    {"-o slab_automove_window=2", 1, "slab_automove_window must be > 2"},
    {"-o tail_repair_time=9", 1, "Cannot set tail_repair_time to less than 10 seconds"},
    {"-o lru_crawler_sleep=1000001", 1, "LRU crawler sleep must be between 0 and 1 second"},
    {"-o lru_crawler_sleep", 1, "Missing lru_crawler_sleep value"},
    {"-o lru_crawler_tocrawl=x", 1, "lru_crawler_tocrawl takes a numeric 32bit value"},
    {"-o hot_lru_pct=80", 1, "hot_lru_pct must be > 1 and < 80"},
    {"-o warm_lru_pct=0", 1, "warm_lru_pct must be > 1 and < 80"},
    {"-o hot_lru_pct=50,warm_lru_pct=31", 64, "cannot be more than 80% combined"},
    {"-o hot_max_factor=0", 1, "hot_max_factor must be > 0"},
    {"-o no_lru_maintainer,temporary_ttl=5", 64, "temporary_ttl requires lru_maintainer"},
    {"-o idle_timeout", 1, "Missing numeric argument for idle_timeout"},
    {"-o worker_logbuf_size=x", 1, "could not parse argument to worker_logbuf_size"},
    {"-o foo=bar", 1, "Illegal suboption \"foo=bar\""},
    {"-o modern,,modern", 1, "Illegal suboption \"\""},
    {"-o no_hashpower", 1, "Illegal suboption \"no_hashpower\""},
    {"-o mode=native", 1, "Illegal suboption \"mode=native\""},
    {"-q", 1, "Illegal argument \"?\""},
    {"-P", 1, "Illegal argument \"?\""},
    {"-S -B ascii", 64,
     ENABLE_SASL ? "cannot allow the ASCII protocol while using SASL"
                 : "This server is not built with SASL support."},
    {"-Y /x -B binary", 64, "cannot allow the BINARY protocol while using ascii authentication"},
    {"-Y /x -B auto", 64, "cannot allow the BINARY protocol while using ascii authentication"},
    {"-Y /x -U 1", 64, "Cannot use UDP with ascii authentication enabled (-U 0 to disable)"},
    {"-Y /x -U 1 -X bmc=eth0", 64, "it can answer TCP alone (without -U"},
    {"-U 1 -X bmc=eth0,optional,nonsense,tcp=on", 64, "bmc: \"nonsense\": the words are bmc="},
    {"-U 1 -X bmc=eth0,,tcp=on", 64, "bmc: \"\": the words are bmc="},
    {"-U 1 -o bmc=eth0,rate=x", 64, "bmc: \"rate=x\": rate= takes"},
    {"-U 1 -X bmc=eth0,keymax=9", 64, "bmc: entries=, keymax="},
    {"-X bmc=eth0", 64, "add a UDP port (-U 11211), or"},
    {"-X bmc=eth0 -U 1 -s /x", 64, "cannot go with a unix socket"},
    {"-X bmc=eth0,tcp=on -s /x", 64, "cannot go with a unix socket"},
    {"-X bmc=eth0,tcp=on,udp=on", 64, "add a UDP port"},
    {"-X bmc=eth0,tcp=on -U 1 -p 0", 64, "tcp=on needs a TCP port"},
    {"-X bmc=eth0,tcp=no -U 1", 64, "tcp is on or off"},
    {"-X tcp=no,bmc=eth0 -U 1", 64, "tcp is on or off"},
    {"-X bmc=eth0,udp= -U 1", 64, "udp is on or off"},
    {"-X bmc=eth0,unstamped=no,tcp=on -U 1", 64, "unstamped is on or off"},
    {"-X bmc=eth0,unstamped=on -U 1", 64, "unstamped=on is for TCP: it needs tcp=on"},
    {"-X bmc=eth0,udp=off -U 1", 64, "udp=off leaves nothing to answer"},
    {"-X bmc=eth0,udp=off,tcp=off -U 1", 64, "udp=off leaves nothing to answer"},
    {"-X bmc=eth0,mode=chain,tcp=on -U 1", 64, "mode=chain cannot go with tcp="},
    {"-X bmc=eth0,mode=chain,udp=on -U 1", 64, "mode=chain cannot go with tcp="},
    {"-X bmc=eth0,mode=chain,refresh=1 -U 1", 64, "mode=chain cannot go with tcp="},
    {"-Y /x -X bmc=eth0,udp=on,tcp=on", 64, "with authentication (-S, -Y) it needs udp=off"},
    {"-Y /x -U 1 -X bmc=eth0,udp=off,tcp=on", 64, "Cannot use UDP with ascii authentication"},
};

static const struct refusal flash_refusals[] = {
    {"-o ext_path", 1, "missing argument to ext_path, ie: ext_path=/d/file:5G"},
    {"-o ext_path=", 1, "failed to parse ext_path argument"},
    {"-o ext_path=/x", 1,
     "must supply size to ext_path, ie: ext_path=/f/e:64m (M|G|T|P supported)"},
    {"-o ext_path=/x:", 1, "must supply size to ext_path"},
    {"-o ext_path=:64m", 1, "must supply size to ext_path"},
    {"-o ext_path=/x:64", 1, "ext_path takes a size of one page (ext_page_size) or more: 64"},
    {"-o ext_path=/x:64mb", 1, "ext_path takes a size"},
    {"-o ext_path=/x:63m", 1, "ext_path takes a size"},
    {"-o ext_path=/x:99999999999p", 1, "ext_path takes a size"},
    {"-o ext_path=/x:-1g", 1, "ext_path takes a size"},
    {"-o ext_path=/x:64m:foo", 1, "Unknown extstore bucket: foo"},
    {"-o ext_path=/x:64m,ext_page_size=8", 1,
     "Must specify ext_page_size before any ext_path arguments"},
    {"-o ext_page_size=0", 1, "could not parse argument to ext_page_size"},
    {"-o ext_path=/x:64m -U 11211", 64, "Cannot use UDP with extstore enabled (-U 0 to disable)"},
    {"-o ext_path=/x:64m -I 8m", 64,
     "-I (item_size_max: 8388608) cannot be larger than ext_wbuf_size: 4194304"},
    {"-o ext_path=/x:64m,ext_wbuf_size=5", 1, "page_size must be divisible by wbuf_size"},
    {"-o slab_automove_freeratio=2", 1, "could not parse argument to slab_automove_freeratio"},
    {"-o ext_page_size", 1, "Missing ext_page_size argument"},
    {"-o ext_page_size=x", 1, "could not parse argument to ext_page_size"},
    {"-o ext_wbuf_size", 1, "Missing ext_wbuf_size argument"},
    {"-o ext_wbuf_size=x", 1, "could not parse argument to ext_wbuf_size"},
    {"-o ext_threads", 1, "Missing ext_threads argument"},
    {"-o ext_threads=x", 1, "could not parse argument to ext_threads"},
    {"-o ext_io_depth", 1, "Missing ext_io_depth argument"},
    {"-o ext_io_depth=x", 1, "could not parse argument to ext_io_depth"},
    {"-o ext_item_size", 1, "Missing ext_item_size argument"},
    {"-o ext_item_size=x", 1, "could not parse argument to ext_item_size"},
    {"-o ext_item_age", 1, "Missing ext_item_age argument"},
    {"-o ext_item_age=x", 1, "could not parse argument to ext_item_age"},
    {"-o ext_low_ttl", 1, "Missing ext_low_ttl argument"},
    {"-o ext_low_ttl=x", 1, "could not parse argument to ext_low_ttl"},
    {"-o ext_recache_rate", 1, "Missing ext_recache_rate argument"},
    {"-o ext_recache_rate=x", 1, "could not parse argument to ext_recache_rate"},
    {"-o ext_compact_under", 1, "Missing ext_compact_under argument"},
    {"-o ext_compact_under=x", 1, "could not parse argument to ext_compact_under"},
    {"-o ext_drop_under", 1, "Missing ext_drop_under argument"},
    {"-o ext_drop_under=x", 1, "could not parse argument to ext_drop_under"},
    {"-o ext_max_frag", 1, "Missing ext_max_frag argument"},
    {"-o ext_max_frag=x", 1, "could not parse argument to ext_max_frag"},
    {"-o slab_automove_freeratio", 1, "Missing slab_automove_freeratio argument"},
    {"-o slab_automove_freeratio=x", 1, "could not parse argument to slab_automove_freeratio"},
};

static const struct refusal flash_absent[] = {
    {"-o ext_path=/x:64m", 64, "This server is not built with extstore support."},
    {"-o ext_item_size=100", 64, "This server is not built with extstore support."},
};

static const struct refusal tls_refusals[] = {
    {"-Z -p 0", 64, "ERROR: You cannot enable SSL without a TCP port."},
    {"-o ssl_chain_cert", 1, "Missing ssl_chain_cert argument"},
    {"-o ssl_key", 1, "Missing ssl_key argument"},
    {"-o ssl_verify_mode", 1, "Missing ssl_verify_mode argument"},
    {"-o ssl_verify_mode=x", 1, "could not parse argument to ssl_verify_mode"},
    {"-o ssl_verify_mode=4", 1, "Invalid ssl_verify_mode. Use help to see valid options."},
    {"-o ssl_verify_mode=-1", 1, "Invalid ssl_verify_mode. Use help to see valid options."},
    {"-o ssl_keyformat", 1, "Missing ssl_keyformat argument"},
    {"-o ssl_keyformat=PEM", 1, "could not parse argument to ssl_keyformat"},
    {"-o ssl_ciphers", 1, "Missing ssl_ciphers argument"},
    {"-o ssl_ca_cert", 1, "Missing ssl_ca_cert argument"},
    {"-o ssl_wbuf_size", 1, "Missing ssl_wbuf_size argument"},
    {"-o ssl_wbuf_size=4k", 1, "could not parse argument to ssl_wbuf_size"},
    {"-o ssl_min_version", 1, "Missing ssl_min_version argument"},
    {"-o ssl_min_version=4", 1, "Invalid ssl_min_version. Use help to see valid options."},
};

/* How a build without TLS refuses its options. */
static const struct refusal tls_absent[] = {
    {"-Z", 64, "This server is not built with SSL support."},
    {"--enable-ssl", 64, "This server is not built with SSL support."},
    {"-o ssl_chain_cert=/x", 64, "This server is not built with SSL support."},
    {"-o ssl_min_version=3", 64, "This server is not built with SSL support."},
};

static void refuses(const struct refusal *rows, size_t nrows)
{
    for (size_t i = 0; i < nrows; i++) {
        const struct refusal *refusal = &rows[i];
        struct outcome o;

        parse(&o, refusal->line);
        if (!ok(o.status == refusal->status && strstr(o.output, refusal->text), "%s is refused",
                refusal->line))
            diag("status %d: %s", o.status, o.output);
        options_fini(&o.options);
    }
}

static void wrong_values_are_refused(void)
{
    refuses(refusals, COUNT(refusals));
    if (ENABLE_TLS)
        refuses(tls_refusals, COUNT(tls_refusals));
    else
        refuses(tls_absent, COUNT(tls_absent));
    if (ENABLE_EXTSTORE)
        refuses(flash_refusals, COUNT(flash_refusals));
    else
        refuses(flash_absent, COUNT(flash_absent));
}

static void help_comes_from_the_table(void)
{
    struct outcome o;

    parse(&o, "-V");
    ok(o.status == 0 && strncmp(o.output, "memcached 1.5.19", 16) == 0, "-V prints the version");
    options_fini(&o.options);
    parse(&o, "-p 5 -h");
    ok(o.status == 0 && strstr(o.output, "\n-p, --port=<num>          TCP port"),
       "-h lists options");
    ok(!ENABLE_SASL == !strstr(o.output, "sasl"), "-h lists SASL where it is built in");
    ok(!ENABLE_TLS == !strstr(o.output, "enable-ssl"), "and TLS");
    options_fini(&o.options);
}

struct dash_x {
    const char *line;
    bool kernel_path, dumping;
    unsigned int verbosity;
};

static const struct dash_x dash_x[] = {
    {"-U 1 -X", false, false, 0},
    {"-U 1 -X -v", false, false, 1},
    {"-U 1 -Xv", false, false, 1},
    {"-U 1 -vX", false, false, 1},
    {"-U 1 --disable-dumping", false, false, 0},
    {"-U 1 --disable-dumping bmc=eth0", false, false, 0},
    {"-U 1 bmc=eth0 -X", false, false, 0},
    {"-U 1 -X bmc=eth0", true, true, 0},
    {"-U 1 -X bmc=eth0,bmc=eth1,mode=native,optional -v", true, true, 1},
    {"-U 1 -vX bmc=eth0 -v", true, true, 2},
    {"-U 1 -Xbmc=eth0 -v", true, true, 1},
    {"-U 1 -vvXbmc=eth0 -v", true, true, 3},
    {"stray -U 1 -Xbmc=eth0 stray -v", true, true, 1},
    {"-U 1 -X -X bmc=eth0", true, false, 0},
    {"-U 1 -XX bmc=eth0", true, false, 0},
    {"-U 1 -XXbmc=eth0 -v", true, false, 1},
    {"-U 1 -X bmc=eth0 -X", true, false, 0},
    {"-U 1 -X bmc=eth0 -X bmc=eth1", true, true, 0},
    {"-U 1 -X mode=skb,bmc=eth0 -v", true, true, 1},
    {"-U 1 -Xoptional,mode=skb,bmc=eth0 -v", true, true, 1},
    {"-U 1 -X mode=skb -v", false, false, 1},
    {"-U 1 -X xbmc=eth0,mode=skb -v", false, false, 1},
    {"-U 1 -X -omaxconns_fast,bmc=eth0 -v", true, false, 1},
    {"-U 1 -o bmc=eth0", true, true, 0},
    {"-U 1 -o bmc=eth0,bmc=eth1,mode=native,no_maxconns_fast -v", true, true, 1},
    {"-U 1 -o no_maxconns_fast,bmc=eth0,optional", true, true, 0},
};

static void dash_x_means_two_things(void)
{
    for (size_t i = 0; i < COUNT(dash_x); i++) {
        const struct dash_x *x = &dash_x[i];
        struct outcome o;

        parse(&o, x->line);
        if (!ok(o.status == OPTIONS_RUN && (o.options.kcache.ninterfaces > 0) == x->kernel_path &&
                    o.options.commands.dump_enabled == x->dumping &&
                    o.options.verbosity == x->verbosity,
                "%s: kernel path %s, dumping %s", x->line, x->kernel_path ? "on" : "off",
                x->dumping ? "on" : "off"))
            diag("status %d: %s", o.status, o.output);
        options_fini(&o.options);
    }
}

static void words_after_bmc_belong_to_it(void)
{
    struct outcome o;

    parse(&o, "-U 1 -o maxconns_fast,bmc=eth0,mode=native,optional,no_maxconns_fast");
    ok(o.status == OPTIONS_RUN && !o.options.net.maxconns_fast,
       "words up to the next suboption belong to bmc=: %s", o.output);
    ok(o.options.kcache.optional, "'optional' belongs to bmc=");
    ok(o.options.kcache.ninterfaces == 1 && strcmp(o.options.kcache.interfaces[0], "eth0") == 0,
       "the interface is eth0");
    options_fini(&o.options);
}

static void tcp_is_answered_if_asked(void)
{
    static const struct {
        const char *line;
        enum kcache_switch udp, tcp;
    } cases[] = {
        {"-U 1 -X bmc=eth0", KCACHE_ON, KCACHE_UNSAID},
        {"-U 1 -X bmc=eth0,tcp=off", KCACHE_ON, KCACHE_OFF},
        {"-U 1 -X bmc=eth0,tcp=on", KCACHE_ON, KCACHE_ON},
        {"-U 1 -X bmc=eth0,tcp=on,udp=off", KCACHE_OFF, KCACHE_ON},
        {"-X bmc=eth0,tcp=on", KCACHE_OFF, KCACHE_ON},
        {"-o bmc=eth0,tcp=on,no_maxconns_fast", KCACHE_OFF, KCACHE_ON},
        {"-Y /x -X bmc=eth0,tcp=on", KCACHE_OFF, KCACHE_ON},
    };
    struct outcome o;

    for (size_t i = 0; i < COUNT(cases); i++) {
        parse(&o, cases[i].line);
        ok(o.status == OPTIONS_RUN && o.options.kcache.udp == cases[i].udp &&
               o.options.kcache.tcp == cases[i].tcp && o.options.kcache.connections == 1024,
           "%s: what the kernel answers %s", cases[i].line, o.output);
        options_fini(&o.options);
    }
}

int main(void)
{
    table_is_consistent();
    chunks_have_two_units();
    defaults_are_memcacheds();
    values_are_stored();
    short_lines_are_taken();
    optional_kernel_paths();
    wrong_values_are_refused();
    help_comes_from_the_table();
    dash_x_means_two_things();
    words_after_bmc_belong_to_it();
    tcp_is_answered_if_asked();
    return done();
}
