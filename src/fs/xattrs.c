/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes: user.zerofs.* and nothing else.
 *
 * Listing a directory with attributes (ls -l, cp -a) asks every file for a security context
 * and an access control list, or, coreutils since 9.6, for the list of names.  The kernel does not
 * cache the answers, so each request is a round trip, and these take most of the listing's time.
 * Two errors stop the requests: after EOPNOTSUPP ls asks no other file of the device
 * (getfilecon_cache and has_acl_cache in coreutils' src/ls.c, 8.x to 9.7); after ENOSYS the kernel
 * itself sends no more requests of that kind (fs/fuse/xattr.c).  Names outside user.zerofs always
 * get EOPNOTSUPP; listxattr gets ENOSYS in a large tree. */
#include "session.h"

#include <errno.h>
#include <string.h>

#include <zf/base/buffer.h>

/* Kernel and linux/limits.h: XATTR_SIZE_MAX. */
#define XATTR_MAX 65536u
#define OURS "user.zerofs."

/* With -o xattrs=auto, listxattr works in trees of up to this many files: a directory listing then spends at most a tenth
 * of a second on it. */
#define FEW_FILES 4096u

/* Replies with p[n].  size: bytes the caller has room for; 0 asks only for n. */
static void xattrs_reply(fuse_req_t req, size_t size, const char *p, size_t n)
{
    if (size == 0)
        (void)fuse_reply_xattr(req, n);
    else if (n > size)
        (void)fuse_reply_err(req, ERANGE);
    else
        (void)fuse_reply_buf(req, p, n);
}

void xattrs_get(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    const struct fs *fs = fuse_req_userdata(req);
    zf_auto(buffer) struct zf_buffer *b = NULL;
    struct zf_xattr x = {.cap = XATTR_MAX};

    if (fs->opts->xattrs == ZF_FS_XATTRS_OFF) {
        (void)fuse_reply_err(req, ENOSYS);
        return;
    }
    if (strncmp(name, OURS, strlen(OURS)) != 0) {
        (void)fuse_reply_err(req, EOPNOTSUPP);
        return;
    }
    b = zf_buffer_take(XATTR_MAX);
    x.value = b ? b->at : NULL;
    for (size_t i = 0; x.value && fs->tree->ops->xattr(fs->tree, ino, i, &x); i++) {
        if (strcmp(x.name, name) == 0) {
            xattrs_reply(req, size, x.value, x.len);
            return;
        }
    }
    (void)fuse_reply_err(req, x.value ? ENODATA : ENOMEM);
}

static bool xattrs_listed(const struct fs *fs)
{
    uint64_t files = 0, bytes = 0;

    if (fs->opts->xattrs == ZF_FS_XATTRS_AUTO)
        fs->tree->ops->totals(fs->tree, &files, &bytes);
    return fs->opts->xattrs != ZF_FS_XATTRS_OFF && files <= FEW_FILES;
}

void xattrs_list(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    const struct fs *fs = fuse_req_userdata(req);
    zf_auto(buffer) struct zf_buffer *b = NULL;
    struct zf_xattr x = {.cap = XATTR_MAX};
    char names[4096];
    size_t used = 0;

    if (!xattrs_listed(fs)) {
        (void)fuse_reply_err(req, ENOSYS);
        return;
    }
    b = zf_buffer_take(XATTR_MAX);
    x.value = b ? b->at : NULL;
    for (size_t i = 0; x.value && fs->tree->ops->xattr(fs->tree, ino, i, &x); i++) {
        size_t n = strlen(x.name) + 1;

        if (used + n <= sizeof names) {
            memcpy(names + used, x.name, n);
            used += n;
        }
    }
    if (x.value)
        xattrs_reply(req, size, names, used);
    else
        (void)fuse_reply_err(req, ENOMEM);
}
