/* SPDX-License-Identifier: Apache-2.0 */
/* Each value counts with the way to it, and all are added up, so that the order does not matter. */
#include "tp_digest.h"

#include <zf/base/hash.h>
#include <zf/base/vec.h>

#define DIGEST_VALUES (1u << 24)

/* A value that is still to be looked at, and the hash of the way to it. */
struct digest_one {
    const struct zf_pv *v;
    uint64_t way;
};
typedef zf_vec(struct digest_one) digest_list;

static uint64_t digest_plain(const struct zf_pv *v, uint64_t way)
{
    uint64_t n = 0;
    int64_t i = 0;
    double f = 0;

    if (zf_pv_int(v, &i)) {
        return zf_hash(way, &i, sizeof i);
    }
    if (zf_pv_float(v, &f)) {
        return zf_hash(way, &f, sizeof f);
    }
    if (zf_pv_kind(v) == ZF_PV_STR) {
        const char *p = zf_pv_text(v, &n);

        return zf_hash(way, p, n);
    }
    return way;
}

static bool digest_push(digest_list *list, const struct zf_pv *v, uint64_t way, struct zf_err *err)
{
    struct digest_one *one = zf_vec_push(list, err);

    if (one) {
        *one = (struct digest_one){v, way};
    }
    return one != NULL;
}

bool ds_tp_digest(const struct zf_pv *v, uint64_t *out, struct zf_err *err)
{
    digest_list list = {0};
    uint64_t sum = 1, seen = 0;
    bool ok = !zf_pv_is_map(v) || digest_push(&list, v, 7, err);

    *out = 0;
    while (ok && list.n > 0 && seen < DIGEST_VALUES) {
        struct digest_one one = list.at[--list.n];
        bool map = zf_pv_is_map(one.v), seq = !map && zf_pv_is_seq(one.v);
        uint64_t n = map || seq ? zf_pv_len(one.v) : 0;

        /* what is empty is a value, too */
        sum += n == 0 ? digest_plain(one.v, zf_hash(one.way, "v", 1)) : 0;
        seen += n + 1;
        for (uint64_t i = 0; ok && i < n && seen < DIGEST_VALUES; i++) {
            uint64_t way = map ? digest_plain(zf_pv_key(one.v, i), zf_hash(one.way, "k", 1))
                               : zf_hash(one.way, &i, sizeof i);

            ok = digest_push(&list, map ? zf_pv_val(one.v, i) : zf_pv_item(one.v, i), way, err);
        }
    }
    if (ok && zf_pv_is_map(v) && list.n == 0 && seen < DIGEST_VALUES) {
        *out = sum != 0 ? sum : 1;
    }
    zf_vec_fini(&list);
    return ok;
}
