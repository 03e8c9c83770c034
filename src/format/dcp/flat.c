/* SPDX-License-Identifier: Apache-2.0 */
#include "flat.h"

#include <zf/base/num.h>

#define DIMS 64

bool zf_dcp_flat_put(const struct zf_dcp_key *key, struct zf_draft *draft, const uint64_t *start,
                     const uint64_t *size, struct zf_from from, const struct zf_lost *lost,
                     struct zf_err *err)
{
    uint32_t n = key->ndim - 1, elem = zf_dtype_info(key->dtype)->bytes;
    uint64_t local[DIMS], packed[DIMS], at[DIMS], extent[DIMS];
    uint64_t first = start[n], end = start[n] + size[n]; /* inside the stored shape: checked */

    for (uint32_t d = 0; d < n; d++) {
        local[d] = key->whole[d] / key->shape[d];
        if (size[d] != 1) {
            return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                           "\"%.120s\": a chunk of a flattened tensor spans %llu boxes", key->name,
                           (unsigned long long)size[d]);
        }
    }
    zf_packed_strides(n, local, packed);
    while (first < end) {
        uint64_t rest = first, count;
        uint32_t cut = 0;
        bool ok;

        while (first % packed[cut] || end - first < packed[cut]) {
            cut++; /* ends: the last stride is 1 */
        }
        for (uint32_t d = 0; d < n; d++) {
            at[d] = rest / packed[d];
            rest %= packed[d];
            extent[d] = d < cut ? 1 : local[d];
        }
        count = (end - first) / packed[cut];
        extent[cut] = count < local[cut] - at[cut] ? count : local[cut] - at[cut];
        for (uint32_t d = 0; d < n; d++) {
            at[d] += start[d] * local[d];
        }
        ok = lost ? zf_draft_lost_box(draft, at, extent, lost, err)
                  : zf_draft_box(draft, at, extent, from, err);
        if (!ok) {
            return false;
        }
        count = extent[cut] * packed[cut];
        first += count;
        from.off += count * elem;
    }
    return true;
}
