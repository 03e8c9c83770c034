/* SPDX-License-Identifier: Apache-2.0 */
/* The directory an export writes to.  It may hold anything: no symbolic link in it is followed, and
 * nothing in it is replaced unasked. */
#ifndef ZF_EXPORT_DEST_H
#define ZF_EXPORT_DEST_H

#include <sys/stat.h>

#include <zf/base/auto.h>
#include <zf/base/fd.h>

/* Opens `path`; makes it, and the directories above it, where they are missing.
 * Errors: ZF_E_USAGE it lies in the checkpoint at `ckpt` (NULL: one that is not on this machine),
 * or beside one that is a single file while `force` could replace its shards. */
bool zf_export_dest_open(const char *path, const char *ckpt, bool force, int *fd_out,
                         struct zf_err *err) ZF_CHECKED;

/* A file's place: its directory, its name and the name it has until it is complete. */
struct zf_export_spot {
    int dir; /* owned */
    char name[256], part[256];
};

/* Goes from `root` to the place of `to` (a path of the tree), making directories on the way. */
bool zf_export_dest_spot(int root, const char *to, struct zf_export_spot *out,
                         struct zf_err *err) ZF_CHECKED;
static inline void zf_auto_export_spot(struct zf_export_spot *s)
{
    zf_auto_fd(&s->dir);
}

/* Opens a plain file in s->dir that has one name only; anything else there: < 0 and errno. */
int zf_export_dest_file(const struct zf_export_spot *s, const char *name, int flags);

/* Gives the complete part its name.  Without `force` nothing is replaced: ZF_E_IO. */
bool zf_export_dest_publish(const struct zf_export_spot *s, bool force,
                            struct zf_err *err) ZF_CHECKED;

#endif
