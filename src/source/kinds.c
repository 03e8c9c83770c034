/* SPDX-License-Identifier: Apache-2.0 */
#include "kinds.h"

const struct zf_source_kind *const zf_source_kinds[] = {
    &kind_window, &kind_mem, &kind_swap, &kind_inflate, &kind_zstd, NULL,
};

bool kind_has_parent(const struct zf_remake *r, struct zf_err *err)
{
    return r->parent || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a source without a parent");
}
