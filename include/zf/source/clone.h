/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing blocks between files (reflinks) instead of copying them, on file systems that can (btrfs,
 * xfs). */
#ifndef ZF_SOURCE_CLONE_H
#define ZF_SOURCE_CLONE_H

#include <zf/source/source.h>

/* A request to share bytes [off, off + n) of a source with the file `to`, at to_off. */
struct zf_clone {
    uint64_t off, n, to_off;
    int to;
    uint64_t done; /* result: bytes shared from off on, whole blocks */
    bool refused;  /* result: the file system cannot share blocks of these two files */
};
#define ZF_CLONE_BLOCK 4096u

/* Shares the leading bytes that are contiguous in one file and whole blocks in both files; c->done is
 * 0 if offsets, source or file system do not allow it.  Makes the checks that a read makes: a file
 * that changed is ZF_E_STALE, and the bytes in `to` must not be used then. */
bool zf_source_clone(struct zf_source *s, struct zf_clone *c, struct zf_err *err) ZF_CHECKED;

#endif
