/* SPDX-License-Identifier: Apache-2.0 */
/* A file is copied into ".NAME.part" in its final directory and renamed once its last byte is synced (commit.c).  Every
 * CERTAIN bytes the partial file is synced, and the journal records how far.  An interrupted copy is resumed at the end of
 * the partial file, after a reboot at the last synced byte.  The journal stores an identity with each path (copy_identify),
 * a digest of everything that affects the file's contents, so that a partial file of another checkpoint, or of an older
 * version of this one, is never resumed.
 *
 * Where the blocks of a shard and of the file are aligned and the file system supports it, blocks are shared (reflink)
 * instead of copied.  Runs of zeros become holes: the tree's map gives the known ones, others are found block by block.
 * CRCs, which a mount shows as 0, are filled in (crc.c).  Tied tensors become hard links to one copied file. */

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/base/hex.h>
#include <zf/view.h>

#include "export.h"

/* Zeros are searched in blocks of this size, which is also the smallest hole. */
#define BLOCK 4096
/* Bytes between two syncs of a file: the most that a power failure can cost. */
#define CERTAIN (1ull << 30)
/* Write-back of the written bytes is started in steps of this size, while more is read. */
#define BEHIND (8ull << 20)
/* Sharing less than this with a shard costs more than copying it. */
#define CLONE_MIN (64u << 10)

struct copy {
    struct export_run *run;
    struct zf_export_file *f;
    const struct zf_map *map; /* NULL: the file has no map of its runs */
    struct zf_through through;
    unsigned char *buf;
    struct export_spot spot;
    int fd;
    uint64_t off;       /* copied so far */
    uint64_t no_clones; /* blocks below this offset cannot be shared */
    char id[EXPORT_ID_LEN + 1];
    struct sha256_ctx sum;
    bool hash_late;      /* compute the SHA-256 after the CRCs are written */
    struct crc_sums crc; /* CRCs to be written at the end */
};

static enum export_end copy_unwritable(const struct copy *c, struct zf_err *err)
{
    (void)zf_err_in(err, "%s/%s", c->run->dest, c->f->to);
    return EXPORT_UNWRITABLE;
}

static enum export_end copy_cannot(const struct copy *c, const char *what, struct zf_err *err)
{
    (void)zf_fail_sys(err, what);
    return copy_unwritable(c, err);
}

static enum export_end copy_cannot_write(const struct copy *c, struct zf_err *err)
{
    int sys = errno;

    (void)zf_fail_sys(err, "write");
    if (sys == ENOSPC || sys == EDQUOT || sys == EFBIG) {
        char why[sizeof err->msg];

        memcpy(why, err->msg, sizeof why);
        (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                      "%.200s (the copied part is kept; repeat the command to go on)", why);
    }
    return copy_unwritable(c, err);
}

/* ---- identity -------------------------------------------------------------------------------- */

static void copy_identify(struct copy *c)
{
    const struct zf_stat *st = &c->f->st;
    uint64_t v[3] = {st->size, (uint64_t)st->mtime.tv_sec, (uint64_t)st->mtime.tv_nsec};
    struct sha256_ctx ctx;
    uint8_t sum[32];

    sha256_init(&ctx);
    sha256_update(&ctx, sizeof c->run->seed, c->run->seed);
    sha256_update(&ctx, strlen(c->f->from), (const uint8_t *)c->f->from);
    sha256_update(&ctx, sizeof v, (const uint8_t *)v);
    if (c->crc.sum.n) /* files exported by earlier versions of zerofs have no CRCs */
        sha256_update(&ctx, 3, (const uint8_t *)"crc");
    sha256_digest(&ctx, sizeof sum, sum);
    zf_hex(c->id, sum, EXPORT_ID_LEN / 2);
}

/* ---- existing files -------------------------------------------------------------------------- */

static void copy_hash(struct copy *c, const unsigned char *p, size_t n)
{
    if (c->run->sums && !c->hash_late)
        sha256_update(&c->sum, n, p);
}

