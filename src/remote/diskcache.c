/* SPDX-License-Identifier: Apache-2.0 */
#include "diskcache.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <zf/base/fd.h>
#include <zf/base/hash.h>
#include <zf/base/hex.h>
#include <zf/base/thread.h>
#include <zf/source/gate.h>

/* Bytes that may wait to be written.  Readers wait above the first limit; blocks already on their way
 * may exceed it up to the second. */
#define QUEUE_BUSY (32ull << 20)
#define QUEUE_MOST (192ull << 20)
/* A disk that makes no progress is waited for QUEUE_TICKS times QUEUE_TICK_MS. */
#define QUEUE_TICK_MS 50
#define QUEUE_TICKS 20
/* A file's mtime is the time of its last use, precise to this many seconds. */
#define USED_SECONDS 60

struct diskcache_job {
    struct diskcache_job *next;
    struct diskcache_key key;
    char *about; /* malloc'ed text of the file */
    uint64_t k;
    size_t n;
    uint8_t data[];
};

struct diskcache {
    int dir;
    uint64_t most;
    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t more, less;
    struct diskcache_job *first, **last;
    uint64_t queued;
    /* blocks written; `taken` + 1 at the time when a wait timed out, so that no reader waits until there is progress */
    uint64_t taken, stuck;
    bool runs, ends;
    pthread_t writer;
};

/* ---- names and sums -------------------------------------------------------------------------- */

struct diskcache_key diskcache_key_of(const struct diskcache_about *a)
{
    struct diskcache_key key;
    struct sha256_ctx ctx;
    uint8_t sum[SHA256_DIGEST_SIZE];
    char size[32];
    int n = snprintf(size, sizeof size, "%" PRIu64, a->size);

    sha256_init(&ctx);
    sha256_update(&ctx, 2,
                  (const uint8_t *)"2"); /* version of the rules by which objects are cached */
    /* With their terminators, so that the strings are separated. */
    sha256_update(&ctx, strlen(a->url) + 1, (const uint8_t *)a->url);
    sha256_update(&ctx, strlen(a->etag) + 1, (const uint8_t *)a->etag);
    sha256_update(&ctx, strlen(a->version) + 1, (const uint8_t *)a->version);
    sha256_update(&ctx, (size_t)n + 1, (const uint8_t *)size);
    sha256_digest(&ctx, sizeof sum, sum);
    zf_hex(key.hex, sum, sizeof sum);
    return key;
}

/* Length and checksum, little-endian.  The checksum detects accidents, not attacks: a user who may write here has our
 * permissions anyway. */
void diskcache_entry(const struct diskcache_key *key, uint64_t k, const void *p, size_t n,
                     uint8_t entry[DISKCACHE_ENTRY])
{
    static const struct zf_hash_key own = {.k = {0x7a65726f66732062, 0x6c6f636b73203031}};
    const uint64_t number[2] = {htole64(k), htole64(n)};
    uint64_t h = zf_hash_of(&own, 1, key->hex, 64);

    h = zf_hash_of(&own, h, number, sizeof number);
    h = zf_hash_of(&own, h, p, n);
    memcpy(entry, &(uint64_t[2]){htole64(n), htole64(h)}, DISKCACHE_ENTRY);
}

/* The name of a block's file in the directory of its object. */
static void diskcache_name(char out[24], uint64_t k)
{
    (void)snprintf(out, 24, "%" PRIu64, k / DISKCACHE_SLOTS);
}

