/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary trees, such as one per rank, that are made only to be joined: a walk over the drafts of a
 * directory, and their removal. */
#include <string.h>

#include "draft.h"

/* The part of a path below the directory: "" for the directory itself; NULL = it is not below it. */
static const char *scaffold_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    if (n == 0)
        return path;
    if (strncmp(path, dir, n) != 0 || (path[n] != '/' && path[n] != '\0'))
        return NULL;
    return path[n] ? path + n + 1 : "";
}

struct zf_draft *zf_build_next(struct zf_build *b, const char *dir, uint64_t *at,
                               struct zf_spot *out, struct zf_draft **tie)
{
    while (*at < b->drafts.n) {
        struct zf_draft *d = b->drafts.at[(*at)++];
        const char *set = d->set ? scaffold_below(d->set->path, dir) : NULL;

        if (set) {
            *out = (struct zf_spot){set, draft_name(d), d->name_len};
            *tie = draft_tie(d);
            return d;
        }
    }
    return NULL;
}

static bool scaffold_below_any(const char *path, const char *const *dir, uint32_t n)
{
    uint32_t i = 0;

    while (i < n && !scaffold_below(path, dir[i]))
        i++;
    return i < n;
}

void zf_build_withdraw(struct zf_build *b, const char *const *dir, uint32_t n)
{
    size_t kept = 0;

    build_forget_asked(b);
    for (size_t i = 0; i < b->sets.n; i++) {
        struct draft_set *s = b->sets.at[i];

        if (scaffold_below_any(s->path, dir, n)) {
            HASH_CLEAR(hh, s->drafts);
            s->n = 0;
        }
    }
    for (size_t i = 0; i < b->drafts.n; i++) {
        struct zf_draft *d = b->drafts.at[i];

        if (!d->set || d->set->n > 0) {
            d->number = (uint32_t)kept;
            b->drafts.at[kept++] = d;
        } else {
            b->rest.n_pieces -= d->n_pieces;
            b->rest.n_ruled -= draft_slots_ruled(d);
        }
    }
    b->drafts.n = kept;
    kept = 0;
    for (size_t i = 0; i < b->lists.blobs.n; i++)
        if (!scaffold_below_any(b->lists.blobs.at[i].path, dir, n))
            b->lists.blobs.at[kept++] = b->lists.blobs.at[i];
    b->lists.blobs.n = kept;
}
