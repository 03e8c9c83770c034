/* SPDX-License-Identifier: Apache-2.0 */
/* Is a file still the one that was mounted?  What proves it where: place.h. */
#ifndef SOURCE_SAME_H
#define SOURCE_SAME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

#include <zf/source/source.h>

/* The expected identity of a file.  `ctime` and `meta` are updated by changes that touch no byte. */
struct same {
    struct zf_identity id;        /* when the file was opened first */
    atomic_uint_least64_t ctime;  /* expected now, ns modulo 2^64 */
    struct zf_identity_meta meta; /* expected now; under the lock of same.c */
    atomic_uint moved;            /* number of updates of these two */
    atomic_bool stale;            /* a change was seen */
};

/* As fstatat(2), with the flags of statx(2), but without atime and blocks: after each read the kernel would have to ask
 * a FUSE server for atime again (fuse_invalidate_atime, Linux 5.10 to 6.18). */
bool same_stat(int fd, const char *name, int flags, struct stat *st);

void same_init(struct same *s, const struct zf_identity *id);

/* Compares a descriptor's attributes (O_PATH is enough) with the expected ones.  sync: as for statx(2), 0 or
 * AT_STATX_DONT_SYNC (what the kernel has cached, which never waits for a server).  A change of ctime together with
 * mode, owner or number of links, all else being equal, is accepted as the new expectation and reported by
 * zf_files_look under `name`; not with `strict`, and with `shared` not if the owner changed or the mode lost a right to
 * read.
 * Errors: ZF_E_STALE, from then on for ever; ZF_E_IO the file is shorter, or its attributes cannot be read. */
struct same_how {
    int sync;
    bool shared, strict;
    const char *name;
};
bool same_check(struct same *s, int fd, const struct same_how *how, struct zf_err *err) ZF_CHECKED;

/* Marks the file as stale, for a change found by other means.  Returns false. */
bool same_refuse(struct same *s, const char *why, struct zf_err *err);

/* The number of accepted changes since the last call; `first` gets the name of one of the files. */
size_t same_moved(char *first, size_t n);

#endif
