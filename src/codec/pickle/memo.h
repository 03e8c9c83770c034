/* SPDX-License-Identifier: Apache-2.0 */
/* The memo: an array for keys that are dense, as real ones are, and a hash table for the rest. */
#ifndef CODEC_PICKLE_MEMO_H
#define CODEC_PICKLE_MEMO_H

#include <zf/base/table.h>

#include "got.h"
#include "heap.h"

struct memo_far;
struct pickle_memo {
    struct zf_pv **dense; /* [dense_n], NULL = not set */
    uint64_t dense_n, dense_cap;
    struct memo_far *far; /* the rest; uthash */
    uint64_t n;           /* keys set */
    /* Where it is known which keys are asked for (pickle_memo_sift): dense has these alone, by their
     * rank; of the others below `sifted` only a bit is kept, that they were set. */
    uint64_t sifted; /* 0 = it is not known */
    struct pickle_got got;
    uint64_t *set, n_set_words;
};

/* From here on keys below `sifted` that are not in m->got are not kept.  Before the first put; m->got is
 * counted.  Errors: ZF_E_LIMIT. */
bool pickle_memo_sift(struct pickle_memo *m, struct pickle_heap *h, uint64_t sifted,
                      struct zf_err *err) ZF_CHECKED;

struct zf_pv *pickle_memo_get(const struct pickle_memo *m, uint64_t key);
/* Errors: ZF_E_LIMIT pickle_memo, pickle_memory; ZF_E_NOMEM. */
bool pickle_memo_put(struct pickle_memo *m, struct pickle_heap *h, uint64_t key, struct zf_pv *v,
                     struct zf_err *err) ZF_CHECKED;
void pickle_memo_fini(struct pickle_memo *m);

#endif