/* Hashes bytes [0, end) of a partial or finished file. */
static enum export_end copy_hash_file(struct copy *c, int fd, uint64_t end, struct zf_err *err)
{
    for (uint64_t off = 0; (c->run->sums || c->crc.sum.n) && off < end;) {
        size_t want = end - off < EXPORT_BUF ? (size_t)(end - off) : EXPORT_BUF;
        ssize_t n = zf_fd_pread(fd, c->buf, want, off);

        if (atomic_load_explicit(&c->run->stop, memory_order_relaxed))
            return EXPORT_STOPPED;
        if (n != (ssize_t)want) {
            errno = n < 0 ? errno : EIO;
            return copy_cannot(c, "read the copied part", err);
        }
        copy_hash(c, c->buf, want);
        crc_add(&c->crc, c->buf, want);
        off += want;
    }
    return EXPORT_OK;
}

/* Does the open file have the same contents as the tree's file? */
static enum export_end copy_compare(struct copy *c, int fd, bool *same_out, struct zf_err *err)
{
    zf_auto(mem) unsigned char *theirs = malloc(EXPORT_BUF);
    uint64_t off = 0;
    size_t n;

    *same_out = false;
    if (!theirs)
        return copy_cannot(c, "compare with the existing file", err);
    do {
        if (atomic_load_explicit(&c->run->stop, memory_order_relaxed))
            return EXPORT_STOPPED;
        if (!zf_through_read(&c->through, c->buf, EXPORT_BUF, off, &n, err))
            return EXPORT_UNREADABLE;
        ssize_t k = zf_fd_pread(fd, theirs, n, off);
        if (k < 0)
            return copy_cannot(c, "read the existing file", err);
        copy_hash(c, theirs, (size_t)k);
        crc_add(&c->crc, c->buf, n);
        crc_lift(&c->crc, theirs, c->buf, (size_t)k, off);
        if ((size_t)k != n || memcmp(c->buf, theirs, n) != 0)
            return EXPORT_OK;
        off += n;
    } while (n > 0);
    *same_out = crc_are_right(&c->crc);
    return EXPORT_OK;
}

/* Checks for an existing file with the final name.  *kept_out: it has the right contents and need not be copied. */
static enum export_end copy_look_at_old(struct copy *c, bool *kept_out, struct zf_err *err)
{
    struct export_past past = export_journal_past(c->run->journal, c->f->to);
    enum export_end end = EXPORT_OK;
    struct stat st;

