/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects on flash: from where they are read, and when they are lost. */
#include "flash/flash.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "flash/crc32c.h"
#include "t/lib/tap.h"

enum { PAGE = 64 << 10, BUFFER = 16 << 10, OBJECT = 1000, PAGES = 4 };
enum { FRAME = 1008, PER_BUFFER = BUFFER / FRAME, PER_PAGE = PAGE / BUFFER * PER_BUFFER };

struct lab {
    char folder[64], files[FLASH_BUCKETS][80];
    struct flash *flash;
};

/* A flash store of a file of 4 pages for each of the buckets. */
static void open_lab(struct lab *lab, const enum flash_bucket *buckets, size_t n)
{
    struct flash_path paths[FLASH_BUCKETS];
    const struct flash_config config = {paths, n, PAGE, BUFFER, 2, 3};
    char error[256] = "";

    strcpy(lab->folder, "/tmp/flash-unit-XXXXXX");
    if (!mkdtemp(lab->folder))
        skip_all("no temporary folder");
    for (size_t i = 0; i < n; i++) {
        snprintf(lab->files[i], sizeof(lab->files[i]), "%s/%zu", lab->folder, i);
        paths[i] = (struct flash_path){lab->files[i], PAGES, buckets[i]};
    }
    lab->flash = flash_open(&config, error, sizeof(error));
    if (!ok(lab->flash && flash_start(lab->flash) == 0, "a flash store opens %s", error))
        exit(1);
}

static void close_lab(struct lab *lab)
{
    flash_close(lab->flash);
    for (size_t i = 0; i < FLASH_BUCKETS; i++)
        unlink(lab->files[i]);
    rmdir(lab->folder);
}

static void open_plain(struct lab *lab)
{
    static const enum flash_bucket bucket = FLASH_DEFAULT;

    *lab = (struct lab){0};
    open_lab(lab, &bucket, 1);
}

static void fill(char object[OBJECT], unsigned int number)
{
    for (size_t i = 0; i < OBJECT; i++)
        object[i] = (char)(number * 31 + i);
    memcpy(object, &number, sizeof(number));
}

static struct flash_at put(struct lab *lab, enum flash_bucket bucket, unsigned int number)
{
    char object[OBJECT];
    const struct iovec iov[2] = {{object, 10}, {object + 10, OBJECT - 10}};
    struct flash_at at = {0};

    fill(object, number);
    if (!flash_write(lab->flash, bucket, iov, 2, &at))
        ok(false, "object %u is written", number);
    return at;
}

static enum flash_result get(struct lab *lab, const struct flash_at *at, unsigned int number)
{
    char object[OBJECT], buffer[OBJECT] = {0};
    const struct iovec iov[2] = {{buffer, 7}, {buffer + 7, OBJECT - 7}};
    struct flash_read read = {.at = *at, .iov = iov, .niov = 2};

    fill(object, number);
    flash_read_wait(lab->flash, &read);
    if (read.result == FLASH_READ && memcmp(buffer, object, OBJECT) != 0)
        ok(false, "object %u is read as it was written", number);
    return read.result;
}

static struct flash_stats stats_of(struct lab *lab)
{
    struct flash_stats stats;

    flash_stats(lab->flash, &stats);
    return stats;
}

/* --- the checksum ---------------------------------------------------------- */

static void crc32c_is_that_of_the_rfc(void)
{
    char zeros[32] = {0}, ones[32], rising[32], bytes[256];
    struct crc32c by_table, best;
    bool equal = true;

    crc32c_init(&best);
    by_table = best;
    by_table.update = crc32c_by_table;
    memset(ones, 0xff, sizeof(ones));
    for (int i = 0; i < 32; i++)
        rising[i] = (char)i;
    ok(crc32c(&best, 0, "123456789", 9) == 0xe3069283u, "CRC32C of 123456789");
    ok(crc32c(&best, 0, zeros, 32) == 0x8a9136aau, "CRC32C of 32 zeros (RFC 3720, B.4)");
    ok(crc32c(&best, 0, ones, 32) == 0x62a8ab43u, "CRC32C of 32 bytes of ones");
    ok(crc32c(&best, 0, rising, 32) == 0x46dd794eu, "CRC32C of 32 rising bytes");
    ok(crc32c(&best, crc32c(&best, 0, "1234", 4), "56789", 5) == 0xe3069283u,
       "CRC32C in two steps");
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * i);
    for (size_t from = 0; from < 8; from++)
        for (size_t n = 0; n < 200; n++)
            equal &= crc32c(&best, 0, bytes + from, n) == crc32c(&by_table, 0, bytes + from, n);
    ok(equal, "the table's and the processor's CRC32C agree at any length and alignment");
}

