/* SPDX-License-Identifier: Apache-2.0 */
/* The model cache: sealed models on disk, so that a second mount of an unchanged save reads none of its files.
 *
 *   DIR/KEY.model    KEY: a hash of everything besides the files that affects the model: location, options, program
 *
 * A file holds the commit that pins the location, if any; the facts on which the model depends (zf/source/facts.h); and
 * the model, as the build calls that make it (zf/model/pack.h).  It is trusted no more than a checkpoint: it must belong
 * to the user and be writable by nobody else, its checksum must match, every fact must still hold, and the rebuilt model
 * is verified when it is sealed, like one that was read.  The checksum has no key, since it only detects corruption and
 * truncated writes: a user who may write here could replace zerofs itself. */
#ifndef ZF_KEEP_H
#define ZF_KEEP_H

#include <time.h>

#include <zf/base/auto.h>
#include <zf/model/build.h>

/* One model of the cache, to be loaded or stored. */
struct zf_keep;

/* Opens the cache directory; creates it and its parents if missing (mode 0700).  Must be called before anything of the
 * checkpoint is read.  key: copied; its first line is shown by zf_keep_each and must not contain credentials.  most: limit
 * of all cached models together, bytes.
 * Errors: ZF_E_USAGE the directory belongs to another user, or others may enter it; ZF_E_IO. */
struct zf_keep *zf_keep_new(const char *dir, const char *key, uint64_t most,
                            const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void zf_keep_free(struct zf_keep *k);
static inline void zf_auto_keep(struct zf_keep **k)
{
    zf_keep_free(*k);
}

/* Does a file for the key exist?  Only zf_keep_load tells whether it is valid. */
bool zf_keep_has(const struct zf_keep *k);

/* Loads the cached checkpoint of st.  NULL: the checkpoint must be read; *err has the reason (ZF_E_NOENT: not cached; or it
 * has changed, or the cached file is invalid). */
struct zf_checkpoint *zf_keep_load(struct zf_keep *k, struct zf_store *st,
                                   struct zf_err *err) ZF_CHECKED;

/* Callback for zf_open_opts.sealing, with k as ctx: records the model that is about to be sealed. */
void zf_keep_sealing(void *k, const struct zf_build *b, const char *format, const char *why);

/* Stores the model recorded by zf_keep_sealing, from which c was made, and sets c->kept_as to its checksum.  Call it once
 * st has proved to be unchanged.  Errors: ZF_E_UNSUPPORTED a model of this kind cannot be cached; those of zf_store_facts;
 * ZF_E_LIMIT; ZF_E_IO. */
bool zf_keep_put(struct zf_keep *k, struct zf_store *st, struct zf_checkpoint *c,
                 struct zf_err *err) ZF_CHECKED;

/* Stores a text with the cached model of c; a checkpoint loaded from it has it as kept_note.  The text must depend only on
 * the model's files and the key.  Errors: ZF_E_LIMIT more than 1 MiB; ZF_E_NOENT the cached model was replaced or removed;
 * ZF_E_IO. */
bool zf_keep_note(struct zf_keep *k, const struct zf_checkpoint *c, const char *text,
                  struct zf_err *err) ZF_CHECKED;

/* Calls fn for every model in the directory, most recently used first.  Errors: as zf_keep_new. */
struct zf_keep_entry {
    const char *what; /* the first line of its key */
    uint64_t bytes;
    struct timespec used;
};
typedef void zf_keep_fn(void *ctx, const struct zf_keep_entry *e);
bool zf_keep_each(const char *dir, zf_keep_fn *fn, void *ctx, struct zf_err *err) ZF_CHECKED;
/* Removes all cached models; *bytes_out is the size of the removed ones.  Errors: as zf_keep_new. */
bool zf_keep_clear(const char *dir, uint64_t *bytes_out, struct zf_err *err) ZF_CHECKED;

#endif
