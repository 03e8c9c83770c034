/* SPDX-License-Identifier: Apache-2.0 */
/* Files whose names have numbers in them, by a pattern of the name:
 *
 *     rank%r.pt                                     %r as printf's %u writes it: "rank3.pt"
 *     consolidated.%02r.pth                         as %02u: "consolidated.03.pth"
 *     optim_pp-%p-of-%P[_dp-%d-of-%D].pt            the text in brackets and its numbers may be missing
 *     *_%r.pt                                       * (at most once) is the shortest text that fits: the stem
 *
 * A lower-case letter is an index, counted from 0; the upper-case letter is the number of such indices.  A name must be
 * what the pattern prints for its numbers: "rank03.pt" does not fit "rank%r.pt". */
#ifndef ZF_ASSEMBLE_NUMBERED_H
#define ZF_ASSEMBLE_NUMBERED_H

#include <zf/base/arena.h>
#include <zf/base/vec.h>
#include <zf/source/store.h>

/* The most numbers in a pattern; the most files of one pattern, and the most combinations of indices. */
enum { ZF_NUMBERS = 10, ZF_NUMBERED_MAX = 1000000 };
#define ZF_NO_NUMBER UINT32_MAX /* its brackets are missing */

struct zf_numbered_file {
    const char *name; /* without its directory; borrowed from the listing */
    size_t stem, stem_len;
    uint32_t number[ZF_NUMBERS]; /* in the order of the pattern */
};

/* Files of one pattern in one directory, sorted by stem, then by numbers. */
struct zf_numbered {
    const char *dir, *pattern; /* dir: "" is the root */
    zf_vec(struct zf_numbered_file) file;
};
static inline void zf_auto_numbered(struct zf_numbered *l)
{
    zf_vec_fini(&l->file);
}

/* True if the name fits; *out then has its numbers. */
bool zf_numbered_fits(const char *pattern, const char *name, struct zf_numbered_file *out);
/* The number for that letter. */
uint32_t zf_numbered_get(const char *pattern, const struct zf_numbered_file *f, char letter);
void zf_numbered_set(const char *pattern, struct zf_numbered_file *f, char letter, uint32_t number);
/* Writes the name with these numbers, truncated to `room`; brackets whose first number is ZF_NO_NUMBER are left out. */
void zf_numbered_print(const char *pattern, const struct zf_numbered_file *f, char *out,
                       size_t room);
/* True if `dir` lists a name that fits; opens nothing. */
bool zf_numbered_any(struct zf_store *st, const char *dir, const char *pattern);

/* Lists the files that fit, without opening them; none in a directory that does not exist or cannot be listed
 * (zf_store_entries).  Errors: ZF_E_NOMEM. */
bool zf_numbered_list(struct zf_store *st, const char *dir, const char *pattern,
                      struct zf_numbered *out, struct zf_err *err) ZF_CHECKED;
/* The index after the last file with the stem of file[from]. */
size_t zf_numbered_run(const struct zf_numbered *l, size_t from);
/* Checks that files [from, end) of one stem are complete: every combination of indices exists.  The number of indices
 * is that in the names (the upper-case letter), or else the greatest index plus one.
 * Errors: ZF_E_FORMAT names the file that is missing, or two that are of different saves; ZF_E_LIMIT. */
bool zf_numbered_complete(const struct zf_numbered *l, size_t from, size_t end,
                          struct zf_err *err) ZF_CHECKED;

/* The files of all ranks by a pattern with one number, "model/rank%r.pt", whether they exist or not. */
struct zf_ranks {
    const char *dir;   /* "model/", or "" for the root of the store */
    uint32_t n;        /* the greatest rank plus one */
    uint32_t n_here;   /* files that exist */
    const char **path; /* [n] */
    bool *here;        /* [n] the file exists */
};
/* Lists them, in the arena.  world: the least number of ranks, if known from elsewhere, or 0.
 * Errors: those of zf_numbered_list; ZF_E_LIMIT too many ranks; those of the arena. */
bool zf_ranks_list(struct zf_store *st, struct zf_arena *a, const char *dir, const char *pattern,
                   uint32_t world, struct zf_ranks *out, struct zf_err *err) ZF_CHECKED;
/* Checks that no rank's file is missing.  Errors: ZF_E_FORMAT names the first missing one. */
bool zf_ranks_complete(const struct zf_ranks *r, struct zf_err *err) ZF_CHECKED;

#endif