static uint64_t diskcache_place(uint64_t k)
{
    return DISKCACHE_HEAD + (k % DISKCACHE_SLOTS) * DISKCACHE_BLOCK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void diskcache_used(int fd)
{
    struct stat st;

    if (fstat(fd, &st) == 0 && time(NULL) - st.st_mtim.tv_sec > USED_SECONDS)
        (void)futimens(fd, NULL);
}

bool diskcache_get(struct diskcache *c, const struct diskcache_key *key, uint64_t k, void *buf,
                   size_t n)
{
    uint8_t entry[DISKCACHE_ENTRY], want[DISKCACHE_ENTRY];
    char name[24];

    diskcache_name(name, k);
    zf_auto(fd) int object = diskcache_object(c->dir, key->hex, false, NULL);
    zf_auto(fd) int fd =
        object < 0 ? -1 : openat(object, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || n > DISKCACHE_BLOCK ||
        zf_fd_pread(fd, entry, sizeof entry, k % DISKCACHE_SLOTS * DISKCACHE_ENTRY) !=
            (ssize_t)sizeof entry ||
        zf_fd_pread(fd, buf, n, diskcache_place(k)) != (ssize_t)n)
        return false;
    diskcache_entry(key, k, buf, n, want);
    if (memcmp(entry, want, sizeof want) != 0)
        return false;
    diskcache_used(fd);
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void diskcache_write_about(int object, const struct diskcache_job *j)
{
    char temp[32];

    if (faccessat(object, "about", F_OK, 0) == 0)
        return;
    (void)snprintf(temp, sizeof temp, "about.%ld", (long)getpid());
    zf_auto(fd) int fd =
        openat(object, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    if (!zf_fd_write(fd, j->about, strlen(j->about)) ||
        renameat(object, temp, object, "about") != 0)
        (void)unlinkat(object, temp, 0);
}

/* Opens the file of a block.  A file with a second hard link is refused, because it may not be ours. */
static int diskcache_open_file(int object, const struct diskcache_job *j)
{
    struct stat st;
    char name[24];

    diskcache_name(name, j->k);
    int fd = openat(object, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* Clears the entry before the bytes change, because the entry of a damaged block would also match the rewritten block. */
static bool diskcache_write_block(int fd, const struct diskcache_job *j)
{
    uint8_t entry[DISKCACHE_ENTRY], none[DISKCACHE_ENTRY] = {0};
    const uint64_t at = j->k % DISKCACHE_SLOTS * DISKCACHE_ENTRY;

    diskcache_entry(&j->key, j->k, j->data, j->n, entry);
    return zf_fd_pwrite(fd, none, sizeof none, at) &&
           zf_fd_pwrite(fd, j->data, j->n, diskcache_place(j->k)) &&
           zf_fd_pwrite(fd, entry, sizeof entry, at);
}

static void diskcache_write_locked(struct diskcache *c, const struct diskcache_job *first)
{
    uint64_t bytes = DISKCACHE_HEAD;
    bool is_new = false;

    for (const struct diskcache_job *j = first; j; j = j->next)
        bytes += j->n + DISKCACHE_UNIT - 1 - (j->n + DISKCACHE_UNIT - 1) % DISKCACHE_UNIT;
    zf_auto(fd) int there = diskcache_object(c->dir, first->key.hex, false, NULL);
    bytes += there < 0 ? DISKCACHE_OBJECT : 0;
    /* Counted before writing, so that a process killed in between leaves the count too high, never too low. */
    if (!diskcache_count(c->dir, bytes, c->most))
        return;
    /* Eviction may have removed the object's directory; then it is counted again. */
    zf_auto(fd) int object = diskcache_object(c->dir, first->key.hex, true, &is_new);
    zf_auto(fd) int fd =
        object >= 0 && (there < 0 || !is_new || diskcache_count(c->dir, DISKCACHE_OBJECT, c->most))
            ? diskcache_open_file(object, first)
            : -1;
    bool ok = fd >= 0;

    for (const struct diskcache_job *j = first; ok && j; j = j->next)
        ok = diskcache_write_block(fd, j);
    if (ok)
        diskcache_write_about(object, first);
}

static void diskcache_write(struct diskcache *c, const struct diskcache_job *first)
{
    zf_auto(fd) int lock = diskcache_lock(c->dir);

    if (lock >= 0)
        diskcache_write_locked(c, first);
}

/* Do both jobs write to the same file, so that they can be written together?  In a small cache each is written alone. */
static bool diskcache_joins(const struct diskcache *c, const struct diskcache_job *a,
                            const struct diskcache_job *b)
{
    return a->k / DISKCACHE_SLOTS == b->k / DISKCACHE_SLOTS &&
           strcmp(a->key.hex, b->key.hex) == 0 &&
           (!c->most || c->most >= 8ull * DISKCACHE_SLOTS * DISKCACHE_BLOCK);
}

/* Waits for a job and takes it, together with the jobs for the same file that directly follow it. */
static struct diskcache_job *diskcache_next(struct diskcache *c)
{
    while (!c->first && !c->ends)
        (void)pthread_cond_wait(&c->more, &c->lock);
    struct diskcache_job *first = c->first, *last = first;
    if (first) {
        while (last->next && diskcache_joins(c, first, last->next))
            last = last->next;
        c->first = last->next;
        c->last = c->first ? c->last : &c->first;
        last->next = NULL;
    }
    return first;
}

static void diskcache_job_free(struct diskcache_job *j)
{
    free(j->about);
    free(j);
}

static void *diskcache_run(void *arg)
{
    struct diskcache *c = arg;

    (void)pthread_mutex_lock(&c->lock);
    for (struct diskcache_job *j; (j = diskcache_next(c));) {
        (void)pthread_mutex_unlock(&c->lock);
        diskcache_write(c, j);
        (void)pthread_mutex_lock(&c->lock);
        for (struct diskcache_job *next; j; j = next) {
            next = j->next;
            c->queued -= j->n;
            c->taken++;
            diskcache_job_free(j);
        }
        (void)pthread_cond_broadcast(&c->less);
    }
    (void)pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Under the lock. */
static bool diskcache_start(struct diskcache *c)
{
    c->runs = c->runs || zf_thread_start(&c->writer, diskcache_run, c) == 0;
    return c->runs;
}

void diskcache_put(struct diskcache *c, const struct diskcache_key *key,
                   const struct diskcache_about *about, uint64_t k, const void *p, size_t n)
{
    struct diskcache_job *j = n <= DISKCACHE_BLOCK ? malloc(sizeof *j + n) : NULL;

    if (!j)
        return;
    *j = (struct diskcache_job){.key = *key, .k = k, .n = n};
    memcpy(j->data, p, n);
    if (asprintf(&j->about, "%s\n%s\n%" PRIu64 "\n", about->url, about->etag, about->size) < 0)
        j->about = NULL;
    (void)pthread_mutex_lock(&c->lock);
    bool takes = j->about && c->queued + n <= QUEUE_MOST && diskcache_start(c);
    if (takes) {
        c->queued += n;
        *c->last = j;
        c->last = &j->next;
        (void)pthread_cond_signal(&c->more);
    }
    (void)pthread_mutex_unlock(&c->lock);
    if (!takes)
        diskcache_job_free(j);
}

bool diskcache_has_room(struct diskcache *c)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&c->lock);
    return c->queued <= QUEUE_BUSY;
}

void diskcache_wait(struct diskcache *c)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&c->lock);
    uint64_t was = c->taken;
    for (int ticks = 0;
         c->queued > QUEUE_BUSY && c->stuck != c->taken + 1 && !zf_gate_interrupted(); ticks++) {
        if (was != c->taken) {
            ticks = 0;
            was = c->taken;
        }
        if (ticks == QUEUE_TICKS)
            c->stuck = c->taken + 1;
        else
            (void)zf_thread_wait(&c->less, &c->lock, QUEUE_TICK_MS);
    }
}

/* ---- beginning and end ----------------------------------------------------------------------- */

struct diskcache *diskcache_new(const char *dir, uint64_t bytes, struct zf_err *err)
{
    struct diskcache *c = calloc(1, sizeof *c);
    int fd = diskcache_open_dir(dir, true, err);

    if (!c || fd < 0) {
        if (fd >= 0) {
            (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
            (void)close(fd);
        }
        free(c);
        return NULL;
    }
    c->dir = fd;
    c->most = bytes;
    c->last = &c->first;
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->more, NULL);
    (void)pthread_cond_init(&c->less, NULL);
    return c;
}

void diskcache_free(struct diskcache *c)
{
    if (!c)
        return;
    (void)pthread_mutex_lock(&c->lock);
    c->ends = true;
    (void)pthread_cond_signal(&c->more);
    bool runs = c->runs;
    (void)pthread_mutex_unlock(&c->lock);
    if (runs)
        (void)pthread_join(c->writer, NULL);
    (void)pthread_mutex_destroy(&c->lock);
    (void)pthread_cond_destroy(&c->more);
    (void)pthread_cond_destroy(&c->less);
    (void)close(c->dir);
    free(c);
}
