/* SPDX-License-Identifier: Apache-2.0 */
/* Is a file still the one that was mounted?  What proves it where: place.h. */
#ifndef SOURCE_SAME_H
#define SOURCE_SAME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

#include <zf/source/source.h>

/* The expected identity of a file.  `ctime` and `meta` move on when a change is one that touches no byte. */
struct same {
    struct zf_identity id;        /* when it was first looked at */
    atomic_uint_least64_t ctime;  /* as now expected, ns modulo 2^64 */
    struct zf_identity_meta meta; /* the same; under the lock of same.c */
    atomic_uint moved;            /* how often the two did */
    atomic_bool stale;            /* it was seen changed once */
};

/* As fstatat(2), with the flags of statx(2), but for the time of the last read, and blocks: after a read the kernel has to
 * ask a server in user space for the former anew (fuse_invalidate_atime, Linux 5.10 to 6.18). */
bool same_stat(int fd, const char *name, int flags, struct stat *st);

void same_init(struct same *s, const struct zf_identity *id);

/* Looks at the descriptor (O_PATH does), the way statx(2) has it (0, or AT_STATX_DONT_SYNC: as far as the kernel knows
 * by itself, which never waits for a server).  strict: any change counts; shared: one of owner
 * counts, and of mode when it takes a right to read away; else a move of ctime together with mode, owner
 * or number of links, all else being equal, becomes what is expected, and is told by zf_files_look under
 * `name`.
 * Errors: ZF_E_STALE, from then on for ever; ZF_E_IO the file is shorter, or cannot be asked. */
struct same_how {
    int sync;
    bool shared, strict;
    const char *name;
};
bool same_check(struct same *s, int fd, const struct same_how *how, struct zf_err *err) ZF_CHECKED;

/* The file is known to be another one: as if a look had found that.  Returns false. */
bool same_refuse(struct same *s, const char *why, struct zf_err *err);

/* How many files had such a change since the last call; `first` gets the name of one. */
size_t same_moved(char *first, size_t n);

#endif
