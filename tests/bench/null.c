/* SPDX-License-Identifier: Apache-2.0 */
/* null SIZE [direct] [io_uring] [of=FILE] MOUNTPOINT: a file system of one file, "v", whose bytes
 * come from nowhere.  What it takes to read that file is what FUSE itself costs on this kernel; flags
 * and replies are those of src/fs, so that the rest of the difference is ours.  direct: past the page
 * cache; io_uring: requests come over it, where libfuse and the kernel can; of=FILE: the bytes are
 * read from there, as any daemon must that shows what is somewhere. */
#include "config.h"

#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_INO 2
#define MOST (1u << 20)

#ifdef FUSE_CAP_DIRECT_IO_ALLOW_MMAP
#define SHARED_MAPS FUSE_CAP_DIRECT_IO_ALLOW_MMAP
#else
#define SHARED_MAPS 0
#endif

static off_t file_size;
static int source = -1;
static bool direct;
static char zeros[MOST];

static void fill(fuse_ino_t ino, struct stat *st)
{
    memset(st, 0, sizeof *st);
    st->st_ino = ino;
    st->st_mode = ino == FILE_INO ? S_IFREG | 0444 : S_IFDIR | 0555;
    st->st_nlink = 1;
    st->st_size = ino == FILE_INO ? file_size : 0;
    st->st_blksize = MOST;
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
    (void)userdata;
    conn->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
                              FUSE_CAP_AUTO_INVAL_DATA);
    conn->want |= conn->capable & (FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | SHARED_MAPS);
    conn->max_background = 64;
    conn->congestion_threshold = 48;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct fuse_entry_param e = {.ino = FILE_INO, .entry_timeout = 1e9, .attr_timeout = 1e9};

    if (parent != FUSE_ROOT_ID || strcmp(name, "v") != 0) {
        (void)fuse_reply_err(req, ENOENT);
        return;
    }
    fill(FILE_INO, &e.attr);
    (void)fuse_reply_entry(req, &e);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct stat st;

    (void)fi;
    fill(ino, &st);
    (void)fuse_reply_attr(req, &st, 1e9);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    fi->direct_io = direct;
    fi->keep_cache = 1;
#ifdef HAVE_FUSE_NOFLUSH
    fi->noflush = 1;
#endif
    (void)fuse_reply_open(req, fi);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t n, off_t off, struct fuse_file_info *fi)
{
    (void)ino;
    (void)fi;
    if (off >= file_size)
        n = 0;
    else if ((off_t)n > file_size - off)
        n = (size_t)(file_size - off);
    n = n < MOST ? n : MOST;
    if (source < 0) {
        (void)fuse_reply_buf(req, zeros, n);
        return;
    }
    static _Thread_local char *buf; /* until the end */
    buf = buf ? buf : aligned_alloc(4096, MOST);
    const ssize_t got = buf ? pread(source, buf, n, off) : -1;
    if (got < 0)
        (void)fuse_reply_err(req, EIO);
    else
        (void)fuse_reply_buf(req, buf, (size_t)got);
}

static const struct fuse_lowlevel_ops ops = {
    .init = op_init, .lookup = op_lookup, .getattr = op_getattr, .open = op_open, .read = op_read};

/* As src/fs/serve.c does. */
static int serve(struct fuse_session *se)
{
#ifdef HAVE_FUSE_LOOP_CFG
    struct fuse_loop_config *cfg = fuse_loop_cfg_create();

    fuse_loop_cfg_set_max_threads(cfg, 64);
    fuse_loop_cfg_set_idle_threads(cfg, 2);
    int rc = fuse_session_loop_mt(se, cfg);
    fuse_loop_cfg_destroy(cfg);
    return rc;
#else
    struct fuse_loop_config cfg = {.max_idle_threads = 2};

    return fuse_session_loop_mt(se, &cfg);
#endif
}

int main(int argc, char **argv)
{
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
    int rc = 1;

    if (argc < 3)
        return 2;
    file_size = (off_t)strtoull(argv[1], NULL, 10);
    bool ok = fuse_opt_add_arg(&args, "null") == 0 && fuse_opt_add_arg(&args, "-oro") == 0;
    for (char **word = argv + 2; ok && word[1]; word++) {
        direct = direct || strcmp(*word, "direct") == 0;
        if (strncmp(*word, "of=", 3) == 0 && (source = open(*word + 3, O_RDONLY)) < 0)
            return 1;
        ok = strcmp(*word, "io_uring") != 0 || fuse_opt_add_arg(&args, "-oio_uring") == 0;
    }
    struct fuse_session *se = ok ? fuse_session_new(&args, &ops, sizeof ops, NULL) : NULL;
    if (se && fuse_set_signal_handlers(se) == 0 && fuse_session_mount(se, argv[argc - 1]) == 0) {
        rc = serve(se) < 0;
        fuse_session_unmount(se);
    }
    fuse_opt_free_args(&args);
    return rc;
}
