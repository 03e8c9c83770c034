/* SPDX-License-Identifier: Apache-2.0 */
/* Files whose names have numbers in them, by a pattern of the name:
 *
 *     rank%r.pt                                     %r as printf's %u writes it: "rank3.pt"
 *     consolidated.%02r.pth                         as %02u: "consolidated.03.pth"
 *     optim_pp-%p-of-%P[_dp-%d-of-%D].pt            text in brackets may be missing, with its numbers
 *     *_%r.pt                                       * is the shortest text that fits, once: the stem
 *
 * A lower-case letter is a place, counted from 0; in upper case it says how many places there are.  A name fits in one
 * way or is refused: "rank03.pt" is no "rank%r.pt". */
#ifndef ZF_ASSEMBLE_NUMBERED_H
#define ZF_ASSEMBLE_NUMBERED_H

#include <zf/base/arena.h>
#include <zf/base/vec.h>
#include <zf/source/store.h>

/* Numbers of a pattern; files of one, and places in all. */
enum { ZF_NUMBERS = 10, ZF_NUMBERED_MAX = 1000000 };
#define ZF_NO_NUMBER UINT32_MAX /* its brackets are missing */

struct zf_numbered_file {
    const char *name; /* without its directory; borrowed from the listing */
    size_t stem, stem_len;
    uint32_t number[ZF_NUMBERS]; /* in the order of the pattern */
};

/* Files of one pattern in one directory, in the order of their stems, then of their numbers. */
struct zf_numbered {
    const char *dir, *pattern; /* dir: "" is the root */
    zf_vec(struct zf_numbered_file) file;
};
static inline void zf_auto_numbered(struct zf_numbered *l)
{
    zf_vec_fini(&l->file);
}

/* Does the name fit?  Then *out has its numbers. */
bool zf_numbered_fits(const char *pattern, const char *name, struct zf_numbered_file *out);
/* The number of that letter. */
uint32_t zf_numbered_get(const char *pattern, const struct zf_numbered_file *f, char letter);
void zf_numbered_set(const char *pattern, struct zf_numbered_file *f, char letter, uint32_t number);
/* Writes the name of these numbers, cut to the room; brackets whose first number is ZF_NO_NUMBER are left out. */
void zf_numbered_print(const char *pattern, const struct zf_numbered_file *f, char *out,
                       size_t room);
/* Is there such a file in `dir`?  Only names are looked at. */
bool zf_numbered_any(struct zf_store *st, const char *dir, const char *pattern);

/* Lists them; none is opened.  A directory that is not there, or cannot be listed (zf_store_entries), has none.
 * Errors: ZF_E_NOMEM. */
bool zf_numbered_list(struct zf_store *st, const char *dir, const char *pattern,
                      struct zf_numbered *out, struct zf_err *err) ZF_CHECKED;
/* The end of the files that have the stem of file[from]. */
size_t zf_numbered_run(const struct zf_numbered *l, size_t from);
/* Files [from, end) of one stem must be all that there were: each place of each letter with each of the others, as many
 * as the names say (the upper-case letter), or the greatest and one.
 * Errors: ZF_E_FORMAT names the file that is missing, or two that are of different saves; ZF_E_LIMIT. */
bool zf_numbered_complete(const struct zf_numbered *l, size_t from, size_t end,
                          struct zf_err *err) ZF_CHECKED;

/* The files of a pattern with one number, "model/rank%r.pt", whether they are there or not. */
struct zf_ranks {
    const char *dir;   /* "model/", or "" for the root of the store */
    uint32_t n;        /* the greatest rank and one */
    uint32_t n_here;   /* files that are there */
    const char **path; /* [n] */
    bool *here;        /* [n] */
};
/* Lists them, in the arena.  world: ranks that there are at least, known from elsewhere, or 0.
 * Errors: of zf_numbered_list; ZF_E_LIMIT too many ranks; of the arena. */
bool zf_ranks_list(struct zf_store *st, struct zf_arena *a, const char *dir, const char *pattern,
                   uint32_t world, struct zf_ranks *out, struct zf_err *err) ZF_CHECKED;
/* No rank's file may be missing.  Errors: ZF_E_FORMAT names the first one. */
bool zf_ranks_complete(const struct zf_ranks *r, struct zf_err *err) ZF_CHECKED;

#endif
