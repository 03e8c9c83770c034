/* SPDX-License-Identifier: Apache-2.0 */
/* fsync(2) commits the file system's journal and flushes the disk's cache, however small the file is; with thousands of
 * small tensors that would take most of an export.  So a batch of files is synced by one syncfs(2), which does both once.
 * Afterwards sync_file_range tells for each file whether its own bytes were written, because syncfs reports a failed write
 * only once, perhaps to another thread of the export.
 *
 * syncfs also waits for the writes of other programs, and some file systems do not implement it (FUSE does not pass it to
 * the server).  So on other file systems than those in commit_knows, and on a machine with many dirty pages, each file
 * gets an fsync. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "export.h"

/* A batch with this many bytes is full; a power failure costs at most a batch and the file being copied. */
#define BATCH_BYTES (64ull << 20)
/* syncfs is used only if the whole machine has fewer dirty bytes than this. */
#define OTHERS_BYTES (512ull << 20)

bool export_batch_add(struct export_batch *b, const struct export_run *run, uint32_t i, int fd,
                      const char *id)
{
    struct export_written *w = &b->file[b->n++];

    w->file = i;
    w->fd = fd;
    memcpy(w->id, id, sizeof w->id);
    b->bytes += run->plan->file[i].st.size;
    return b->n >= b->most || b->bytes >= BATCH_BYTES;
}

/* ---- on the disk ------------------------------------------------------------------------------ */

static bool commit_knows(int root)
{
    struct statfs fs;

    if (fstatfs(root, &fs) != 0)
        return false;
    switch ((uint32_t)fs.f_type) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
        return true;
    default:
        return false;
    }
}

/* Has the machine fewer dirty bytes than OTHERS_BYTES? */
static bool commit_is_quiet(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    uint64_t kib = UINT64_MAX;
    char line[128];

    while (f && kib == UINT64_MAX && fgets(line, sizeof line, f))
        (void)sscanf(line, "Dirty: %" SCNu64 " kB", &kib);
    if (f)
        (void)fclose(f);
    return kib < OTHERS_BYTES >> 10;
}

/* Syncs the destination's file system with one syncfs, if that is worth it; *dev_out is its device.  False: not done. */
static bool commit_all(int root, dev_t *dev_out)
{
    struct stat st;

    if (fstat(root, &st) != 0 || !commit_knows(root) || !commit_is_quiet())
        return false;
    *dev_out = st.st_dev;
    return syncfs(root) == 0;
}

/* Were the file's own bytes written?  Waits for them. */
static bool commit_arrived(int fd)
{
    return sync_file_range(fd, 0, 0,
                           SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                               SYNC_FILE_RANGE_WAIT_AFTER) == 0;
}

/* Syncs a file.  synced: device of the file system that syncfs has synced, or NULL; a directory below the destination may
 * be on another one. */
static bool commit_file(int fd, const dev_t *synced)
{
    struct stat st;

    if (synced && fstat(fd, &st) == 0 && st.st_dev == *synced)
        return commit_arrived(fd);
    return fsync(fd) == 0;
}

/* Removes a partial file whose sync failed.  The kernel marks a page that could not be written as clean, so the file may
 * look complete without being on disk, and must never be resumed. */
static bool commit_lost(const struct export_spot *s, struct zf_err *err)
{
    (void)zf_fail_sys(err, "sync the file");
    (void)unlinkat(s->dir, s->part, 0);
    return false;
}

bool export_part_sync(const struct export_spot *s, int fd, struct zf_err *err)
{
    return fdatasync(fd) == 0 || commit_lost(s, err);
}

/* ---- names ------------------------------------------------------------------------------------ */

static enum export_end commit_failed(const struct export_run *run, const char *to,
                                     struct zf_err *err)
{
    (void)zf_err_in(err, "%s/%s", run->dest, to);
    return EXPORT_UNWRITABLE;
}

