/* SPDX-License-Identifier: Apache-2.0 */
/* Reads use pread(2) only: a mapping of a file that shrinks kills the process or yields zeros.
 * A check after each read proves that the file is still the one that was mounted (same.c). */
#include "file_self.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <zf/base/clock.h>
#include <zf/base/fd.h>

#include "want.h"

static bool file_sys_fail(struct zf_err *err, const char *what, uint64_t off)
{
    bool stale = errno == ESTALE;

    (void)zf_fail_sys(err, what);
    err->code = stale ? ZF_E_STALE : err->code;
    err->off = off;
    return false;
}

const char *file_what(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "a file";
    case S_IFDIR:
        return "a directory";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    case S_IFBLK:
    case S_IFCHR:
        return "a device";
    default:
        return "a special file";
    }
}

/* Opens a regular file for reading.  The type is checked first by O_PATH, because opening a FIFO
 * may wait for ever and opening a device may have effects. */
static int file_open_regular(struct pool *pool, const char *path, struct stat *st,
                             struct zf_err *err)
{
    int fd = pool_open(pool, path, O_PATH);
    bool seen = fd >= 0 && fstat(fd, st) == 0;

    if (!seen) {
        (void)reach_fail(&pool->reach, path, "open the file", err);
    } else if (!S_ISREG(st->st_mode)) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "this is %s, not a file",
                      file_what(st->st_mode));
        seen = false;
    }
    if (fd >= 0)
        (void)close(fd);
    if (!seen)
        return -1;
    fd = pool_open(pool, path, O_RDONLY | O_NONBLOCK);
    if (fd < 0) {
        (void)reach_fail(&pool->reach, path, "open the file", err);
        return -1;
    }
    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode)) {
        (void)close(fd);
        (void)zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "the file was replaced while it was opened");
        return -1;
    }
    return fd;
}

static bool file_guard(struct file *f, int fd, struct zf_err *err)
{
    const struct same_how how = file_how(f);

    return same_check(&f->same, fd, &how, err);
}

/* Reopens a file whose descriptor the pool had closed. */
static int file_reopen(struct file *f, struct zf_err *err)
{
    struct stat st;
    int fd = file_open_regular(f->pool, f->path, &st, err);

    if (fd < 0) {
        if (err->code == ZF_E_NOENT)
            (void)zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "the file was deleted after mounting");
        return -1;
    }
    if (!file_guard(f, fd, err)) {
        (void)close(fd);
        return -1;
    }
    if (f->far)
        far_reopened(f->far, &f->same);
    return fd;
}

static int file_enter(struct file *f, struct zf_err *err)
{
    int fd = slot_enter(&f->slot);

    if (fd >= 0)
        return fd;
    fd = file_reopen(f, err);
    if (fd < 0)
        return -1;
    fd = pool_put(f->pool, &f->slot, fd);
    if (fd < 0)
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    return fd;
}

/* Reads all bytes of `to`, across short reads. */
static bool file_read_full(struct file *f, int fd, struct iovec to, uint64_t off,
                           struct zf_err *err)
{
    char *buf = to.iov_base;
    size_t n = to.iov_len;

    while (n > 0) {
        ssize_t got = pread(fd, buf, n, (off_t)off);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return file_sys_fail(err, "read the file", off);
        if (got == 0) {
            /* The guard's error, why the file is shorter, is the better one. */
            return file_guard(f, fd, err) &&
                   zf_fail(err, ZF_E_IO, off, "the file ends here, but it has %" PRIu64 " bytes",
                           f->src.size);
        }
        buf += got;
        n -= (size_t)got;
        off += (uint64_t)got;
    }
    return true;
}

