/* SPDX-License-Identifier: Apache-2.0 */
/* Answers FUSE requests from a zf_tree.  The tree computes everything from the inode number in the request, so there is no
 * table of inodes and no lock here.  A tree that frees inode numbers is told which are open (hold, drop).
 *
 * Files whose contents never change stay in the page cache.  Live files (/.zerofs) and files with lost bytes bypass it: the
 * cache would turn one lost byte into a lost page and fail the read-ahead of its neighbours.  When a read of a damaged file
 * fails, bisection finds the readable bytes in front of the damage; only read(2) gets them, as a short count, because a
 * page fault must fail as a whole.
 *
 * A read of a shard that is being opened is parked (park.c) instead of blocking one of libfuse's threads; so is a lookup in
 * hf/ while its recipe is computed. */
#include "config.h"

#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <zf/base/buffer.h>
#include <zf/base/clock.h>
#include <zf/source/gate.h>
#include <zf/source/want.h>

#include "mode.h"
#include "park.h"

/* Seconds for which the kernel may cache the name of a live file.  In a directory that may grow, missing names are not
 * cached. */
#define LIVE_TIMEOUT 1.0
#define BLOCK 512u
#define BLKSIZE (1u << 20)
#define NAME_LEN 255u

static struct fs *ops_fs(fuse_req_t req)
{
    return fuse_req_userdata(req);
}

static void ops_fill_attr(const struct fs *fs, const struct zf_stat *s, struct stat *st)
{
    static const mode_t kind[] = {
        [ZF_NODE_DIR] = S_IFDIR | 0555,
        [ZF_NODE_FILE] = S_IFREG | 0444,
        [ZF_NODE_LINK] = S_IFLNK | 0777,
    };

    memset(st, 0, sizeof *st);
    st->st_ino = s->ino;
    st->st_mode = kind[s->kind];
    if (s->kind != ZF_NODE_LINK)
        st->st_mode &= ~((fs->opts->umask | s->withheld) & 0777);
    st->st_nlink = s->nlink;
    st->st_uid = fs->opts->uid;
    st->st_gid = fs->opts->gid;
    st->st_size = (off_t)s->size;
    st->st_blksize = BLKSIZE;
    /* As if fully allocated: cp and tar treat a file without blocks as one hole. */
    st->st_blocks = (blkcnt_t)((s->size + BLOCK - 1) / BLOCK);
    st->st_mtim = st->st_ctim = st->st_atim = s->mtime;
}

static void ops_fill_entry(const struct fs *fs, const struct zf_stat *s, struct fuse_entry_param *e)
{
    memset(e, 0, sizeof *e);
    e->ino = s->ino;
    e->generation = 1;
    ops_fill_attr(fs, s, &e->attr);
    e->entry_timeout = s->moving ? 0 : s->live ? LIVE_TIMEOUT : fs->opts->entry_timeout;
    e->attr_timeout = s->live ? 0 : fs->opts->attr_timeout;
}

/* lookup that also resolves "." and "..", which an NFS server asks for after a restart. */
static bool ops_find(struct zf_tree *t, uint64_t dir, const char *name, struct zf_stat *out)
{
    uint64_t up;

    if (strcmp(name, ".") == 0)
        return t->ops->stat(t, dir, out);
    if (strcmp(name, "..") == 0)
        return t->ops->parent(t, dir, &up) && t->ops->stat(t, up, out);
    return t->ops->lookup(t, dir, name, out);
}

/* Can directory `dir` be entered?  Returns 0, or the errno to reply. */
static int ops_dir_shut(struct zf_tree *t, fuse_ino_t dir)
{
    struct zf_err err;

    return !t->ops->enter || t->ops->enter(t, dir, &err) ? 0 : zf_err_errno(&err);
}

/* Is directory r->ino computed, at least the entry r->name (NULL = all)?  False: r is parked or already answered. */
static bool ops_is_ready(const struct park_read *r)
{
    struct fs *fs = ops_fs(r->req);
    struct zf_err err;

    if (!fs->tree->ops->ready)
        return true;
    (void)zf_gate_yielding(true);
    zf_gate_interruptible(park_given_up, (void *)(uintptr_t)r);
    const bool ready = fs->tree->ops->ready(fs->tree, r->ino, r->name, &err);
    (void)zf_gate_yielding(false);
    zf_gate_interruptible(NULL, NULL);
    if (!ready && err.code == ZF_E_BUSY)
        return !park(r);
    const bool given_up = !ready && err.sys == EINTR;
    if (given_up)
        (void)fuse_reply_err(r->req, EINTR);
    return !given_up;
}

