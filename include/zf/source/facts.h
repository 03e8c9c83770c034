/* SPDX-License-Identifier: Apache-2.0 */
/* Facts: all that opening a checkpoint asked a store, with digests of the results.  As long as these
 * hold, opening the checkpoint again would give the same model, so the cached model can be used. */
#ifndef ZF_SOURCE_FACTS_H
#define ZF_SOURCE_FACTS_H

#include <zf/base/bytes.h>
#include <zf/source/store.h>

enum zf_fact_kind {
    ZF_FACT_DIR,    /* a directory was listed */
    ZF_FACT_FILE,   /* a file was opened */
    ZF_FACT_NO_DIR, /* there is no directory at that path */
    ZF_FACT_NO_FILE,
    ZF_FACT_KINDS
};

struct zf_fact {
    enum zf_fact_kind kind;
    const char *path; /* relative to the root store, not to a sub-store */
    /* Directory: a hash of the name, kind and identity of every entry; file: a hash of its identity.
     * The same in every process; not secret. */
    uint64_t print[2];
    /* File on storage where the identity is not enough: a note that identifies it and opens it again; file whose
     * timestamps may miss a change: hashes of the first bytes read from it; else empty.  Borrowed.  Contains no
     * credentials. */
    struct zf_bytes note;
    struct zf_source *src; /* file: its source, borrowed */
};

/* Calls fn for all facts, by kind and path, until it returns false; fn must not use the store.
 * since: the time (CLOCK_REALTIME) before the store was first used.  A file that changed just before
 * could change once more, after it was read, within the same tick of the file system's clock.
 * Errors: ZF_E_IO a request failed in a way that may not repeat; ZF_E_STALE a file changed too
 * recently; ZF_E_UNSUPPORTED nothing would tell a file from one that replaced it; those of fn. */
typedef bool zf_fact_fn(void *ctx, const struct zf_fact *f, struct zf_err *err);
bool zf_store_facts(struct zf_store *st, struct timespec since, zf_fact_fn *fn, void *ctx,
                    struct zf_err *err) ZF_CHECKED;

/* Does a fact still hold?  Opens no file: *src_out, for a file, is a reference as from
 * zf_store_open_later.  May be called from several threads.  A remote file is compared with the
 * listings made so far, or else by zf_store_prove; for a store with a pin, which must be that of the
 * facts, nothing is requested.
 * Errors: ZF_E_STALE it does not hold, with the path; of zf_store_list. */
bool zf_store_holds(struct zf_store *st, const struct zf_fact *f, struct zf_source **src_out,
                    struct zf_err *err) ZF_CHECKED;

/* The final check, when all facts hold: asks for those of these files, from zf_store_holds, that no
 * listing proved, many at once.  Errors: ZF_E_STALE, with the path; ZF_E_IO. */
bool zf_store_prove(struct zf_store *st, struct zf_source *const *file, size_t n,
                    struct zf_err *err) ZF_CHECKED;

/* The commit that fixes the store's contents for ever; "" = none.  Borrowed. */
const char *zf_store_pin(const struct zf_store *st);

#endif
