/* SPDX-License-Identifier: Apache-2.0 */
/* With -o allow_other a mount is open to users who may have no access to the source files.  Therefore its
 * files are at most as readable as the least readable source file and the directories above it. */
#ifndef ZF_CMD_ACCESS_H
#define ZF_CMD_ACCESS_H

#include <sys/types.h>

#include <zf/model/model.h>

struct access {
    gid_t gid;
    mode_t withheld; /* bits of 0555 that are removed, so far */
    char *first;     /* the first path that removed a bit, malloc'ed; NULL = none */
    mode_t its_mode; /* mode of `first` */
    char *last_dir;  /* malloc'ed: the directory checked last, with all above it */
};

/* Takes into account a source file or directory (absolute, or relative to the working directory) and the
 * directories above it.  One whose mode cannot be read counts as closed to group and others. */
void access_add(struct access *a, const char *path);

/* Does the same for all files that were opened for c, the checkpoint at `source` (absolute). */
void access_add_checkpoint(struct access *a, const struct zf_checkpoint *c, const char *source);

void access_fini(struct access *a);
static inline void zf_auto_access(struct access *a)
{
    access_fini(a);
}

#endif
