/* SPDX-License-Identifier: Apache-2.0 */
/* Two ways to read a file: through the kernel's page cache, which keeps what was read, in pages
 * of 4 KiB that cost more than the reading; or past it, which is 1.8 to 3 times as fast at
 * first, keeps nothing twice, and is slower when the same bytes are read again.  A mapping of a
 * file that goes past the cache is filled through the cache; but a kernel before 6.6, and
 * libfuse before 3.17, refuses MAP_SHARED of it (ENODEV), which is how safetensors maps files.
 * So large files go past the cache only where that was granted, and with io=auto no safetensors files.
 *
 * The kernel offers 128 KiB of read-ahead at INIT and takes no more then; the device's own
 * setting works, once INIT is over, for who may write it. */
#include "config.h"

#include "mode.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <zf/base/fd.h>

/* Smaller files are what programs read in small pieces or again and again: settings, norms, a tokenizer. */
#define LARGE (64u << 20)

void mode_choose(struct fs *fs, const struct fuse_conn_info *conn)
{
    bool granted = MODE_SHARED_MAPS && (conn->capable & MODE_SHARED_MAPS) != 0;

    atomic_store_explicit(&fs->shared_maps, granted, memory_order_relaxed);
    atomic_store_explicit(&fs->direct, granted && fs->opts->io != ZF_FS_IO_CACHED,
                          memory_order_relaxed);
}

/* Each mmap of a file that was opened to be read past the cache throws out what the cache holds of it
 * (fuse_file_mmap, Linux 6.6 to 6.18), under the feet of who mapped it before. */
bool mode_direct(const struct fs *fs, const struct zf_stat *s)
{
    return s->size >= LARGE && atomic_load_explicit(&fs->direct, memory_order_relaxed) &&
           (!s->mapped || fs->opts->io == ZF_FS_IO_DIRECT);
}

static const char *mode_why(const struct fs *fs)
{
    if (atomic_load_explicit(&fs->direct, memory_order_relaxed)) {
        return fs->opts->io == ZF_FS_IO_DIRECT
                   ? "this kernel maps files of 64 MiB and more that are read past its page cache"
                   : "this kernel maps files of 64 MiB and more that are read past its page cache; "
                     "safetensors files, which programs map, are read through it";
    }
    return fs->opts->io == ZF_FS_IO_CACHED ? "io=cached was asked for"
           : MODE_SHARED_MAPS ? "this kernel (Linux 6.6 is the first) does not map files that are "
                                "read past its page cache"
                              : "the libfuse of this zerofs (3.17 is the first) cannot map files "
                                "that are read past the page cache";
}

/* ---- read-ahead ---------------------------------------------------------------------------- */

/* 0 when it is not known. */
static uint32_t mode_read_ahead(int fd)
{
    char text[16] = "";
    unsigned kib = 0;

    return pread(fd, text, sizeof text - 1, 0) > 0 && sscanf(text, "%u", &kib) == 1 ? kib : 0;
}

static void mode_raise_read_ahead(dev_t dev, struct zf_fs_modes *m)
{
    char path[60], text[16];

    (void)snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb", major(dev), minor(dev));
    zf_auto(fd) int writable = m->read_ahead_wanted ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    int n = snprintf(text, sizeof text, "%u", m->read_ahead_wanted);
    if (writable >= 0 && write(writable, text, (size_t)n) < 0) {
        /* The value in force is read below. */
    }
    zf_auto(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    m->read_ahead_kib = fd >= 0 ? mode_read_ahead(fd) : 0;
    if (m->read_ahead_kib && m->read_ahead_kib < m->read_ahead_wanted)
        (void)snprintf(m->remedy, sizeof m->remedy, "echo %u >%s", m->read_ahead_wanted, path);
}

/* ---- io_uring ------------------------------------------------------------------------------ */

bool mode_has_io_uring(void)
{
#ifdef FUSE_CAP_OVER_IO_URING
    zf_auto(fd) int fd = open("/sys/module/fuse/parameters/enable_uring", O_RDONLY | O_CLOEXEC);
    char on;

    return fd >= 0 && read(fd, &on, 1) == 1 && on == 'Y';
#else
    return false;
#endif
}

void mode_note_request(struct fs *fs, fuse_req_t req)
{
#ifdef FUSE_CAP_OVER_IO_URING
    if (fs->opts->io_uring && fuse_req_is_uring(req))
        atomic_store_explicit(&fs->uring, true, memory_order_relaxed);
#else
    (void)fs, (void)req;
#endif
}

void *mode_ring_buffer(const struct fs *fs, fuse_req_t req, size_t n)
{
#ifdef FUSE_CAP_OVER_IO_URING
    char *p = NULL;
    size_t cap = 0;

    if (fs->opts->io_uring && fuse_req_is_uring(req) &&
        fuse_req_get_payload(req, &p, &cap, NULL) == 0 && cap >= n)
        return p;
#else
    (void)fs, (void)req, (void)n;
#endif
    return NULL;
}

void mode_get(const struct fs *fs, const dev_t *dev, struct zf_fs_modes *out)
{
    *out = (struct zf_fs_modes){
        .direct = atomic_load_explicit(&fs->direct, memory_order_relaxed),
        .why = mode_why(fs),
        .io_uring = atomic_load_explicit(&fs->uring, memory_order_relaxed),
        .read_ahead_wanted = fs->opts->read_ahead_kib,
    };
    if (dev)
        mode_raise_read_ahead(*dev, out);
}
