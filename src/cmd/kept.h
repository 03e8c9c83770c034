/* SPDX-License-Identifier: Apache-2.0 */
/* -o model_cache=: models that are cached on disk from one mount to the next. */
#ifndef ZF_CMD_KEPT_H
#define ZF_CMD_KEPT_H

#include <zf/keep.h>

#include "options.h"

/* The use of the model cache while a checkpoint is opened. */
struct kept {
    struct zf_keep *keep; /* NULL: the cache is not used */
    bool always;          /* cache the model even if it was read quickly */
    int64_t began;        /* when opening began, zf_clock_ns() */
    struct zf_err why;    /* why no cached model was used; ZF_OK: one was */
};

/* Opens the model cache for the checkpoint at `path`, by the options; having no directory is no failure.
 * Errors: ZF_E_USAGE the directory named in the options is open to other users. */
bool kept_begin(struct kept *k, const char *path, const struct opts *o,
                struct zf_err *err) ZF_CHECKED;
/* True if the cache has a model for it, which may still turn out to be outdated. */
bool kept_has(struct kept *k);
/* The cached model, or NULL. */
struct zf_checkpoint *kept_load(struct kept *k, struct zf_store *st);
/* Caches the model of c, which was read from st while its files did not change.  Notes a failure in c. */
void kept_put(struct kept *k, struct zf_store *st, struct zf_checkpoint *c, const struct opts *o);
/* Stores a text with the cached model of c, if there is one; c was opened from `path` with these options.  The next
 * time it is in c->kept_note. */
void kept_note(const char *path, const struct opts *o, const struct zf_checkpoint *c,
               const char *text);
void kept_end(struct kept *k);
static inline void zf_auto_kept(struct kept *k)
{
    kept_end(k);
}

/* The directory of the user's cached models, malloc'ed; NULL: there is no home directory. */
char *kept_home(void);

/* The most bytes that all cached models may take. */
#define KEPT_MOST (256ull << 20)

#endif