static void ops_answer_lookup(const struct park_read *r)
{
    struct fs *fs = ops_fs(r->req);
    struct fuse_entry_param e;
    fuse_req_t req = r->req;
    struct zf_stat s, dir;
    int why;

    if (!ops_is_ready(r))
        return;
    if (ops_find(fs->tree, r->ino, r->name, &s)) {
        ops_fill_entry(fs, &s, &e);
    } else if (!fs->tree->ops->stat(fs->tree, r->ino, &dir)) {
        (void)fuse_reply_err(req, ESTALE);
        return;
    } else if ((why = ops_dir_shut(fs->tree, r->ino)) != 0) {
        (void)fuse_reply_err(req, why);
        return;
    } else {
        /* Inode 0: the name does not exist, and the kernel may cache that. */
        memset(&e, 0, sizeof e);
        e.entry_timeout = dir.live ? 0 : fs->opts->entry_timeout;
    }
    (void)fuse_reply_entry(req, &e);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    const struct park_read r = {.req = req, .ino = parent, .run = ops_answer_lookup, .name = name};
    struct fuse_session *se = ops_fs(req)->se;

    if (strlen(name) > NAME_LEN) {
        (void)fuse_reply_err(req, ENAMETOOLONG);
        return;
    }
    ops_answer_lookup(&r);
    park_serve(se);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fs *fs = ops_fs(req);
    struct zf_stat s;
    struct stat st;

    (void)fi;
    mode_note_request(fs, req);
    if (!fs->tree->ops->stat(fs->tree, ino, &s)) {
        (void)fuse_reply_err(req, ESTALE);
        return;
    }
    ops_fill_attr(fs, &s, &st);
    (void)fuse_reply_attr(req, &st, s.live ? 0 : fs->opts->attr_timeout);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
    struct fs *fs = ops_fs(req);
    char target[4096];

    if (!fs->tree->ops->readlink ||
        !fs->tree->ops->readlink(fs->tree, ino, target, sizeof target)) {
        (void)fuse_reply_err(req, EINVAL);
        return;
    }
    (void)fuse_reply_readlink(req, target);
}

/* Logs a failed read; for a stale file, which no later read can succeed on, with the remedy. */
static void ops_log(const struct fs *fs, const struct zf_err *err)
{
    const char *advice =
        fs->tree->follows ? "; open the path again to go on" : "; mount again to go on";
    const size_t n = strlen(err->msg), most = sizeof err->msg - strlen(advice) - 1;
    struct zf_err said = *err;

    if (err->code == ZF_E_STALE)
        (void)strcpy(said.msg + (n < most ? n : most), advice);
    fs->opts->log(fs->opts->ctx, &said);
}

/* Warns, once, about mapping files with lost bytes.  The kernel does not tell us when it refuses a mapping, and a failed
 * page is a SIGBUS in the reader without any message. */
static void ops_report_maps(struct fs *fs)
{
    struct zf_err err;

    if (!fs->opts->log || atomic_exchange_explicit(&fs->maps_told, true, memory_order_relaxed))
        return;
    (void)zf_fail(
        &err, ZF_E_IO, ZF_OFF_NONE,
        "mmap of this file gives errors on pages with lost bytes%s. Mount with -o lost=omit to "
        "leave damaged tensors out, or with -o lost=nan for NaN in their place",
        atomic_load_explicit(&fs->shared_maps, memory_order_relaxed)
            ? ""
            : ", and this kernel maps files with such pages only MAP_PRIVATE");
    fs->opts->log(fs->opts->ctx, &err);
}

static bool ops_hold(const struct fs *fs, fuse_ino_t ino)
{
    return !fs->tree->ops->hold || fs->tree->ops->hold(fs->tree, ino);
}

