/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a store and digests of its answers: while these hold, opening the checkpoint again would come
 * to the same model, and need not be repeated. */
#ifndef ZF_SOURCE_FACTS_H
#define ZF_SOURCE_FACTS_H

#include <zf/base/bytes.h>
#include <zf/source/store.h>

enum zf_fact_kind {
    ZF_FACT_DIR,    /* was listed */
    ZF_FACT_FILE,   /* was opened */
    ZF_FACT_NO_DIR, /* there is no directory of that path */
    ZF_FACT_NO_FILE,
    ZF_FACT_KINDS
};

struct zf_fact {
    enum zf_fact_kind kind;
    const char *path; /* in the store as a whole, not in a part of it */
    /* Of a directory: a hash of the name, kind and identity of every entry; of a file: of its
     * identity.  The same in every process; no secret. */
    uint64_t print[2];
    /* Of a file of a place whose identities do not say all: what identifies it and opens it again; of one whose
     * times may not tell of a change: the first bytes that were read of it, in short; else empty.  Borrowed.  No
     * credential. */
    struct zf_bytes note;
    struct zf_source *src; /* of a file, borrowed */
};

/* Calls fn for all of them, by kind and path, until it returns false; fn must not use the store.
 * since: when the store was asked first (CLOCK_REALTIME).  A file that changed just before could
 * change once more, after it was read, and carry the same times: clocks of file systems tick.
 * Errors: ZF_E_IO something was asked that failed, or is of a kind that may be answered
 * otherwise at any time; ZF_E_STALE a file changed too lately; ZF_E_UNSUPPORTED nothing would tell
 * a file from one that replaced it; what fn returned with. */
typedef bool zf_fact_fn(void *ctx, const struct zf_fact *f, struct zf_err *err);
bool zf_store_facts(struct zf_store *st, struct timespec since, zf_fact_fn *fn, void *ctx,
                    struct zf_err *err) ZF_CHECKED;

/* Is it still so?  Opens no file: *src_out, for a file, gives a reference to one as of
 * zf_store_open_later.  From several threads at once.  Of a file far away what was listed until now
 * says whether it is the same, or else zf_store_prove; of a store with a pin, which must be the one
 * that facts were told of, nothing is asked for.
 * Errors: ZF_E_STALE it is not, with the path; of zf_store_list. */
bool zf_store_holds(struct zf_store *st, const struct zf_fact *f, struct zf_source **src_out,
                    struct zf_err *err) ZF_CHECKED;

/* The last question, when all facts hold: are these files, which zf_store_holds gave, what they
 * were?  Those are asked for whom no listing speaks, many at once.  Errors: ZF_E_STALE, with the
 * path; ZF_E_IO. */
bool zf_store_prove(struct zf_store *st, struct zf_source *const *file, size_t n,
                    struct zf_err *err) ZF_CHECKED;

/* The commit that fixes the store's content for ever; "" = there is none.  Borrowed. */
const char *zf_store_pin(const struct zf_store *st);

#endif
