/* SPDX-License-Identifier: Apache-2.0 */
/* A file can be read in two ways: through the kernel's page cache, whose handling of 4 KiB pages costs more than the read
 * itself; or bypassing it (direct I/O), which is 1.8 to 3 times as fast for the first read and stores nothing twice, but
 * is slower when the same bytes are read again.  A mapping of a bypassed file still uses the cache; but a kernel before 6.6
 * and libfuse before 3.17 refuse MAP_SHARED of it (ENODEV), which is how safetensors maps files.  So large files bypass the
 * cache only where the kernel allows such mappings, and with io=auto safetensors files never do.
 *
 * At INIT the kernel limits read-ahead to 128 KiB.  Afterwards it can be raised in sysfs by a user with write permission
 * there. */
#include "config.h"

#include "mode.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <zf/base/fd.h>

/* Smaller files (settings, norms, a tokenizer) are often read in small pieces or repeatedly, and stay cached. */
#define LARGE (64u << 20)

void mode_choose(struct fs *fs, const struct fuse_conn_info *conn)
{
    bool granted = MODE_SHARED_MAPS && (conn->capable & MODE_SHARED_MAPS) != 0;

    atomic_store_explicit(&fs->shared_maps, granted, memory_order_relaxed);
    atomic_store_explicit(&fs->direct, granted && fs->opts->io != ZF_FS_IO_CACHED,
                          memory_order_relaxed);
}

/* Each mmap of a file opened for direct I/O evicts its cached pages (fuse_file_mmap, Linux 6.6 to 6.18), including those
 * that other readers have mapped. */
bool mode_direct(const struct fs *fs, const struct zf_stat *s)
{
    return s->size >= LARGE && atomic_load_explicit(&fs->direct, memory_order_relaxed) &&
           (!s->mapped || fs->opts->io == ZF_FS_IO_DIRECT);
}

static const char *mode_why(const struct fs *fs)
{
    if (atomic_load_explicit(&fs->direct, memory_order_relaxed)) {
        return fs->opts->io == ZF_FS_IO_DIRECT
                   ? "this kernel can map files of 64 MiB and more that bypass its page cache"
                   : "this kernel can map files of 64 MiB and more that bypass its page cache; "
                     "safetensors files, which programs map, use the cache";
    }
    return fs->opts->io == ZF_FS_IO_CACHED ? "io=cached is set"
           : MODE_SHARED_MAPS
               ? "this kernel cannot map files that bypass its page cache (Linux 6.6 can)"
               : "the libfuse of this zerofs cannot map files that bypass the page cache (libfuse "
                 "3.17 can)";
}

/* ---- read-ahead ---------------------------------------------------------------------------- */

/* Read-ahead in KiB, read from fd; 0 if it cannot be read. */
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
