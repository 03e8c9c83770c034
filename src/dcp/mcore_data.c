/* SPDX-License-Identifier: Apache-2.0 */
#include "mcore_data.h"

#include <zf/base/num.h>
#include <zf/codec/torch.h>

/* Takes the true shape of a key from its entry; it must fit the stored one.  Other entries are ignored. */
static bool mcore_take_shape(struct zf_dcp *d, struct dcp_key *key, const struct zf_pv *entry,
                             struct zf_err *err)
{
    const struct zf_pv *given = zf_pv_get(entry, "nd_reformulated_orig_global_shape");
    const struct zf_pv *size = zf_torch_size(given);
    uint64_t *whole, elems = 1;
    uint32_t n = key->ndim - 1;

    if (!given || key->is_bytes)
        return true;
    if (key->ndim < 2 || n > ZF_DCP_WHOLE_DIMS || !size || zf_pv_len(size) != n) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "\"%.120s\": mcore_data gives a shape of %llu dimensions to a tensor that is "
            "stored with %u, expected one less",
            key->name, (unsigned long long)zf_pv_len(size), key->ndim);
    }
    whole = zf_arena_get(d->pickles, n, sizeof *whole, err);
    if (!whole)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!zf_pv_u64(zf_pv_item(size, i), &whole[i]) || key->shape[i] == 0 ||
            whole[i] % key->shape[i] != 0 || !zf_mul(elems, whole[i] / key->shape[i], &elems)) {
            return zf_fail(
                err, ZF_E_FORMAT, ZF_OFF_NONE,
                "\"%.120s\": the shape in mcore_data is not divided evenly along dimension %u",
                key->name, i);
        }
    }
    if (elems != key->shape[n]) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.120s\": by mcore_data boxes have %llu elements, but %llu are stored",
                       key->name, (unsigned long long)elems, (unsigned long long)key->shape[n]);
    }
    key->whole = whole;
    return true;
}

bool dcp_take_mcore(struct dcp_reading *r, const struct zf_pv *mcore, struct zf_err *err)
{
    struct zf_dcp *d = r->d;

    for (uint64_t i = 0; i < zf_pv_len(mcore); i++) {
        uint64_t n = 0;
        const char *name = zf_pv_text(zf_pv_key(mcore, i), &n);
        uint32_t key = name ? dcp_find_key(d, name, n) : ZF_DCP_NONE;

        if (key != ZF_DCP_NONE && !mcore_take_shape(d, &d->key.at[key], zf_pv_val(mcore, i), err)) {
            if (!dcp_forgive(r, err))
                return false;
            d->key.at[key].doubtful = true;
        }
    }
    return true;
}

void dcp_flat_box(uint32_t n, const uint64_t *grid, const uint64_t *whole, const uint64_t *start,
                  uint64_t *box, uint64_t *size)
{
    for (uint32_t d = 0; d < n; d++) {
        size[d] = whole[d] / grid[d]; /* no remainder: mcore_take_shape */
        box[d] = start[d] * size[d];
    }
}
