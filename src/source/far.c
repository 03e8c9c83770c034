/* SPDX-License-Identifier: Apache-2.0 */
/* Additional state of a file on a file system that is not local: when its path was last checked, and hashes of the
 * first bytes read from it.  place.h has the rule. */
#include "file_self.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <zf/base/clock.h>
#include <zf/base/fd.h>
#include <zf/base/hash.h>

/* Nanoseconds between two checks of a path. */
#define FAR_LOOK 1000000000
/* The coarsest granularity of file timestamps, in nanoseconds (FAT). */
#define FAR_TICK 2000000000
/* Reads whose hashes are kept, and their total bytes: a header, or the end and the directory of a zip file. */
#define FAR_READS 8u
#define FAR_BYTES (256u << 10)

/* Fixed, because the hashes are compared in another process; the key of zf_hash is random in each. */
static const struct zf_hash_key far_key[2] = {{{0x7a65726f66732d33u, 0x7365656e2d313333u}},
                                              {{0x7a65726f66732d34u, 0x7365656e2d313434u}}};

struct far_read {
    uint64_t off, n, print[2];
};

struct far {
    atomic_int_least64_t looked; /* CLOCK_MONOTONIC, ns; 0: never */
    atomic_bool open;        /* timestamps may have missed a change: the bytes must be compared */
    atomic_bool full;        /* no further reads are recorded */
    pthread_mutex_t looking; /* one check at a time; held while the file system is asked */
    pthread_mutex_t lock;    /* protects all below; held briefly */
    bool claimed;            /* the recorded reads are another process's */
    int64_t after;           /* CLOCK_MONOTONIC, ns: a comparison from then on is final */
    unsigned turn;           /* number of times the file was reopened */
    uint64_t bytes;
    unsigned n;
    struct far_read read[FAR_READS];
};

struct far *far_new(const struct zf_identity *id, struct timespec began, struct zf_err *err)
{
    struct far *f = calloc(1, sizeof *f);

    if (!f)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    (void)pthread_mutex_init(&f->looking, NULL);
    (void)pthread_mutex_init(&f->lock, NULL);
    atomic_init(&f->open, place_racy(id, began));
    f->after = zf_clock_ns() + FAR_TICK;
    return f;
}

void far_free(struct far *f)
{
    if (f) {
        (void)pthread_mutex_destroy(&f->looking);
        (void)pthread_mutex_destroy(&f->lock);
        free(f);
    }
}

/* ---- the path -------------------------------------------------------------------------------- */

void far_looked(struct far *f)
{
    atomic_store_explicit(&f->looked, zf_clock_ns(), memory_order_relaxed);
}

static bool far_is_due(const struct far *f)
{
    const int64_t last = atomic_load_explicit(&f->looked, memory_order_relaxed);

    return last == 0 || zf_clock_ns() - last >= FAR_LOOK;
}

static bool far_ask(struct far_path at, struct same *s, struct same_how how, struct zf_err *err)
{
    zf_auto(fd) int fd = pool_open_fresh(at.pool, at.path, &how.sync);

    if (fd >= 0)
        return same_check(s, fd, &how, err);
    return errno == ENOENT || errno == ENOTDIR
               ? zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "the file was deleted after mounting")
               : reach_fail(&at.pool->reach, at.path, "check whether the file changed", err);
}

bool far_look(struct far *f, struct far_path at, struct same *s, struct same_how how,
              struct zf_err *err)
{
    bool ok = true;

    if (!far_is_due(f))
        return true;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&f->looking);
    if (far_is_due(f)) {
        ok = far_ask(at, s, how, err);
        if (ok)
            far_looked(f);
    }
    return ok;
}

/* ---- what was read --------------------------------------------------------------------------- */

static void far_print(const void *p, size_t n, uint64_t out[2])
{
    out[0] = zf_hash_of(&far_key[0], n, p, n);
    out[1] = zf_hash_of(&far_key[1], n, p, n);
}

void far_saw(struct far *f, const void *p, size_t n, uint64_t off)
{
    struct far_read r = {.off = off, .n = n};

    if (atomic_load_explicit(&f->full, memory_order_relaxed))
        return;
    r.n = n < FAR_BYTES ? n : FAR_BYTES;
    far_print(p, (size_t)r.n, r.print);
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&f->lock);
    if (f->n < FAR_READS && f->bytes < FAR_BYTES && !f->claimed) {
        f->read[f->n++] = r;
        f->bytes += r.n;
    }
    atomic_store(&f->full, f->n == FAR_READS || f->bytes >= FAR_BYTES || f->claimed);
}