/* One preadv(2); after a short read the rest is read buffer by buffer. */
static bool file_readv_full(struct file *f, int fd, const struct iovec *iov, int n_iov,
                            uint64_t off, struct zf_err *err)
{
    ssize_t got;

    do {
        got = preadv(fd, iov, n_iov, (off_t)off);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return file_sys_fail(err, "read the file", off);
    size_t done = (size_t)got;
    for (int i = 0; i < n_iov; i++) {
        struct iovec to = iov[i];
        size_t have = done < to.iov_len ? done : to.iov_len;

        done -= have;
        off += have;
        to.iov_base = (char *)to.iov_base + have;
        to.iov_len -= have;
        if (!file_read_full(f, fd, to, off, err))
            return false;
        off += to.iov_len;
    }
    return true;
}

/* Did the read take longer than the page cache and the kernel's own read-ahead explain: 150 us plus
 * 1 ns a byte?  The page cache alone is ten times as fast. */
static bool file_waited(int64_t since, uint64_t bytes)
{
    const int64_t ns = zf_clock_ns() - since;

    return ns > 150000 && (uint64_t)ns - 150000 > bytes;
}

/* One read: consecutive bytes scattered over iov, or rows. */
struct file_wish {
    const struct iovec *iov;
    int n_iov;
    uint64_t off;
    const struct zf_rows *rows;
};

/* A gap between rows up to this size is read and discarded: faster than one more system call. */
#define ROW_GAP (8u << 10)
#define ROWS_AT_ONCE 64u

static bool file_read_near_rows(struct file *f, int fd, const struct zf_rows *r, struct zf_err *err)
{
    struct iovec iov[2 * ROWS_AT_ONCE];
    char gap[ROW_GAP];

    for (uint64_t i = 0, n; i < r->count; i += n) {
        n = r->count - i < ROWS_AT_ONCE ? r->count - i : ROWS_AT_ONCE;
        for (uint64_t k = 0; k < n; k++) {
            iov[2 * k] = (struct iovec){(char *)r->buf + (i + k) * r->pitch, r->n};
            iov[2 * k + 1] = (struct iovec){gap, (size_t)(r->step - r->n)};
        }
        if (!file_readv_full(f, fd, iov, (int)(2 * n - 1), r->off + i * r->step, err))
            return false;
    }
    return true;
}

/* A failure may be in a gap: the rows are then read one by one. */
static bool file_read_rows(struct file *f, int fd, const struct zf_rows *r, struct zf_err *err)
{
    const bool near = r->count > 1 && r->step >= r->n && r->step - r->n <= ROW_GAP;
    bool ok = near && file_read_near_rows(f, fd, r, err);

    for (uint64_t i = ok ? r->count : 0; i < r->count && (ok || i == 0); i++) {
        ok = file_read_full(f, fd, (struct iovec){(char *)r->buf + i * r->pitch, r->n},
                            r->off + i * r->step, err);
    }
    return ok;
}

static uint64_t file_wish_bytes(const struct file_wish *w)
{
    uint64_t bytes = w->rows ? w->rows->count * w->rows->n : 0;

    for (int i = 0; i < w->n_iov; i++)
        bytes += w->iov[i].iov_len;
    return bytes;
}

static bool file_read_wish(struct file *f, int fd, const struct file_wish *w, struct zf_err *err)
{
    return w->rows         ? file_read_rows(f, fd, w->rows, err)
           : w->n_iov == 1 ? file_read_full(f, fd, w->iov[0], w->off, err)
                           : file_readv_full(f, fd, w->iov, w->n_iov, w->off, err);
}

/* Files that are not local are checked by path, and their first bytes compared, before a read (place.h). */
static int file_begin(struct file *f, struct zf_err *err)
{
    const struct far_path at = {.pool = f->pool, .path = f->path};
    int fd = !f->far || far_look(f->far, at, &f->same, file_how(f), err) ? file_enter(f, err) : -1;

    if (fd >= 0 && f->far && !far_prove(f->far, fd, &f->same, err)) {
        file_leave(f);
        fd = -1;
    }
    return fd;
}

static bool file_try(struct file *f, const struct file_wish *w, struct zf_err *err)
{
    int fd = file_begin(f, err);
    bool ok = fd >= 0;

    if (ok) {
        ok = file_read_wish(f, fd, w, err) && file_guard(f, fd, err);
        if (ok && f->far && w->n_iov == 1)
            far_saw(f->far, w->iov->iov_base, w->iov->iov_len, w->off);
        file_leave(f);
    }
    return ok;
}

/* The file system went away: is the same file there again?  Then all who have the descriptor have that one. */
static bool file_renew(struct file *f, struct zf_err *err)
{
    pool_revive(f->pool);
    zf_auto(fd) int fd = file_reopen(f, err);
    int was = fd < 0 ? -1 : slot_look(&f->slot);

    if (was >= 0) {
        (void)dup3(fd, was, O_CLOEXEC);
        slot_leave(&f->slot);
    }
    return fd >= 0;
}

static bool file_try_again(struct file *f, const struct file_wish *w, struct zf_err *err)
{
    bool ok = pool_is_away(err->sys) && file_renew(f, err) && file_try(f, w, err);

    /* A file system that went away may come back.  EIO: the descriptor alone may be broken. */
    if (!ok && pool_is_away(err->sys))
        err->code = ZF_E_IO;
    else if (!ok && err->sys == EIO)
        pool_drop(f->pool, &f->slot);
    return ok;
}

static bool file_fulfil(struct file *f, const struct file_wish *w, struct zf_err *err)
{
    const uint64_t bytes = file_wish_bytes(w);
    const bool watched = zf_want_watched();
    bool held;

    if (!zf_gate_enter(f->gate, &held, err))
        return false;
    const int64_t began = watched ? zf_clock_ns() : 0;
    bool ok = file_try(f, w, err) || (f->far && file_try_again(f, w, err));
    zf_gate_leave(f->gate, held);
    if (watched && file_waited(began, bytes))
        zf_want_note_wait();
    atomic_fetch_add_explicit(&f->reads, w->rows ? w->rows->count : 1, memory_order_relaxed);
    if (ok) {
        atomic_fetch_add_explicit(&f->bytes, bytes, memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(&f->errors, 1, memory_order_relaxed);
        /* A stale file has no faulty byte of its own: the offset of this read is reported. */
        err->off = err->off == ZF_OFF_NONE ? w->off : err->off;
    }
    return ok;
}

static bool file_preadv(struct zf_source *s, const struct iovec *iov, int n_iov, uint64_t off,
                        struct zf_err *err)
{
    const struct file_wish w = {.iov = iov, .n_iov = n_iov, .off = off};

    return file_fulfil((struct file *)s, &w, err);
}

static bool file_rows(struct zf_source *s, const struct zf_rows *r, struct zf_err *err)
{
    const struct file_wish w = {.rows = r, .off = r->off};

    return file_fulfil((struct file *)s, &w, err);
}

static bool file_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    return file_preadv(s, &(struct iovec){.iov_base = buf, .iov_len = n}, 1, off, err);
}

/* One check afterwards is enough, as for a read: a write changes ctime before it changes a byte, and
 * later writes are not shared (ioctl_ficlonerange(2)).  File systems that cannot share blocks fail
 * with different errno values, so any failure means "not done". */
bool file_clone(struct zf_source *s, uint64_t off, uint64_t n, int to, uint64_t to_off,
                bool *done_out, struct zf_err *err)
{
    struct file *f = (struct file *)s;
    bool held;

    if (!zf_gate_enter(f->gate, &held, err))
        return false;
    int fd = file_begin(f, err);
    bool ok = fd >= 0;
    if (ok) {
        struct file_clone_range range = {
            .src_fd = fd, .src_offset = off, .src_length = n, .dest_offset = to_off};

        *done_out = ioctl(to, FICLONERANGE, &range) == 0;
        ok = file_guard(f, fd, err);
        file_leave(f);
    }
    zf_gate_leave(f->gate, held);
    return ok;
}

/* One call prefetches at most the kernel's read-ahead window, 128 KiB by default
 * (force_page_cache_ra, Linux mm/readahead.c, 5.4 to 6.18); cached pages cost a lookup.  Pages
 * fetched this way are single, where the kernel's own read-ahead uses large folios, so a disk gets
 * more and smaller requests: this is for slow storage only. */
#define FETCH_STEP (128u << 10)

static void file_fetch(struct zf_source *s, uint64_t off, uint64_t n)
{
    struct file *f = (struct file *)s;
    struct zf_err err;
    int fd = file_enter(f, &err);

    if (fd < 0)
        return; /* the read itself reports it */
    while (n > 0) {
        uint64_t k = n < FETCH_STEP ? n : FETCH_STEP;

        (void)posix_fadvise(fd, (off_t)off, (off_t)k, POSIX_FADV_WILLNEED);
        off += k;
        n -= k;
    }
    file_leave(f);
}

/* Prefetches from a FUSE file system by reading: it has a limit of background requests (12 by default), and since
 * Linux 5.18 read-ahead advice beyond it is dropped (fuse_readahead: "congested").  Reads are never dropped. */
static void file_fetch_piece(struct zf_source *s, uint64_t off, uint64_t n)
{
    struct file *f = (struct file *)s;
    struct zf_err err;
    int fd = file_enter(f, &err);

    if (fd >= 0) {
        lead_read(fd, off, n);
        file_leave(f);
    }
}

static void file_lead(struct zf_source *s, uint64_t off, uint64_t n)
{
    struct file *f = (struct file *)s;
    struct zf_err err;
    int fd = file_enter(f, &err);

    if (fd >= 0) {
        lead(fd, &f->led, off, n);
        file_leave(f);
    }
}

static void file_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_prefetch how)
{
    struct file *f = (struct file *)s;

    if (how == ZF_PREFETCH_ALL && place_is_user(&f->same.id)) {
        want_pieces(s, off, n, FETCH_STEP, file_fetch_piece);
    } else if (how == ZF_PREFETCH_ALL || how == ZF_PREFETCH_KERNEL) {
        want_later(s, off, n, how == ZF_PREFETCH_ALL ? file_fetch : file_lead);
    } else if (how == ZF_PREFETCH_NOW && pace_is_slow(&f->pool->pace)) {
        /* In this thread, because another one would start after the first read.  The bytes only enter the page cache;
         * the read that takes them from there checks the file as always. */
        file_fetch(s, off, n);
    }
}

