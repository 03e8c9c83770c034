/* SPDX-License-Identifier: Apache-2.0 */
#include "save.h"

void legacy_save_fini(struct legacy_save *ls)
{
    for (size_t i = 0; i < ls->tensor.n; i++) {
        zf_vec_fini(&ls->tensor.at[i].state);
    }
    zf_vec_fini(&ls->part);
    zf_vec_fini(&ls->tensor);
    zf_vec_fini(&ls->stray);
    zf_vec_fini(&ls->flat);
    zf_torch_ahead_fini(&ls->ahead);
    zf_keeper_fini(&ls->keep);
    zf_agree_free(ls->said);
}