/* Reads again what *r has the hash of, past the page cache: bytes that the kernel cached would prove nothing. */
static bool far_is_same(const struct far_read *r, int fd, bool *same_out, struct zf_err *err)
{
    zf_auto(mem) void *buf = malloc((size_t)r->n + 1);
    uint64_t print[2];

    if (!buf)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    (void)posix_fadvise(fd, (off_t)r->off, (off_t)r->n, POSIX_FADV_DONTNEED);
    const ssize_t got = zf_fd_pread(fd, buf, (size_t)r->n, r->off);
    if (got < 0)
        return zf_fail_sys(err, "read the file");
    far_print(buf, (size_t)got, print);
    *same_out = (uint64_t)got == r->n && print[0] == r->print[0] && print[1] == r->print[1];
    return true;
}

static bool far_compare(const struct far_read *read, unsigned n, int fd, struct same *s,
                        struct zf_err *err)
{
    bool same = true;

    for (unsigned i = 0; i < n && same; i++) {
        if (!far_is_same(&read[i], fd, &same, err))
            return false;
        if (!same) {
            (void)same_refuse(s,
                              "the bytes differ from those read when the save was opened, although "
                              "size and times are the same",
                              err);
            err->off = read[i].off;
        }
    }
    return same;
}

/* The recorded reads to compare now; 0: none. */
static unsigned far_to_compare(struct far *f, struct far_read out[FAR_READS], unsigned *turn)
{
    unsigned n = 0;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&f->lock);
    *turn = f->turn;
    if (atomic_load(&f->open) && zf_clock_ns() >= f->after) {
        for (; n < f->n; n++)
            out[n] = f->read[n];
        atomic_store(&f->open, n > 0);
    }
    return n;
}

/* No lock is held while bytes are read, so a thread whose read hangs blocks no other one. */
bool far_prove(struct far *f, int fd, struct same *s, struct zf_err *err)
{
    struct far_read read[FAR_READS];
    unsigned turn;

    if (!atomic_load_explicit(&f->open, memory_order_acquire))
        return true;
    const unsigned n = far_to_compare(f, read, &turn);
    if (n && !far_compare(read, n, fd, s, err))
        return false;
    if (n) {
        (void)pthread_mutex_lock(&f->lock);
        f->claimed = f->claimed && f->turn != turn;
        atomic_store(&f->open, f->turn != turn);
        (void)pthread_mutex_unlock(&f->lock);
    }
    return true;
}

void far_reopened(struct far *f, const struct same *s)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (place_timeless(&s->id, now)) {
        (void)pthread_mutex_lock(&f->lock);
        f->after = 0;
        f->turn++;
        atomic_store(&f->open, true);
        (void)pthread_mutex_unlock(&f->lock);
    }
}

/* ---- for another process ---------------------------------------------------------------------- */

void far_note(struct far *f, struct zf_out *out)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&f->lock);
    zf_out_var(out, f->n);
    for (unsigned i = 0; i < f->n; i++) {
        zf_out_var(out, f->read[i].off);
        zf_out_var(out, f->read[i].n);
        zf_out_le64(out, f->read[i].print[0]);
        zf_out_le64(out, f->read[i].print[1]);
    }
}

bool far_claim(struct far *f, struct zf_bytes note, uint64_t size, struct zf_err *err)
{
    const uint64_t n = zf_bytes_var(&note);
    struct far_read read[FAR_READS];

    for (unsigned i = 0; i < n && i < FAR_READS; i++) {
        read[i].off = zf_bytes_var(&note);
        read[i].n = zf_bytes_var(&note);
        read[i].print[0] = zf_bytes_le64(&note);
        read[i].print[1] = zf_bytes_le64(&note);
        if (read[i].n > FAR_BYTES || read[i].off > size || read[i].n > size - read[i].off)
            note.bad = true;
    }
    if (note.bad || n > FAR_READS || zf_bytes_left(&note)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the record of the bytes that were read is incomplete");
    }
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&f->lock);
    for (unsigned i = 0; i < n; i++)
        f->read[i] = read[i];
    f->n = (unsigned)n;
    f->claimed = n > 0;
    f->after = n > 0 ? 0 : f->after;
    atomic_store(&f->open, n > 0 || atomic_load(&f->open));
    atomic_store(&f->full, n > 0);
    return true;
}
