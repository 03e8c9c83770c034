/* SPDX-License-Identifier: Apache-2.0 */
/* torch.save files that are read one after the other, opened and parsed ahead by a few threads. */
#ifndef ZF_ASSEMBLE_TORCH_AHEAD_H
#define ZF_ASSEMBLE_TORCH_AHEAD_H

#include <zf/base/ahead.h>
#include <zf/codec/torch.h>
#include <zf/source/store.h>

/* Set st and lim, which must outlive it; zero the rest. */
struct zf_torch_ahead {
    struct zf_store *st;
    const struct zf_limits *lim;
    const char *const *path; /* [n] files that will be asked for … */
    uint64_t n, next;        /* … from path[next] on */
    struct zf_ahead *made;
    struct zf_torch_known *known; /* pickles of `first` and similar files; or NULL */
    const char *first;            /* the first file whose pickle was added */
    bool alike;                   /* path[n] are compared with the known pickles */
    uint64_t
        likely; /* the memory that each of path[n] will probably take (zf_torch_weight); 0 = not known */
};

/* Begins to open path[n], which are borrowed until all are open; drops files of earlier calls.  The budgets of `lim`
 * apply to each file; at most ZF_AHEAD_FEW files are open before they are asked for. */
bool zf_torch_ahead_begin(struct zf_torch_ahead *a, const char *const *path, uint64_t n,
                          struct zf_err *err) ZF_CHECKED;

/* The same for files that are expected to be very similar: a file whose pickle is known from another of them is not
 * parsed (zf_torch_is_known).  Pickles of earlier files are known, too, if zf_torch_ahead_open_first opened `first` and
 * nothing was opened since; NULL = there is no first file. */
bool zf_torch_ahead_begin_alike(struct zf_torch_ahead *a, const char *first,
                                const char *const *path, uint64_t n, struct zf_err *err) ZF_CHECKED;

/* Returns the file; free it with zf_torch_free.  A file that was not announced, or is not the next one, is opened now.
 * Errors: those of zf_store_open and zf_torch_open; always with a path. */
struct zf_torch *zf_torch_ahead_open(struct zf_torch_ahead *a, const char *path,
                                     struct zf_err *err) ZF_CHECKED;

/* Opens the first of several files that are expected to be very similar; its pickle is not known yet, but can be added to
 * a->known.  The known pickles are kept, and path is borrowed, until the next call. */
struct zf_torch *zf_torch_ahead_open_first(struct zf_torch_ahead *a, const char *path,
                                           struct zf_err *err) ZF_CHECKED;

void zf_torch_ahead_fini(struct zf_torch_ahead *a);

#endif