/* Replies to open or opendir.  If the reply cannot be delivered, the file does not count as open. */
static void ops_reply_open(fuse_req_t req, fuse_ino_t ino, const struct fuse_file_info *fi)
{
    const struct fs *fs = ops_fs(req);

    if (!ops_hold(fs, ino))
        (void)fuse_reply_err(req, ESTALE);
    else if (fuse_reply_open(req, fi) != 0 && fs->tree->ops->drop)
        fs->tree->ops->drop(fs->tree, ino);
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    const struct fs *fs = ops_fs(req);

    (void)fi;
    if (fs->tree->ops->drop)
        fs->tree->ops->drop(fs->tree, ino);
    (void)fuse_reply_err(req, 0);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fs *fs = ops_fs(req);
    struct zf_stat s;

    if ((fi->flags & O_ACCMODE) != O_RDONLY || (fi->flags & O_TRUNC) != 0) {
        (void)fuse_reply_err(req, EROFS);
        return;
    }
    if (!fs->tree->ops->stat(fs->tree, ino, &s)) {
        (void)fuse_reply_err(req, ESTALE);
        return;
    }
    /* Contents that never change stay in the page cache from one open to the next.  Live and damaged files are never
     * cached: the cache would extend an error to whole pages. */
    fi->direct_io = s.live || s.lost || mode_direct(fs, &s);
    fi->keep_cache = !s.live && !s.lost;
    if (s.lost && !atomic_load_explicit(&fs->shared_maps, memory_order_relaxed))
        ops_report_maps(fs);
#ifdef HAVE_FUSE_NOFLUSH
    fi->noflush = 1;
#endif
    ops_reply_open(req, ino, fi);
}

/* Reads the longest readable prefix at off; a read of all n bytes has failed.  A prefix of a readable prefix is readable,
 * so bisection finds the first lost byte.  Returns the bytes in buf. */
static size_t ops_good_prefix(struct zf_tree *t, fuse_ino_t ino, void *buf, size_t n, uint64_t off)
{
    size_t good = 0, bad = n, got;
    struct zf_err err;

    while (bad - good > 1) {
        size_t mid = good + (bad - good) / 2;

        if (t->ops->read(t, ino, buf, mid, off, &got, &err))
            good = mid;
        else
            bad = mid;
    }
    /* Read again: the last attempt has overwritten the buffer. */
    return good && t->ops->read(t, ino, buf, good, off, &got, &err) ? got : 0;
}

/* Is this a direct read(2), whose caller sees a short count?  Page faults of a mapping (and splice) use the same request,
 * but for them the kernel fills a short reply with zeros and shrinks the file.  Only a direct read carries a lock owner:
 * fuse_direct_io passes it to fuse_send_read; fuse_read_folio and readahead have none (Linux fs/fuse/file.c, 5.4 to 6.18).
 * Without a lock owner an error is the safe reply. */
static bool ops_sees_count(const struct fuse_file_info *fi)
{
    return fi->lock_owner != 0;
}

static void ops_fail_read(const struct park_read *r, void *buf, const struct zf_err *err)
{
    struct fs *fs = ops_fs(r->req);
    struct zf_stat s = {.lost = false};
    size_t good = 0;

    if (fs->tree->ops->stat(fs->tree, r->ino, &s) && s.lost && ops_sees_count(&r->fi))
        good = ops_good_prefix(fs->tree, r->ino, buf, r->size, (uint64_t)r->off);
    if (good) {
        (void)fuse_reply_buf(r->req, buf, good);
        return;
    }
    if (!ops_sees_count(&r->fi) && s.lost)
        ops_report_maps(fs);
    if (fs->opts->log)
        ops_log(fs, err);
    (void)fuse_reply_err(r->req, zf_err_errno(err));
}

/* Prefetches after a read; called after the reply, so that it does not delay it. */
static void ops_look_ahead(struct fs *fs, const struct park_read *r, size_t n, int64_t began,
                           int64_t ended)
{
    const struct ahead_saw saw = {.ino = r->ino,
                                  .off = (uint64_t)r->off,
                                  .n = n,
                                  .began = began,
                                  .ended = ended,
                                  .waited = zf_want_waited()};

    if (!fs->tree->ops->want)
        return;
    struct ahead_ask ask = ahead_read(&fs->ahead, &saw);
    if (ask.n > 0)
        fs->tree->ops->want(fs->tree, r->ino, ask.off, ask.n, ask.how);
}

/* Answers a read through buf.  Only the first attempt may be parked when the file is busy; the attempts that bisect for
 * lost bytes (ops_fail_read) wait. */
