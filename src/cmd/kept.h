/* SPDX-License-Identifier: Apache-2.0 */
/* -o model_cache=: models that are kept from one mount to the next. */
#ifndef ZF_CMD_KEPT_H
#define ZF_CMD_KEPT_H

#include <zf/keep.h>

#include "options.h"

/* One opening. */
struct kept {
    struct zf_keep *keep; /* NULL: neither looked for nor kept */
    bool always;          /* keep it however quickly it was read */
    int64_t began;        /* zf_clock_ns() */
    struct zf_err why;    /* it was not there, or was of no use; ZF_OK: it was */
};

/* Finds the model cache for the checkpoint at `path`, by the options; having no directory is no failure.
 * Errors: ZF_E_USAGE the directory that they name is open to other users. */
bool kept_begin(struct kept *k, const char *path, const struct opts *o,
                struct zf_err *err) ZF_CHECKED;
/* Is a model of it there, to be tried? */
bool kept_has(struct kept *k);
/* Its model, or NULL. */
struct zf_checkpoint *kept_load(struct kept *k, struct zf_store *st);
/* Keeps the model of c, which was read from st and found unchanged.  Says in c how it came. */
void kept_put(struct kept *k, struct zf_store *st, struct zf_checkpoint *c, const struct opts *o);
/* Keeps a text with the model of c, which was opened from `path` with these options, if one is kept: c->kept_note the
 * next time. */
void kept_note(const char *path, const struct opts *o, const struct zf_checkpoint *c,
               const char *text);
void kept_end(struct kept *k);
static inline void zf_auto_kept(struct kept *k)
{
    kept_end(k);
}

/* The directory of the user's kept models, malloc'ed; NULL: there is no home. */
char *kept_home(void);

/* Bytes of all kept models. */
#define KEPT_MOST (256ull << 20)

#endif
