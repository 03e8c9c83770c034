/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a file given to another one of its file system without copying them, where that file
 * system can (btrfs, xfs). */
#ifndef ZF_SOURCE_CLONE_H
#define ZF_SOURCE_CLONE_H

#include <zf/source/source.h>

/* Bytes [off, off + n) of a source for the file `to`, at to_off. */
struct zf_clone {
    uint64_t off, n, to_off;
    int to;
    uint64_t done; /* answer: bytes from off on that are there now, whole blocks */
    bool refused;  /* answer: nothing of that file can be shared with this one */
};
#define ZF_CLONE_BLOCK 4096u

/* Shares as many of the bytes, from the first on, as follow one another in one file and are
 * whole blocks both there and here; c->done = 0 where place, source or file system do not allow
 * it.  What a read checks is checked: a file that changed is ZF_E_STALE, and then what `to` got
 * is not to be used. */
bool zf_source_clone(struct zf_source *s, struct zf_clone *c, struct zf_err *err) ZF_CHECKED;

#endif