    *kept_out = false;
    if (fstatat(c->spot.dir, c->spot.name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? EXPORT_OK : copy_cannot(c, "look for the file", err);
    zf_auto(fd) int fd = export_dest_file(&c->spot, c->spot.name, O_RDONLY);
    if (fd >= 0 && (uint64_t)st.st_size == c->f->st.size) {
        if (past.done && strcmp(past.id, c->id) == 0) {
            *kept_out = true;
            end = c->run->sums ? copy_hash_file(c, fd, c->f->st.size, err) : EXPORT_OK;
        } else {
            end = copy_compare(c, fd, kept_out, err);
        }
    }
    if (end != EXPORT_OK || *kept_out)
        return end;
    sha256_init(&c->sum);
    if (!c->run->force) {
        (void)zf_fail(
            err, ZF_E_IO, ZF_OFF_NONE,
            S_ISREG(st.st_mode)
                ? "a different file already exists. Replace it with --force"
                : "the destination exists and is not a regular file. Replace it with --force");
        return copy_unwritable(c, err);
    }
    return EXPORT_OK;
}

/* Counts n bytes of an earlier run, which need no copying. */
static void copy_keep(struct export_run *run, uint64_t n)
{
    atomic_fetch_add(&run->bytes, n);
    atomic_fetch_add(&run->kept, n);
}

/* Opens or creates the partial file; c->off is the number of its reliable bytes. */
static enum export_end copy_open_part(struct copy *c, struct zf_err *err)
{
    struct export_past past = export_journal_past(c->run->journal, c->f->to);
    bool ours = past.known && !past.done && strcmp(past.id, c->id) == 0;
    struct stat st;

    c->off = 0;
    c->hash_late = c->crc.sum.n > 0;
    crc_reset(&c->crc);
    c->fd = ours ? export_dest_file(&c->spot, c->spot.part, O_RDWR) : -1;
    /* With a second hard link, another file would be written to as well. */
    if (c->fd >= 0 && fstat(c->fd, &st) == 0 && st.st_nlink == 1) {
        c->off = (uint64_t)st.st_size < past.certain ? (uint64_t)st.st_size : past.certain;
        c->off = c->off <= c->f->st.size ? c->off : 0;
        if (ftruncate(c->fd, (off_t)c->off) != 0)
            return copy_cannot(c, "continue the partial file", err);
        copy_keep(c->run, c->off);
        return copy_hash_file(c, c->fd, c->off, err);
    }
    zf_auto_fd(&c->fd);
    if (past.known || c->run->force)
        (void)unlinkat(c->spot.dir, c->spot.part, 0);
    if (!export_journal_part(c->run->journal, c->f->to, c->id, 0, err)) {
        c->fd = -1;
        return copy_unwritable(c, err);
    }
    c->fd = export_dest_file(&c->spot, c->spot.part, O_RDWR | O_CREAT | O_EXCL);
    if (c->fd < 0 && errno == EEXIST) {
        (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                      "\"%.120s\" is in the way, and was not left by an earlier export. Remove it "
                      "with --force",
                      c->spot.part);
        return copy_unwritable(c, err);
    }
    return c->fd >= 0 ? EXPORT_OK : copy_cannot(c, "create the file", err);
}

/* ---- copying --------------------------------------------------------------------------------- */

static bool copy_is_zero(const unsigned char *p, size_t n)
{
    return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

/* Writes buf[n] at c->off, except blocks of zeros, which become holes. */
static bool copy_write_sparse(const struct copy *c, size_t n)
{
    size_t from = 0, at = 0;

    while (at < n) {
        size_t len = BLOCK - (size_t)((c->off + at) % BLOCK);

        len = len < n - at ? len : n - at;
        if (copy_is_zero(c->buf + at, len)) {
            if (!zf_fd_pwrite(c->fd, c->buf + from, at - from, c->off + from))
                return false;
            from = at + len;
        }
        at += len;
    }
    return zf_fd_pwrite(c->fd, c->buf + from, n - from, c->off + from);
}

static void copy_write_behind(const struct copy *c, uint64_t before)
{
    uint64_t from = before - before % BEHIND, to = c->off - c->off % BEHIND;

    if (from < to)
        (void)sync_file_range(c->fd, (off_t)from, (off_t)(to - from), SYNC_FILE_RANGE_WRITE);
}

/* Extends the partial file to c->off (a hole may be at its end), syncs it, and records that in the journal. */
static enum export_end copy_make_certain(struct copy *c, struct zf_err *err)
{
    if (ftruncate(c->fd, (off_t)c->off) != 0)
        return copy_cannot_write(c, err);
    if (!export_part_sync(&c->spot, c->fd, err))
        return copy_unwritable(c, err);
    return export_journal_part(c->run->journal, c->f->to, c->id, c->off, err)
               ? EXPORT_OK
               : copy_unwritable(c, err);
}

/* Shares aligned blocks with the shard (reflink), tried once for each run; *n_out is the number of bytes shared. */
static bool copy_clone(struct copy *c, const struct zf_run *run, uint64_t *n_out,
                       struct zf_err *err)
{
    struct zf_clone clone = {.to = c->fd, .to_off = c->off};

    *n_out = 0;
    if (c->off < c->no_clones || c->run->sums || c->crc.sum.n || run->kind != ZF_RUN_SRC ||
        run->len < CLONE_MIN || c->off % BLOCK != 0)
        return true;
    if (!zf_map_clone(c->map, c->off, &clone, err))
        return false;
    c->no_clones = clone.refused ? UINT64_MAX : clone.done ? 0 : c->off + run->len;
    *n_out = clone.done;
    return true;
}

/* Copies one buffer, skips one run of zeros, or shares blocks. */
static enum export_end copy_step(struct copy *c, struct zf_err *err)
{
    uint64_t before = c->off, left = c->f->st.size - c->off, shared = 0;
    struct zf_run run = {0};
    size_t n;

    if (c->map)
        run = zf_map_at(c->map, c->off);
    if (c->map && !copy_clone(c, &run, &shared, err))
        return EXPORT_UNREADABLE;
    if (shared) {
        c->off += shared;
    } else if (c->map && run.kind == ZF_RUN_ZERO && run.len >= BLOCK && !c->run->sums &&
               !c->crc.sum.n) {
        c->off += run.len < left ? run.len : left;
    } else {
        if (!zf_through_read(&c->through, c->buf, EXPORT_BUF, c->off, &n, err))
            return EXPORT_UNREADABLE;
        if (!copy_write_sparse(c, n))
            return copy_cannot_write(c, err);
        copy_hash(c, c->buf, n);
        crc_add(&c->crc, c->buf, n);
        c->off += n;
    }
    atomic_fetch_add_explicit(&c->run->bytes, c->off - before, memory_order_relaxed);
    copy_write_behind(c, before);
    return before / CERTAIN != c->off / CERTAIN ? copy_make_certain(c, err) : EXPORT_OK;
}

/* Sets length, CRCs and time, and hashes the file if that had to wait for the CRCs.  A resumed export repeats this until
 * the file has its final name. */
static enum export_end copy_finish(struct copy *c, struct zf_err *err)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, c->f->st.mtime};

    if (ftruncate(c->fd, (off_t)c->f->st.size) != 0 || !crc_write(&c->crc, c->fd))
        return copy_cannot_write(c, err);
    if (c->hash_late && c->run->sums) {
        c->hash_late = false;
        sha256_init(&c->sum);
        const enum export_end end = copy_hash_file(c, c->fd, c->f->st.size, err);

        if (end != EXPORT_OK)
            return end;
    }
    return futimens(c->fd, times) == 0 ? EXPORT_OK : copy_cannot_write(c, err);
}

static enum export_end copy_all(struct copy *c, struct zf_err *err)
{
    enum export_end end = copy_open_part(c, err);