/* --- reading what was written ------------------------------------------------ */

static void objects_come_back(struct lab *lab)
{
    enum { N = 2 * PER_BUFFER };
    struct flash_at at[N];
    char buffer[OBJECT];
    struct iovec iov = {buffer, OBJECT};
    bool good = true;

    for (unsigned int i = 0; i < N; i++)
        at[i] = put(lab, FLASH_DEFAULT, i);
    for (unsigned int i = 0; i < N; i++)
        good &= get(lab, &at[i], i) == FLASH_READ;
    ok(good, "objects are read from the file and from the write buffer");
    ok(flash_read_now(lab->flash, &(struct flash_read){.at = at[N - 1], .iov = &iov, .niov = 1}),
       "an object in the write buffer can be read without waiting");
    ok(stats_of(lab).objects_read == N + 1, "each read is counted");
    ok(stats_of(lab).bytes_written == (uint64_t)N * FRAME, "the bytes written are counted");
    at[0].crc++;
    ok(get(lab, &at[0], 0) == FLASH_BAD, "reading with another checksum is an error");
    at[1].version++;
    ok(get(lab, &at[1], 1) == FLASH_GONE, "an object of another version is lost");
}

static void an_object_is_at_most_a_buffer(struct lab *lab)
{
    static char bytes[BUFFER];
    struct iovec iov = {bytes, BUFFER - 7};
    struct flash_at at;

    ok(!flash_write(lab->flash, FLASH_DEFAULT, &iov, 1, &at),
       "an object longer than a write buffer is refused");
    iov.iov_len = BUFFER - 8;
    ok(flash_write(lab->flash, FLASH_DEFAULT, &iov, 1, &at),
       "an object as long as a write buffer is accepted");
    ok(flash_write(lab->flash, FLASH_DEFAULT, &iov, 1, &at), "the object after it is accepted");
}

static void objects_may_be_read_in_pieces(void)
{
    enum { N = 3000, PIECES = N + 1 }; /* more than one system call reads */
    static char object[2 * N + 5], buffer[2 * N + 5];
    static struct iovec to[PIECES];
    struct iovec from = {object, sizeof(object)};
    struct flash_read read = {.iov = to, .niov = PIECES};
    struct lab lab;

    for (size_t i = 0; i < sizeof(object); i++)
        object[i] = (char)(i * 7 + i / 256);
    for (size_t i = 0; i < N; i++)
        to[i] = (struct iovec){buffer + 2 * i, 2};
    to[N] = (struct iovec){buffer + (size_t)2 * N, 5};
    open_plain(&lab);
    ok(flash_write(lab.flash, FLASH_DEFAULT, &from, 1, &read.at) &&
           flash_read_now(lab.flash, &read) && read.result == FLASH_READ &&
           memcmp(buffer, object, sizeof(object)) == 0,
       "an object can be read into many pieces from the write buffer");
    for (unsigned int i = 0; i < PER_PAGE; i++)
        put(&lab, FLASH_DEFAULT, i);
    memset(buffer, 0, sizeof(buffer));
    flash_read_wait(lab.flash, &read);
    ok(read.result == FLASH_READ && memcmp(buffer, object, sizeof(object)) == 0,
       "an object can be read into many pieces from the file");
    close_lab(&lab);
}

struct waiting {
    struct flash_read read;
    struct iovec iov;
    char buffer[OBJECT];
    unsigned int *nleft;
};

static void on_read(struct flash_read *read)
{
    __atomic_sub_fetch(((struct waiting *)read)->nleft, 1, __ATOMIC_ACQ_REL);
}

