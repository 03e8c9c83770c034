/* SPDX-License-Identifier: Apache-2.0 */
/* Any pickle as universal_checkpoint_info: patterns are matched, and what the affine map lays is proved, which
 * asks for every box. */
#include <stdlib.h>

#include <zf/codec/pickle.h>

#include "src/format/deepspeed/tp_info.h"

#include "fuzz.h"

#define RANKS 2

static void affine_use(const struct tp_info *info)
{
    struct zf_err err;

    for (const struct tp_affine *e = info->affine; e; e = e->hh.next) {
        for (uint32_t r = 0; r < e->cut.n_ranks; r++) {
            const struct zf_cut_part *p = &e->cut.part[r];

            /* a box that was believed lies inside its shard */
            for (uint32_t k = 0; k < p->n; k++) {
                for (uint32_t d = 0; d < e->cut.ndim; d++)
                    if (p->box[k].in_shard[d] + p->box[k].size[d] > e->shard[r][d])
                        abort();
            }
        }
        (void)(e->cut.n_ranks > 0 && zf_cut_prove(&e->cut, &err));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    struct zf_bytes in = zf_bytes_of(data, size);
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 26, &err);
    const struct zf_pv *v = !a ? NULL : zf_pickle_load(&in, a, &lim, &err);
    struct ds_save ds = {.a = a};
    struct tp_info info = {0};

    if (v && tp_info_read(&ds, v, RANKS, &info, &err)) {
        static const char name[] = "model.layers.0.mlp.down_proj.weight";

        for (uint32_t i = 0; i < info.n_patterns; i++) {
            bool fits;

            (void)!zf_pattern_match(info.pattern[i].pattern, name, sizeof name - 1, NULL, &fits,
                                    &err);
        }
        if (!info.why[0])
            affine_use(&info);
    }
    tp_info_fini(&info);
    return 0;
}