    while (end == EXPORT_OK && c->off < c->f->st.size) {
        end = copy_step(c, err);
        if (end == EXPORT_OK && atomic_load_explicit(&c->run->stop, memory_order_relaxed))
            end = EXPORT_STOPPED;
    }
    if (end == EXPORT_OK)
        end = copy_finish(c, err);
    if (c->fd < 0 || end == EXPORT_OK)
        return end;
    if (end == EXPORT_UNREADABLE && (c->f->st.lost || c->off == 0)) {
        /* It can never be completed. */
        (void)unlinkat(c->spot.dir, c->spot.part, 0);
    } else {
        struct zf_err ignored;

        /* On failure a resumed export uses less of the partial file. */
        (void)copy_make_certain(c, &ignored);
    }
    zf_auto_fd(&c->fd);
    return end;
}

/* Reads the first byte known to be lost before copying, so that an unreadable file is not copied in part. */
static enum export_end copy_check_lost(struct copy *c, struct zf_err *err)
{
    struct zf_loss loss;
    size_t n;

    if (!c->f->st.lost || !c->map || !zf_map_loss(c->map, 0, &loss) ||
        c->run->tree->ops->read(c->run->tree, c->f->st.ino, c->buf, 1, loss.first, &n, err))
        return EXPORT_OK;
    return EXPORT_UNREADABLE;
}

/* Copies the file unless it exists already (*kept_out). */
static enum export_end copy_or_keep(struct copy *c, bool *kept_out, struct zf_err *err)
{
    zf_auto(export_spot) struct export_spot spot = {.dir = -1};

    c->map = zf_tree_map(c->run->tree, c->f->st.ino, err);
    if (!c->map && err->code != ZF_OK)
        return EXPORT_UNREADABLE;
    if (!crc_init(&c->crc, c->run->tree, c->f->st.ino, err))
        return EXPORT_UNREADABLE;
    sha256_init(&c->sum);
    copy_identify(c);
    if (!export_dest_spot(c->run->root, c->f->to, &spot, err))
        return copy_unwritable(c, err);
    c->spot = spot;
    enum export_end end = copy_check_lost(c, err);
    if (end == EXPORT_OK)
        end = copy_look_at_old(c, kept_out, err);
    if (end == EXPORT_OK && !*kept_out)
        end = copy_all(c, err);
    sha256_digest(&c->sum, sizeof c->f->sha256, c->f->sha256);
    return end;
}

enum export_end export_copy(struct export_run *run, uint32_t i, unsigned char *buf,
                            struct export_batch *batch, struct zf_err *err)
{
    struct copy c = {.run = run, .f = &run->plan->file[i], .buf = buf, .fd = -1};
    bool kept = false;

    c.through = (struct zf_through){.tree = run->tree, .ino = c.f->st.ino, .size = c.f->st.size};
    const enum export_end end = copy_or_keep(&c, &kept, err);
    crc_fini(&c.crc);
    if (end != EXPORT_OK)
        return end;
    if (!kept) {
        return export_batch_add(batch, run, i, c.fd, c.id) ? export_sync(run, batch, err)
                                                           : EXPORT_OK;
    }
    copy_keep(run, c.f->st.size);
    c.f->done = true;
    return export_link(run, i, err);
}