static void threads_read_from_the_disk(struct lab *lab)
{
    enum { N = PER_PAGE + 5 };
    static struct waiting waiting[N];
    unsigned int nleft = N;
    char object[OBJECT];
    bool good = true;
    int fd;

    for (unsigned int i = 0; i < N; i++) {
        waiting[i] = (struct waiting){
            .read = {.at = put(lab, FLASH_DEFAULT, i), .niov = 1, .done = on_read},
            .nleft = &nleft,
        };
        waiting[i].iov = (struct iovec){waiting[i].buffer, OBJECT};
        waiting[i].read.iov = &waiting[i].iov;
    }
    fd = open(lab->files[0], O_RDWR);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    for (unsigned int i = 0; i < N; i++)
        flash_read_later(lab->flash, &waiting[i].read);
    while (__atomic_load_n(&nleft, __ATOMIC_ACQUIRE) > 0)
        sched_yield();
    for (unsigned int i = 0; i < N; i++) {
        fill(object, i);
        good &=
            waiting[i].read.result == FLASH_READ && memcmp(waiting[i].buffer, object, OBJECT) == 0;
    }
    ok(good, "reads by the flash threads return the right bytes");
    ok(stats_of(lab).io_queue == 0, "the reads leave the queue empty");
}

/* --- pages ------------------------------------------------------------------- */

static void the_oldest_page_makes_room(struct lab *lab)
{
    enum { N = (PAGES + 1) * PER_PAGE };
    static struct flash_at at[N];
    unsigned int ngone = 0;
    struct flash_stats stats;
    bool good = true;

    for (unsigned int i = 0; i < N; i++)
        at[i] = put(lab, FLASH_DEFAULT, i);
    for (unsigned int i = 0; i < N; i++) {
        bool gone = get(lab, &at[i], i) == FLASH_GONE;

        ngone += gone;
        good &= gone == (i < PER_PAGE) && flash_is_there(lab->flash, &at[i]) == !gone;
    }
    ok(good && ngone == PER_PAGE,
       "a full store loses the objects of its oldest page, and no others");
    stats = stats_of(lab);
    ok(stats.page_evictions == 1 && stats.objects_evicted == PER_PAGE &&
           stats.bytes_evicted == (uint64_t)PER_PAGE * FRAME,
       "the lost page is counted");
    flash_drop(lab->flash, &at[0], OBJECT);
    ok(stats_of(lab).objects_used == stats.objects_used, "dropping a lost object has no effect");
    ok(stats.page_allocs == PAGES + 1 && stats.pages_used == PAGES && flash_nfree(lab->flash) == 0,
       "all pages are in use");
}

static void an_unused_page_is_free_again(struct lab *lab)
{
    enum { N = PER_PAGE + 1 };
    static struct flash_at at[N];

    for (unsigned int i = 0; i < N; i++)
        at[i] = put(lab, FLASH_DEFAULT, i);
    flash_share(lab->flash, &at[3], OBJECT);
    for (unsigned int i = 0; i < PER_PAGE; i++)
        flash_drop(lab->flash, &at[i], OBJECT);
    ok(flash_nfree(lab->flash) == PAGES - 2 && get(lab, &at[3], 3) == FLASH_READ,
       "a page is kept while an object in it is used");
    flash_drop(lab->flash, &at[3], OBJECT);
    ok(flash_nfree(lab->flash) == PAGES - 1 && stats_of(lab).page_reclaims == 1,
       "a page is freed when none of its objects is used");
    ok(get(lab, &at[3], 3) == FLASH_GONE, "the objects of a freed page are lost");
    ok(get(lab, &at[PER_PAGE], PER_PAGE) == FLASH_READ, "the objects of other pages are kept");
    ok(stats_of(lab).bytes_fragmented == PAGE - FRAME,
       "the bytes of dropped objects count as fragmentation");
}

