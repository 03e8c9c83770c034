/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed models kept on disk, so that a second mount of a save that did not change reads none of its
 * files.
 *
 *   DIR/KEY.model    KEY: a hash of all that shapes the model beside the files: place, options, program
 *
 * A file holds what pins the place, if anything does (a commit); what the store was asked when the model
 * was made (zf/source/facts.h); and the model, as the verbs that make it (zf/model/pack.h).  It is trusted
 * as little as a checkpoint is: it must be the user's own and writable by nobody else, its checksum must
 * fit, every fact must still hold, and what the verbs make is sealed with the proof of a model that was
 * read.  Whoever may write here may replace zerofs itself, so the checksum has no key: it is against
 * corruption and torn writes. */
#ifndef ZF_KEEP_H
#define ZF_KEEP_H

#include <time.h>

#include <zf/base/auto.h>
#include <zf/model/build.h>

/* One model, to be looked for or to be kept. */
struct zf_keep;

/* To be made before anything of the checkpoint is read.  Opens the directory, which is made if it
 * is not there (0700, with those above it).  key: a line first that is shown by zf_keep_each,
 * without credentials; copied.  most: bytes of all models that are kept.
 * Errors: ZF_E_USAGE the directory is another user's, or others may write to it; ZF_E_IO. */
struct zf_keep *zf_keep_new(const char *dir, const char *key, uint64_t most,
                            const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void zf_keep_free(struct zf_keep *k);
static inline void zf_auto_keep(struct zf_keep **k)
{
    zf_keep_free(*k);
}

/* Is there anything to load?  What it is, and whether it is of any use, only loading says. */
bool zf_keep_has(const struct zf_keep *k);

/* The checkpoint in st, if it was kept and nothing has changed since.  NULL: err says why
 * (ZF_E_NOENT: never kept), and it must be read. */
struct zf_checkpoint *zf_keep_load(struct zf_keep *k, struct zf_store *st,
                                   struct zf_err *err) ZF_CHECKED;

/* zf_open_opts.sealing, with k as ctx: notes the model that is about to be sealed. */
void zf_keep_sealing(void *k, const struct zf_build *b, const char *format, const char *why);

/* Keeps what was noted last, and says in c, which was made of it, as which model; to be asked when st was found
 * unchanged.  Errors: ZF_E_UNSUPPORTED a model of this kind is not kept; of zf_store_facts, since k was made; ZF_E_IO. */
bool zf_keep_put(struct zf_keep *k, struct zf_store *st, struct zf_checkpoint *c,
                 struct zf_err *err) ZF_CHECKED;

/* Keeps a text with the model that c was made from or kept as: kept_note of whoever loads it.  It must follow from the
 * files that the model depends on, and from the key.  Errors: ZF_E_LIMIT more than 1 MiB; ZF_E_NOENT the model is another
 * one now, or gone; ZF_E_IO. */
bool zf_keep_note(struct zf_keep *k, const struct zf_checkpoint *c, const char *text,
                  struct zf_err *err) ZF_CHECKED;

/* Calls fn for every model in the directory, the one used last first.  Errors: as zf_keep_new. */
struct zf_keep_entry {
    const char *what; /* the first line of its key */
    uint64_t bytes;
    struct timespec used;
};
typedef void zf_keep_fn(void *ctx, const struct zf_keep_entry *e);
bool zf_keep_each(const char *dir, zf_keep_fn *fn, void *ctx, struct zf_err *err) ZF_CHECKED;
/* Removes them all. */
bool zf_keep_clear(const char *dir, uint64_t *bytes_out, struct zf_err *err) ZF_CHECKED;

#endif
