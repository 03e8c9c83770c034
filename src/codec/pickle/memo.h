/* SPDX-License-Identifier: Apache-2.0 */
/* The memo: an array for keys that are dense, as real ones are, and a hash table for the rest. */
#ifndef CODEC_PICKLE_MEMO_H
#define CODEC_PICKLE_MEMO_H

#include <zf/base/table.h>

#include "heap.h"

struct pickle_memo {
    struct zf_pv **dense; /* [dense_n], NULL = not set */
    uint64_t dense_n, dense_cap;
    struct zf_table far; /* the rest, by the hash of the key */
    uint64_t n;          /* keys set */
};

struct zf_pv *pickle_memo_get(const struct pickle_memo *m, uint64_t key);
/* Errors: ZF_E_LIMIT pickle_memo, pickle_memory; ZF_E_NOMEM. */
bool pickle_memo_put(struct pickle_memo *m, struct pickle_heap *h, uint64_t key, struct zf_pv *v,
                     struct zf_err *err) ZF_CHECKED;
void pickle_memo_fini(struct pickle_memo *m);

#endif