static void buckets_have_pages_of_their_own(void)
{
    static const enum flash_bucket buckets[] = {FLASH_DEFAULT, FLASH_LOWTTL};
    struct flash_page_stats page;
    struct lab lab = {0};
    struct flash_at low, plain, chunked;

    open_lab(&lab, buckets, 2);
    low = put(&lab, FLASH_LOWTTL, 1);
    plain = put(&lab, FLASH_DEFAULT, 2);
    chunked = put(&lab, FLASH_CHUNKED, 3);
    flash_page_stats(lab.flash, low.page, &page);
    ok(page.bucket == FLASH_LOWTTL && page.free_bucket == FLASH_LOWTTL && page.bytes == FRAME,
       "objects of a bucket go to the bucket's own file");
    flash_page_stats(lab.flash, plain.page, &page);
    ok(page.bucket == FLASH_DEFAULT && page.free_bucket == FLASH_DEFAULT,
       "objects of other buckets do not go to that file");
    flash_page_stats(lab.flash, chunked.page, &page);
    ok(page.bucket == FLASH_CHUNKED && page.free_bucket == FLASH_DEFAULT &&
           chunked.page != plain.page,
       "a bucket without a file uses the common one, with pages of its own");
    for (unsigned int i = 0; i < PAGES * PER_PAGE; i++)
        put(&lab, FLASH_LOWTTL, i);
    ok(stats_of(&lab).page_evictions == 0,
       "a bucket whose file is full continues in the common file");
    close_lab(&lab);
}

/* --- compaction --------------------------------------------------------------- */

struct moving {
    struct lab *lab;
    struct flash_at *at;
    unsigned int nseen, nmoved;
    unsigned int nlast;
    bool in_order;
};

static bool move_object(void *context, const struct flash_at *at, const char *bytes,
                        uint32_t nbytes)
{
    struct moving *moving = context;
    unsigned int number;

    memcpy(&number, bytes, sizeof(number));
    moving->in_order &= nbytes == OBJECT && (moving->nseen == 0 || number == moving->nlast + 1);
    moving->nlast = number;
    moving->nseen++;
    if (number % 10 == 0 && at->version == moving->at[number].version) {
        moving->at[number] = put(moving->lab, FLASH_COMPACT, number);
        flash_drop(moving->lab->flash, at, nbytes);
        moving->nmoved++;
    }
    return true;
}

static void compaction_visits_the_objects_of_a_page(struct lab *lab)
{
    enum { N = 2 * PER_PAGE + 1 }; /* three pages of four */
    static struct flash_at at[N];
    struct moving moving = {.lab = lab, .at = at, .in_order = true};
    bool good = true;

    for (unsigned int i = 0; i < N; i++)
        at[i] = put(lab, FLASH_DEFAULT, i);
    ok(!flash_compact(lab->flash, 0.9, move_object, &moving),
       "a page whose objects are all used is not compacted");
    for (unsigned int i = 0; i < PER_PAGE; i++)
        if (i % 10)
            flash_drop(lab->flash, &at[i], OBJECT);
    ok(!flash_compact(lab->flash, 0, move_object, &moving) &&
           !flash_compact(lab->flash, 0.13, move_object, &moving),
       "a page with fewer holes than the share times the pages in use is not compacted");
    ok(flash_compact(lab->flash, 0.15, move_object, &moving),
       "a page with many holes is compacted");
    ok(moving.in_order && moving.nseen == PER_PAGE, "compaction visits all objects, in order");
    for (unsigned int i = 0; i < PER_PAGE; i += 10)
        good &= get(lab, &at[i], i) == FLASH_READ;
    ok(good && moving.nmoved == (PER_PAGE + 9) / 10, "moved objects can be read");
    ok(flash_nfree(lab->flash) == PAGES - 3 && stats_of(lab).page_reclaims == 1,
       "the compacted page is free");
}

static void compaction_takes_the_page_that_is_kept_free(void)
{
    enum { N = (2 * PAGES - 1) * PER_PAGE };
    static const enum flash_bucket buckets[2] = {FLASH_DEFAULT, FLASH_DEFAULT};
    static struct flash_at at[N];
    struct lab lab = {0};
    struct moving moving = {.lab = &lab, .at = at, .in_order = true};
    struct flash_stats stats;

    open_lab(&lab, buckets, 2);
    for (unsigned int i = 0; i < N; i++)
        at[i] = put(&lab, FLASH_DEFAULT, i);
    stats = stats_of(&lab);
    ok(flash_nfree(lab.flash) == 1 && stats.page_evictions == 0, "all pages but one are used");
    for (unsigned int i = 0; i < PER_PAGE; i++)
        if (i % 10)
            flash_drop(lab.flash, &at[i], OBJECT);
    ok(flash_compact(lab.flash, 0.9, move_object, &moving),
       "a page is compacted while one page is free");
    stats = stats_of(&lab);
    ok(flash_nfree(lab.flash) == 1 && stats.page_evictions == 0,
       "compaction evicts no page in use");
    put(&lab, FLASH_DEFAULT, 0);
    stats = stats_of(&lab);
    ok(flash_nfree(lab.flash) == 1 && stats.page_evictions == 1,
       "an object that takes the last free page evicts the oldest page");
    close_lab(&lab);
}