static struct zf_identity file_identity(const struct zf_source *s)
{
    return ((const struct file *)s)->same.id;
}

static struct zf_shared file_shared(const struct zf_source *s)
{
    const struct file *f = (const struct file *)s;

    return (struct zf_shared){.gate = f->gate, .cache = f->pool->cache};
}

static struct zf_usage file_usage(const struct zf_source *s)
{
    const struct file *f = (const struct file *)s;

    return (struct zf_usage){
        .reads = atomic_load_explicit(&f->reads, memory_order_relaxed),
        .bytes = atomic_load_explicit(&f->bytes, memory_order_relaxed),
        .errors = atomic_load_explicit(&f->errors, memory_order_relaxed),
    };
}

static bool file_unchanged(struct zf_source *s, struct zf_err *err)
{
    struct file *f = (struct file *)s;
    zf_auto(fd) int fd = pool_open(f->pool, f->path, O_PATH);

    return fd < 0 ? reach_fail(&f->pool->reach, f->path, "open the file", err)
                  : file_guard(f, fd, err);
}

static void file_fini(struct zf_source *s)
{
    struct file *f = (struct file *)s;

    pool_drop(f->pool, &f->slot);
    pool_unref(&f->pool);
    zf_gate_unref(f->gate);
    far_free(f->far);
    zf_source_fini(s);
    free(f->path);
    free(f);
}