static bool commit_same_inode(const struct export_spot *a, const struct export_spot *b)
{
    struct stat x, y;

    return fstatat(a->dir, a->name, &x, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(b->dir, b->name, &y, AT_SYMLINK_NOFOLLOW) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* Makes `tie` a hard link to the file at `spot`.  to: that file's path, for messages. */
static bool commit_link(const struct export_run *run, const struct export_spot *spot,
                        const char *to, const char *tie, struct zf_err *err)
{
    zf_auto(export_spot) struct export_spot other = {.dir = -1};

    if (!export_dest_spot(run->root, tie, &other, err))
        return false;
    if (commit_same_inode(spot, &other))
        return true;
    if (run->force)
        (void)unlinkat(other.dir, other.name, 0);
    if (linkat(spot->dir, spot->name, other.dir, other.name, 0) == 0)
        return true;
    return errno == EEXIST ? zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                                     "a file already exists that is not a link to \"%.120s\". "
                                     "Replace it with --force",
                                     to)
                           : zf_fail_sys(err, "make the link");
}

enum export_end export_link(struct export_run *run, uint32_t i, struct zf_err *err)
{
    const struct zf_export_file *f = &run->plan->file[i];
    zf_auto(export_spot) struct export_spot spot = {.dir = -1};

    if (f->next_link == UINT32_MAX)
        return EXPORT_OK;
    if (!export_dest_spot(run->root, f->to, &spot, err))
        return commit_failed(run, f->to, err);
    for (uint32_t k = f->next_link; k != UINT32_MAX; k = run->plan->file[k].next_link) {
        struct zf_export_file *tie = &run->plan->file[k];

        memcpy(tie->sha256, f->sha256, sizeof tie->sha256);
        if (!commit_link(run, &spot, f->to, tie->to, err))
            return commit_failed(run, tie->to, err);
        tie->done = true;
    }
    return EXPORT_OK;
}

static bool commit_one(struct export_run *run, struct export_written *w, const dev_t *synced,
                       struct zf_err *err)
{
    struct zf_export_file *f = &run->plan->file[w->file];
    zf_auto(export_spot) struct export_spot spot = {.dir = -1};
    zf_auto(fd) int fd = w->fd;

    if (!export_dest_spot(run->root, f->to, &spot, err))
        return false;
    if (!commit_file(fd, synced))
        return commit_lost(&spot, err);
    f->done = export_dest_publish(&spot, run->force, err) &&
              export_journal_done(run->journal, f->to, w->id, err);
    return f->done;
}

enum export_end export_sync(struct export_run *run, struct export_batch *b, struct zf_err *err)
{
    enum export_end end = EXPORT_OK;
    dev_t dev = 0;
    bool synced = b->n > 1 && commit_all(run->root, &dev);

    for (uint32_t i = 0; i < b->n; i++) {
        const uint32_t file = b->file[i].file;
        struct zf_err why;
        enum export_end one = commit_one(run, &b->file[i], synced ? &dev : NULL, &why)
                                  ? export_link(run, file, &why)
                                  : commit_failed(run, run->plan->file[file].to, &why);

        if (one != EXPORT_OK && end == EXPORT_OK) {
            end = one;
            *err = why;
        }
    }
    b->n = 0;
    b->bytes = 0;
    return end;
}

/* ---- directories ------------------------------------------------------------------------------- */

static bool commit_dir(int fd)
{
    /* Some file systems do not support fsync of a directory. */
    return fsync(fd) == 0 || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
}

/* Syncs the directory to[n] below the destination; to[n] is a slash. */
static bool commit_dir_below(const struct export_run *run, const char *to, size_t n,
                             struct zf_err *err)
{
    zf_auto(export_spot) struct export_spot spot = {.dir = -1};
    char *inside = strndup(to, n + 1 + strcspn(to + n + 1, "/"));
    bool ok = inside ? export_dest_spot(run->root, inside, &spot, err)
                     : zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a name");

    free(inside);
    return ok && (commit_dir(spot.dir) || zf_fail_sys(err, "sync the directory"));
}

enum export_end export_names_sync(const struct export_run *run, struct zf_err *err)
{
    const char *last = "";

    for (uint32_t i = 0; i < run->plan->n; i++) {
        const char *to = run->plan->file[i].to;
        size_t shared =
            0; /* length of the directories shared with the previous file: already synced */

        for (size_t k = 0; to[k] && to[k] == last[k]; k++)
            shared = to[k] == '/' ? k + 1 : shared;
        for (const char *p = strchr(to + shared, '/'); p; p = strchr(p + 1, '/'))
            if (!commit_dir_below(run, to, (size_t)(p - to), err))
                return commit_failed(run, to, err);
        last = to;
    }
    return commit_dir(run->root) || zf_fail_sys(err, "sync the directory")
               ? EXPORT_OK
               : commit_failed(run, "", err);
}