static bool see_object(void *context, const struct flash_at *at, const char *bytes, uint32_t nbytes)
{
    struct moving *moving = context;

    (void)at, (void)nbytes;
    memcpy(&moving->nlast, bytes, sizeof(moving->nlast));
    moving->nseen++;
    return true;
}

static void the_oldest_page_can_be_compacted(struct lab *lab)
{
    enum { N = 2 * PER_PAGE + 1 };
    struct moving moving = {0};

    for (unsigned int i = 0; i < N; i++)
        put(lab, FLASH_DEFAULT, i);
    ok(flash_compact_oldest(lab->flash, see_object, &moving) && moving.nseen == PER_PAGE &&
           moving.nlast == PER_PAGE - 1,
       "the oldest page is visited although it has no holes");
    ok(flash_compact_oldest(lab->flash, see_object, &moving) && moving.nlast == 2 * PER_PAGE - 1,
       "then the next one");
    ok(!flash_compact_oldest(lab->flash, see_object, &moving),
       "none is visited a second time, or while it is filled");
}

/* Writes an object to a page of its own. False: there is none. */
static bool put_page(struct lab *lab, struct flash_at *at)
{
    char object[OBJECT];
    const struct iovec iov = {object, OBJECT};

    for (unsigned int i = 0; i < PER_PAGE; i++) {
        fill(object, i);
        if (!flash_write(lab->flash, FLASH_DEFAULT, &iov, 1, i ? &(struct flash_at){0} : at))
            return false;
    }
    return true;
}

static void a_page_is_kept_while_another_can_be_compacted(void)
{
    enum { N = 2 * PAGES };
    static const enum flash_bucket buckets[2] = {FLASH_DEFAULT, FLASH_DEFAULT};
    struct flash_at at[N] = {{0}}, more;
    struct lab lab = {0};
    struct flash_stats stats;

    open_lab(&lab, buckets, 2);
    for (unsigned int i = 0; i < N - 1; i++)
        put_page(&lab, &at[i]);
    /* Makes holes in a page; what is dropped twice is counted twice. */
    for (unsigned int i = 0; i < PER_PAGE / 2; i++)
        flash_drop(lab.flash, &at[3], OBJECT);
    flash_hold(lab.flash, 0.8);
    ok(!put_page(&lab, &more), "no object is written to the last free page");
    stats = stats_of(&lab);
    ok(stats.page_evictions == 0 && flash_nfree(lab.flash) == 1,
       "no page is given up while one can be compacted");
    flash_hold(lab.flash, 0.1);
    ok(put_page(&lab, &more) && stats_of(&lab).page_evictions == 1,
       "the oldest one is when none has holes enough");
    close_lab(&lab);
}

/* --- failures ------------------------------------------------------------------ */

static void a_file_that_fails_gives_no_bytes(struct lab *lab)
{
    enum { N = PER_BUFFER + 1 };
    static const struct rlimit none = {0, RLIM_INFINITY};
    static struct flash_at at[N];
    struct rlimit before;
    bool refused = false;

    for (unsigned int i = 0; i < N; i++)
        at[i] = put(lab, FLASH_DEFAULT, i);
    ok(truncate(lab->files[0], 0) == 0 && get(lab, &at[0], 0) == FLASH_BAD,
       "an object that cannot be read is an error");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    setrlimit(RLIMIT_FSIZE, &none);
    for (unsigned int i = 0; i < N && !refused; i++) {
        char object[OBJECT] = {0};
        const struct iovec iov = {object, OBJECT};

        refused = !flash_write(lab->flash, FLASH_DEFAULT, &iov, 1, &(struct flash_at){0});
    }
    ok(refused, "a failed write refuses the next object");
    ok(get(lab, &at[N - 1], N - 1) == FLASH_GONE, "a failed write gives up its page");
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){before.rlim_max, before.rlim_max});
    at[0] = put(lab, FLASH_DEFAULT, 7);
    ok(get(lab, &at[0], 7) == FLASH_READ, "the next write is tried again");
}

