/* SPDX-License-Identifier: Apache-2.0 */
/* With -o allow_other a mount lets in users that the sources may keep out.  It shows files that are
 * no more readable than the least readable source, the directories above it included. */
#ifndef ZF_CMD_ACCESS_H
#define ZF_CMD_ACCESS_H

#include <sys/types.h>

#include <zf/model/model.h>

struct access {
    gid_t gid;
    mode_t withheld; /* bits of 0555 that are taken off, so far */
    char *first;     /* the path that took the first, malloc'ed; NULL = none */
    mode_t its_mode;
    char *last_dir; /* malloc'ed: looked at already, with all above it */
};

/* A file or directory of the source (absolute, or relative to the working directory), and the
 * directories above it.  What cannot be looked at counts as closed to everybody else. */
void access_add(struct access *a, const char *path);

/* The same for all files that were opened for c, which lies at `source` (absolute). */
void access_add_checkpoint(struct access *a, const struct zf_checkpoint *c, const char *source);

void access_fini(struct access *a);
static inline void zf_auto_access(struct access *a)
{
    access_fini(a);
}

#endif
