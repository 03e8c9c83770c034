/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of a server that lists nothing, made of what answers: names.def says which names are
 * asked for; those that are there name others.  That is no listing: a file that no other names is not
 * found.  Whether a save is complete its own metadata say, as for every save. */
#ifndef REMOTE_NAMES_H
#define REMOTE_NAMES_H

#include "entries.h"

#define NAMES_UNSIZED UINT64_MAX

struct names_found {
    bool is;
    uint64_t size; /* or NAMES_UNSIZED */
};

struct names_ops {
    /* Are these files there?  n of them, asked for at the same time.  Errors: it cannot be known. */
    bool (*have)(void *ctx, const char *const *path, size_t n, struct names_found *out,
                 struct zf_err *err);
    /* A whole file, malloc'ed. */
    char *(*get)(void *ctx, const char *path, uint64_t max_bytes, uint64_t *n_out,
                 struct zf_err *err);
};

struct names;
/* ctx and lim are borrowed. */
struct names *names_new(const struct names_ops *ops, void *ctx, const struct zf_limits *lim,
                        struct zf_err *err) ZF_CHECKED;
void names_free(struct names *n);

/* Adds what is found in `dir` ("" = the place).  From several threads at once.  focus: the one file of the place that
 * is meant, or NULL.
 * Errors: ZF_E_NOENT nothing is; ZF_E_UNKNOWN the server has everything that it is asked for; those
 * of the server. */
bool names_list(struct names *n, const char *dir, const char *focus, struct entries *out,
                struct zf_err *err) ZF_CHECKED;

#endif
