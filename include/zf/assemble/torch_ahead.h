/* SPDX-License-Identifier: Apache-2.0 */
/* Torch files that are read one after the other, opened and parsed ahead by a few threads. */
#ifndef ZF_ASSEMBLE_TORCH_AHEAD_H
#define ZF_ASSEMBLE_TORCH_AHEAD_H

#include <zf/base/ahead.h>
#include <zf/codec/torch.h>
#include <zf/source/store.h>

/* Set st and lim, which must outlive it; zero the rest. */
struct zf_torch_ahead {
    struct zf_store *st;
    const struct zf_limits *lim;
    const char *const *path; /* what will be asked for … */
    uint64_t n, next;        /* … from path[next] on */
    struct zf_ahead *made;
    struct zf_torch_twins *twins; /* of a first file and those that are like it, or NULL */
    const char *first;            /* that file */
    bool alike;                   /* path[n] are opened among the twins */
    uint64_t likely; /* what each of these will weigh (zf_torch_weight); 0 = not known */
};

/* Begins to open path[n], which are borrowed until all are open; forgets what was begun before.  The
 * budgets of `lim` count for each file, and at most ZF_AHEAD_FEW are open that nobody asked for. */
bool zf_torch_ahead_begin(struct zf_torch_ahead *a, const char *const *path, uint64_t n,
                          struct zf_err *err) ZF_CHECKED;

/* The same of files that are expected to be much alike: those may be twins (zf/codec/torch.h), of each other, and of
 * `first` if that was opened by zf_torch_ahead_open_first, and nothing was since; NULL = there is none. */
bool zf_torch_ahead_begin_alike(struct zf_torch_ahead *a, const char *first,
                                const char *const *path, uint64_t n, struct zf_err *err) ZF_CHECKED;

/* Gives the file, freed with zf_torch_free.  One that was not begun, or not as the next one, is
 * opened now.  Errors: of zf_store_open and zf_torch_open; always with a path. */
struct zf_torch *zf_torch_ahead_open(struct zf_torch_ahead *a, const char *path,
                                     struct zf_err *err) ZF_CHECKED;

/* Opens the first of files that are expected to be much alike, which is no twin and can be added to a->twins.  These are
 * kept, and path is borrowed, until the next one. */
struct zf_torch *zf_torch_ahead_open_first(struct zf_torch_ahead *a, const char *path,
                                           struct zf_err *err) ZF_CHECKED;

void zf_torch_ahead_fini(struct zf_torch_ahead *a);

#endif