static const struct zf_source_ops file_ops = {
    .kind = "file",
    .pread = file_pread,
    .preadv = file_preadv,
    .rows = file_rows,
    .identity = file_identity,
    .shared = file_shared,
    .usage = file_usage,
    .unchanged = file_unchanged,
    .want = file_want,
    .fini = file_fini,
};

bool file_is(const struct zf_source *s)
{
    return s->ops == &file_ops;
}

/* Re-reads the attributes of a file changed just now until the clock tick of its ctime is over: a
 * later write then changes ctime. */
static bool file_let_tick_pass(int fd, struct timespec began, struct stat *st, struct zf_err *err)
{
    const struct timespec ms = {.tv_nsec = 1000000};

    for (int i = 0; i < 20 && place_fresh(st->st_ctim, began); i++) {
        (void)nanosleep(&ms, NULL);
        began = place_clock();
        if (fstat(fd, st) != 0)
            return file_sys_fail(err, "check whether the file changed", ZF_OFF_NONE);
    }
    return true;
}

/* A file source without an open descriptor; began: a time before `id` was read. */
static struct file *file_shut(struct pool *pool, const char *path, const char *name,
                              const struct zf_identity *id, struct timespec began,
                              struct zf_err *err)
{
    struct file *f = calloc(1, sizeof *f);
    char *copy = strdup(path);
    struct zf_gate *gate = zf_gate_new();
    struct far *far = place_is_far(id) ? far_new(id, began, err) : NULL;

    if (!f || !copy || !gate || (place_is_far(id) && !far) ||
        !zf_source_init(&f->src, &file_ops, name, id->size, err)) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        free(copy);
        zf_gate_unref(gate);
        far_free(far);
        free(f);
        return NULL;
    }
    f->path = copy;
    f->gate = gate;
    f->far = far;
    same_init(&f->same, id);
    f->pool = pool_ref(pool);
    slot_init(&f->slot);
    return f;
}

static struct zf_source *file_open(struct pool *pool, const char *path, const char *name,
                                   struct zf_err *err)
{
    const struct timespec began = place_clock();
    struct stat st;
    int fd = file_open_regular(pool, path, &st, err);
    struct file *f = NULL;

    if (fd < 0)
        return NULL;
    struct zf_identity id = pool_identity(pool, &st, fd);
    if (place_is_far(&id) || file_let_tick_pass(fd, began, &st, err)) {
        id = pool_identity(pool, &st, fd);
        f = file_shut(pool, path, name, &id, began, err);
    }
    if (!f) {
        (void)close(fd);
        return NULL;
    }
    if (pool_put(pool, &f->slot, fd) < 0) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        file_fini(&f->src);
        return NULL;
    }
    if (f->far)
        far_looked(f->far);
    file_leave(f);
    return &f->src;
}

struct zf_source *file_new(struct pool *pool, const char *path, const char *name,
                           const struct zf_identity *known, struct zf_err *err)
{
    if (known) {
        struct file *f = file_shut(pool, path, name, known, place_clock(), err);
        return f ? &f->src : NULL;
    }
    return file_open(pool, path, name, err);
}