static void a_bad_page_is_set_aside(struct lab *lab)
{
    enum { N = 2 * PAGES * PER_PAGE };
    const struct rlimit three = {(PAGES - 1) * PAGE, RLIM_INFINITY};
    static struct flash_at at[N];
    struct rlimit before;
    unsigned int nthere = 0;

    getrlimit(RLIMIT_FSIZE, &before);
    setrlimit(RLIMIT_FSIZE, &three);
    for (unsigned int i = 0; i < N; i++) {
        char object[OBJECT];
        const struct iovec iov = {object, OBJECT};

        fill(object, i);
        if (!flash_write(lab->flash, FLASH_DEFAULT, &iov, 1, &at[i]))
            at[i].version = UINT32_MAX;
    }
    for (unsigned int i = N - PER_PAGE; i < N; i++)
        nthere += get(lab, &at[i], i) == FLASH_READ;
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){before.rlim_max, before.rlim_max});
    ok(nthere == PER_PAGE, "beside a page that cannot be written others go on being filled (%u)",
       nthere);
    ok(stats_of(lab).page_evictions < N / PER_PAGE, "a page is lost only to make room");
}

/* While nothing can be written, what has been written before is kept. */
static void a_disk_that_fails_for_a_while(struct lab *lab)
{
    enum { N = (PAGES - 1) * PER_PAGE, FAILING = 40 * PER_BUFFER };
    static const struct rlimit none = {0, RLIM_INFINITY};
    static struct flash_at at[N];
    struct rlimit before;
    unsigned int nthere = 0;

    for (unsigned int i = 0; i < N; i++)
        at[i] = put(lab, FLASH_DEFAULT, i);
    put(lab, FLASH_DEFAULT, 0);
    getrlimit(RLIMIT_FSIZE, &before);
    setrlimit(RLIMIT_FSIZE, &none);
    for (unsigned int i = 0; i < FAILING; i++) {
        char object[OBJECT] = {0};
        const struct iovec iov = {object, OBJECT};

        flash_write(lab->flash, FLASH_DEFAULT, &iov, 1, &(struct flash_at){0});
    }
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){before.rlim_max, before.rlim_max});
    for (unsigned int i = 0; i < N; i++)
        nthere += get(lab, &at[i], i) == FLASH_READ;
    ok(nthere >= N - PER_PAGE, "while a disk takes nothing what it holds is kept (%u)", nthere);
    for (unsigned int i = 0; i < N; i++)
        at[i] = put(lab, FLASH_DEFAULT, i);
    nthere = 0;
    for (unsigned int i = 0; i < N; i++)
        nthere += get(lab, &at[i], i) == FLASH_READ;
    ok(nthere == N, "afterwards all of its pages are filled again");
}

static void a_file_is_used_once(struct lab *lab)
{
    struct flash_path path = {lab->files[0], PAGES, FLASH_DEFAULT};
    const struct flash_config config = {&path, 1, PAGE, BUFFER, 1, 1};
    char error[256] = "";

    ok(!flash_open(&config, error, sizeof(error)) && strstr(error, "in use"),
       "a file that another store uses is refused");
    path.name = "/nonexistent/flash";
    ok(!flash_open(&config, error, sizeof(error)) && strstr(error, "No such file"),
       "a file that cannot be created is refused");
}

static void in_lab(void (*test)(struct lab *lab))
{
    struct lab lab;

    open_plain(&lab);
    test(&lab);
    close_lab(&lab);
}

int main(void)
{
    crc32c_is_that_of_the_rfc();
    in_lab(objects_come_back);
    in_lab(an_object_is_at_most_a_buffer);
    objects_may_be_read_in_pieces();
    in_lab(threads_read_from_the_disk);
    in_lab(the_oldest_page_makes_room);
    in_lab(an_unused_page_is_free_again);
    buckets_have_pages_of_their_own();
    in_lab(compaction_visits_the_objects_of_a_page);
    compaction_takes_the_page_that_is_kept_free();
    in_lab(the_oldest_page_can_be_compacted);
    a_page_is_kept_while_another_can_be_compacted();
    in_lab(a_file_that_fails_gives_no_bytes);
    in_lab(a_bad_page_is_set_aside);
    in_lab(a_disk_that_fails_for_a_while);
    in_lab(a_file_is_used_once);
    return done();
}
