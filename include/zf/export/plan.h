/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of the tree an export copies, and where to. */
#ifndef ZF_EXPORT_PLAN_H
#define ZF_EXPORT_PLAN_H

#include <zf/tree.h>

struct zf_export_file {
    char *from;     /* path in the tree */
    const char *to; /* path below the destination: the end of `from`, or a name it was given */
    struct zf_stat st;
    uint32_t leader;  /* index of the file this one is a hard link of; its own index = none */
    uint32_t follows; /* index of the next link of the same leader; UINT32_MAX = no more */
    uint8_t sha256[32];
    bool done;
};

struct zf_export_plan {
    struct zf_export_file *file; /* in the order of the listing */
    uint32_t n;
    size_t cap;
    uint64_t bytes; /* of all leaders */
};

/* Looks path[n] up, with cp(1)'s rules: a file goes into the destination by its own name, and so does
 * a directory, but with '/' at its end only what it holds; what a pattern matches by its path below
 * the last directory before the first wildcard.  Errors: ZF_E_NOENT nothing is called or matches so;
 * ZF_E_USAGE two files would become one. */
bool zf_export_plan_make(struct zf_export_plan *p, struct zf_tree *tree, char **path, int n,
                         bool all, struct zf_err *err) ZF_CHECKED;

/* The one file of a plan gets another name in the destination; `name` is borrowed. */
void zf_export_plan_rename(struct zf_export_plan *p, const char *name);

void zf_export_plan_fini(struct zf_export_plan *p);
static inline void zf_auto_export_plan(struct zf_export_plan *p)
{
    zf_export_plan_fini(p);
}

#endif
