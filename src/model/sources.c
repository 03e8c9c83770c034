/* SPDX-License-Identifier: Apache-2.0 */
#include "sources.h"

#include <zf/base/hash.h>

bool sources_add(struct sources *t, struct zf_source *s, uint32_t *out, struct zf_err *err)
{
    uint64_t hash = zf_hash_address(s), at = 0;

    if (t->n == 0 && !zf_vec_push(t, err)) {
        return false;
    }
    *out = 0;
    if (!s) {
        return true;
    }
    while ((*out = zf_index_next(&t->numbers, hash, &at)) != ZF_INDEX_NONE) {
        if (t->at[*out] == s) {
            return true;
        }
    }
    *out = (uint32_t)t->n;
    if (t->n >= ZF_INDEX_NONE || !zf_vec_room(t, 1, err) ||
        !zf_index_add(&t->numbers, hash, *out, err)) {
        return false;
    }
    t->at[t->n++] = zf_source_ref(s);
    return true;
}

void sources_cut(struct sources *t, uint32_t n)
{
    while (t->n > n) {
        struct zf_source **last = &t->at[--t->n];

        zf_index_remove(&t->numbers, zf_hash_address(*last), (uint32_t)t->n);
        zf_source_unref(last);
    }
}

void sources_seal(struct sources *t)
{
    zf_index_fini(&t->numbers);
}

void sources_fini(struct sources *t)
{
    for (size_t i = 1; i < t->n; i++) {
        zf_source_unref(&t->at[i]);
    }
    zf_vec_fini(t);
    zf_index_fini(&t->numbers);
}
