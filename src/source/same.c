/* SPDX-License-Identifier: Apache-2.0 */
/* After each read an fstat(2) proves that the file is still the one that was mounted: the same device, inode, size,
 * mtime and ctime, or the stable ones of these (place.h).  A write changes ctime before it changes a byte, and ctime
 * cannot be set back, so bytes read while it was unchanged are the old ones.
 *
 * A file that was deleted, or replaced by a rename, keeps its bytes, but losing its last link changes ctime just as a
 * write does whose mtime was set back, and afterwards the two cannot be told apart.  So such a file is stale, too.  And
 * a file that was seen changed once stays stale, whatever its attributes are later: they do not prove that the old bytes
 * are back.
 *
 * chmod(2), chown(2) and link(2) change ctime as well, and are common: backups by hard links, `chmod -R a+rX`.  If
 * mode, owner or the number of links changed, and size, mtime and inode did not, these are taken as the reason.  A write
 * whose mtime was set back AND one of these between two checks looks the same (a change cookie would tell, but statx(2)
 * does not show it): -o changed=strict excludes that.  The new ctime is expected from then on, so that a later write is
 * found as before. */
#include "same.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <zf/base/clock.h>
#include <zf/base/thread.h>

#include "place.h"
#include "statx.h"

/* Held for a few comparisons, never during a system call: a hanging file must not block others. */
static pthread_mutex_t same_lock = PTHREAD_MUTEX_INITIALIZER;
static size_t same_n_moved; /* accepted changes not reported yet */
static char same_first[384];

static uint64_t same_ns(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

void same_init(struct same *s, const struct zf_identity *id)
{
    s->id = *id;
    s->meta = id->meta;
    atomic_init(&s->ctime, same_ns(&id->ctime));
    atomic_init(&s->moved, 0);
    atomic_init(&s->stale, false);
}

/* Compares all but ctime.  Size comes before mtime: the message says by how much a file shrank or grew. */
static bool same_compare(const struct zf_identity *id, const struct zf_identity *now,
                         struct zf_err *err)
{
    if (now->dev != id->dev || now->ino != id->ino)
        return zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "the file was replaced after mounting");
    if (now->size < id->size) {
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                       "the file is %" PRIu64 " bytes shorter than when it was mounted",
                       id->size - now->size);
    }
    if (now->size > id->size) {
        return zf_fail(err, ZF_E_STALE, ZF_OFF_NONE,
                       "the file has grown by %" PRIu64 " bytes since mount time",
                       now->size - id->size);
    }
    return zf_clock_cmp(&now->mtime, &id->mtime) == 0 ||
           zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "the file was written to since mount time");
}

static void same_note(const char *name)
{
    if (same_n_moved++ == 0)
        (void)snprintf(same_first, sizeof same_first, "%s", name);
}

size_t same_moved(char *first, size_t n)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&same_lock);
    const size_t moved = same_n_moved;
    same_n_moved = 0;
    if (moved)
        (void)snprintf(first, n, "%s", same_first);
    return moved;
}

/* Did the change take a right to read the file from someone?  Access through the mount must not outlive it. */
static bool same_closed(const struct zf_identity_meta *was, const struct zf_identity_meta *now)
{
    return was->uid != now->uid || was->gid != now->gid || (was->mode & ~now->mode & 0444) != 0;
}

/* ctime differs from the expected one: is a change of mode, owner or links the reason?  *again_out: another thread
 * accepted one since `moved` was read, so that `now` may be older than the expectation. */
static bool same_accept(struct same *s, const struct zf_identity *now, unsigned moved,
                        const struct same_how *how, bool *again_out)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&same_lock);
    *again_out = atomic_load(&s->moved) != moved;
    const bool explained = now->meta.nlink > 0 &&
                           memcmp(&now->meta, &s->meta, sizeof s->meta) != 0 &&
                           !(how->shared && same_closed(&s->meta, &now->meta));
    if (!*again_out && explained) {
        s->meta = now->meta;
        atomic_store(&s->ctime, same_ns(&now->ctime));
        atomic_store(&s->moved, moved + 1);
        same_note(how->name);
    }
    return explained;
}

/* Without atime, for which the kernel would have to ask a FUSE file system after each read. */
#define SAME_MASK (STATX_BASIC_STATS & ~(STATX_ATIME | STATX_BLOCKS))

bool same_stat(int fd, const char *name, int flags, struct stat *st)
{
    struct statx x;

    if (statx(fd, name, AT_NO_AUTOMOUNT | flags, SAME_MASK, &x) != 0)
        return false;
    *st = (struct stat){
        .st_dev = makedev(x.stx_dev_major, x.stx_dev_minor),
        .st_ino = x.stx_ino,
        .st_size = (off_t)x.stx_size,
        .st_mtim = {x.stx_mtime.tv_sec, x.stx_mtime.tv_nsec},
        .st_ctim = {x.stx_ctime.tv_sec, x.stx_ctime.tv_nsec},
        .st_mode = x.stx_mode,
        .st_uid = x.stx_uid,
        .st_gid = x.stx_gid,
        .st_nlink = x.stx_nlink,
    };
    return true;
}

static bool same_ask(int fd, int sync, bool far, struct stat *st)
{
    return sync || far ? same_stat(fd, "", AT_EMPTY_PATH | sync, st) : fstat(fd, st) == 0;
}

/* One comparison.  *again_out: to be repeated. */
static bool same_look(struct same *s, int fd, const struct same_how *how, bool *again_out,
                      struct zf_err *err)
{
    const unsigned moved = atomic_load_explicit(&s->moved, memory_order_acquire);
    struct stat st;

    *again_out = false;
    if (!same_ask(fd, how->sync, place_is_far(&s->id), &st)) {
        const bool stale = errno == ESTALE;

        (void)zf_fail_sys(err, "check whether the file changed");
        err->code = stale ? ZF_E_STALE : err->code;
        return false;
    }
    const struct place raw = {.lasting = true};
    struct zf_identity now = place_identity(&raw, &st);
    place_reduce(&s->id, &now);
    if (!same_compare(&s->id, &now, err))
        return false;
    if (same_ns(&now.ctime) == atomic_load_explicit(&s->ctime, memory_order_relaxed) ||
        (!how->strict && same_accept(s, &now, moved, how, again_out)) || *again_out)
        return true;
    return zf_fail(err, ZF_E_STALE, ZF_OFF_NONE,
                   now.meta.nlink == 0
                       ? "deleted or replaced since mount time"
                       : "metadata changed since mount time (chmod, chown, link or write), so the "
                         "bytes can no longer be verified");
}

bool same_refuse(struct same *s, const char *why, struct zf_err *err)
{
    atomic_store_explicit(&s->stale, true, memory_order_relaxed);
    return zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "%s", why);
}

bool same_check(struct same *s, int fd, const struct same_how *how, struct zf_err *err)
{
    bool again = true, ok = false;

    while (again)
        ok = same_look(s, fd, how, &again, err);
    if (!ok) {
        /* A failed system call says nothing about the file. */
        if (err->sys == 0)
            atomic_store_explicit(&s->stale, true, memory_order_relaxed);
        return false;
    }
    return !atomic_load_explicit(&s->stale, memory_order_relaxed) ||
           zf_fail(err, ZF_E_STALE, ZF_OFF_NONE,
                   "the file changed after mounting; although it looks unchanged again, its bytes "
                   "may differ");
}