static void ops_answer_into(const struct park_read *r, void *buf)
{
    struct fs *fs = ops_fs(r->req);
    struct zf_err err;
    size_t n = 0;

    if (!buf) {
        (void)fuse_reply_err(r->req, ENOMEM);
        return;
    }
    (void)zf_want_watch(true);
    (void)zf_gate_yielding(true);
    zf_gate_interruptible(park_given_up, (void *)(uintptr_t)r);
    const int64_t began = zf_clock_ns();
    bool ok = fs->tree->ops->read(fs->tree, r->ino, buf, r->size, (uint64_t)r->off, &n, &err);
    (void)zf_gate_yielding(false);
    if (!ok && err.code == ZF_E_BUSY) {
        if (park(r)) {
            zf_gate_interruptible(NULL, NULL);
            return;
        }
        ok = fs->tree->ops->read(fs->tree, r->ino, buf, r->size, (uint64_t)r->off, &n, &err);
    }
    zf_gate_interruptible(NULL, NULL);
    if (!ok && err.sys == EINTR) {
        (void)fuse_reply_err(r->req, EINTR);
        return;
    }
    if (!ok) {
        ops_fail_read(r, buf, &err);
        return;
    }
    const int64_t ended = zf_clock_ns();
    (void)fuse_reply_buf(r->req, buf, n);
    ops_look_ahead(fs, r, n, began, ended);
}

/* Answers a read through a pooled buffer.  A parked read always comes here: another thread may answer it, and the io_uring
 * buffer is freed when the thread that received the request ends. */
static void ops_answer_read(const struct park_read *r)
{
    zf_auto(buffer) struct zf_buffer *b = zf_buffer_take(r->size);

    ops_answer_into(r, b ? b->at : NULL);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                    struct fuse_file_info *fi)
{
    const struct park_read r = {
        .req = req, .ino = ino, .run = ops_answer_read, .size = size, .off = off, .fi = *fi};
    struct fs *fs = ops_fs(req);
    struct fuse_session *se = fs->se;

    if (off < 0) {
        (void)fuse_reply_err(req, EINVAL);
        return;
    }
    void *ring = mode_ring_buffer(fs, req, size);
    if (ring)
        ops_answer_into(&r, ring);
    else
        ops_answer_read(&r);
    park_serve(se);
}

static void ops_answer_opendir(const struct park_read *r)
{
    struct fs *fs = ops_fs(r->req);
    struct fuse_file_info fi = r->fi;
    const fuse_ino_t ino = r->ino;
    fuse_req_t req = r->req;
    struct zf_stat s;

    if (!ops_is_ready(r))
        return;
    if (!fs->tree->ops->stat(fs->tree, ino, &s)) {
        (void)fuse_reply_err(req, ESTALE);
        return;
    }
    int why = ops_dir_shut(fs->tree, ino);
    if (why) {
        (void)fuse_reply_err(req, why);
        return;
    }
    fi.cache_readdir = fi.keep_cache = !s.live;
    ops_reply_open(req, ino, &fi);
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    const struct park_read r = {.req = req, .ino = ino, .run = ops_answer_opendir, .fi = *fi};
    struct fuse_session *se = ops_fs(req)->se;

    ops_answer_opendir(&r);
    park_serve(se);
}

/* The entry at offset `at` of a listing: 0 is ".", 1 is "..", then the tree's entries. */
static bool ops_entry_at(struct zf_tree *t, fuse_ino_t dir, uint64_t at, char *name,
                         struct zf_stat *s)
{
    if (at < 2) {
        strcpy(name, at == 0 ? "." : "..");
        return ops_find(t, dir, name, s);
    }
    return t->ops->entry(t, dir, at - 2, name, s);
}

static void ops_list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus)
{
    struct fs *fs = ops_fs(req);
    zf_auto(buffer) struct zf_buffer *b = zf_buffer_take(size);
    char name[256];
    struct zf_stat s;
    size_t used = 0;

    if (!b) {
        (void)fuse_reply_err(req, ENOMEM);
        return;
    }
    for (uint64_t at = (uint64_t)off; ops_entry_at(fs->tree, ino, at, name, &s); at++) {
        struct fuse_entry_param e;
        size_t n;

        ops_fill_entry(fs, &s, &e);
        if (at < 2)
            e.ino = 0; /* libfuse's convention: no lookup is counted for "." and ".." */
        n = plus
                ? fuse_add_direntry_plus(req, b->at + used, size - used, name, &e, (off_t)(at + 1))
                : fuse_add_direntry(req, b->at + used, size - used, name, &e.attr, (off_t)(at + 1));
        if (n > size - used)
            break;
        used += n;
    }
    (void)fuse_reply_buf(req, b->at, used);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                       struct fuse_file_info *fi)
{
    (void)fi;
    ops_list(req, ino, size, off, false);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                           struct fuse_file_info *fi)
{
    (void)fi;
    ops_list(req, ino, size, off, true);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct fs *fs = ops_fs(req);
    struct statvfs st = {
        .f_bsize = BLKSIZE, .f_frsize = BLOCK, .f_namemax = NAME_LEN, .f_flag = ST_RDONLY};
    uint64_t files = 0, bytes = 0;

    (void)ino;
    fs->tree->ops->totals(fs->tree, &files, &bytes);
    st.f_blocks = (fsblkcnt_t)((bytes + BLOCK - 1) / BLOCK);
    st.f_files = (fsfilcnt_t)files;
    (void)fuse_reply_statfs(req, &st);
}

/* Forget requests change nothing: there is no table of inodes, and the kernel caches inodes whether or not they are open. */
static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
    (void)ino;
    (void)nlookup;
    fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    (void)count;
    (void)forgets;
    fuse_reply_none(req);
}

/* All writing requests fail with EROFS.  On a read-only mount the kernel refuses most of them itself; an NFS server or a
 * remount must get the same error. */
#define REFUSE(name, ...)                                                                          \
    static void ops_no_##name(fuse_req_t req, __VA_ARGS__)                                         \
    {                                                                                              \
        (void)fuse_reply_err(req, EROFS);                                                          \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
REFUSE(setattr, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
REFUSE(mknod, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
REFUSE(mkdir, fuse_ino_t parent, const char *name, mode_t mode)
REFUSE(unlink, fuse_ino_t parent, const char *name)
REFUSE(symlink, const char *link, fuse_ino_t parent, const char *name)
REFUSE(rename, fuse_ino_t parent, const char *name, fuse_ino_t to, const char *as, unsigned flags)
REFUSE(link, fuse_ino_t ino, fuse_ino_t parent, const char *name)
REFUSE(write, fuse_ino_t ino, const char *p, size_t n, off_t off, struct fuse_file_info *fi)
REFUSE(create, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
REFUSE(setxattr, fuse_ino_t ino, const char *name, const char *value, size_t n, int flags)
REFUSE(removexattr, fuse_ino_t ino, const char *name)
REFUSE(fallocate, fuse_ino_t ino, int mode, off_t off, off_t n, struct fuse_file_info *fi)
#pragma GCC diagnostic pop

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
    struct fs *fs = userdata;

    mode_choose(fs, conn);
    /* One copy out of our buffer is cheaper than pipes; measured, docs/decisions/07-replies-are-copied.md. */
    conn->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
                              FUSE_CAP_AUTO_INVAL_DATA);
    conn->want |=
        conn->capable & (FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS |
                         FUSE_CAP_EXPORT_SUPPORT | FUSE_CAP_READDIRPLUS |
                         FUSE_CAP_READDIRPLUS_AUTO | MODE_SHARED_MAPS);
    /* libfuse needs this here and among the mount options. */
    if (fs->opts->max_read)
        conn->max_read = fs->opts->max_read;
    /* As high as possible: read-ahead beyond this limit would queue in the kernel, where one hanging shard delays the
     * others.  Ours waits in park.c, without a thread. */
    conn->max_background = UINT16_MAX;
    conn->congestion_threshold = UINT16_MAX / 4 * 3;
}

const struct fuse_lowlevel_ops zf_ops = {
    .init = op_init,
    .lookup = op_lookup,
    .forget = op_forget,
    .forget_multi = op_forget_multi,
    .getattr = op_getattr,
    .readlink = op_readlink,
    .open = op_open,
    .read = op_read,
    .release = op_release,
    .opendir = op_opendir,
    .releasedir = op_release,
    .readdir = op_readdir,
    .readdirplus = op_readdirplus,
    .statfs = op_statfs,
    .getxattr = xattrs_get,
    .listxattr = xattrs_list,
    .setattr = ops_no_setattr,
    .mknod = ops_no_mknod,
    .mkdir = ops_no_mkdir,
    .unlink = ops_no_unlink,
    .rmdir = ops_no_unlink,
    .symlink = ops_no_symlink,
    .rename = ops_no_rename,
    .link = ops_no_link,
    .write = ops_no_write,
    .create = ops_no_create,
    .setxattr = ops_no_setxattr,
    .removexattr = ops_no_removexattr,
    .fallocate = ops_no_fallocate,
};
