/* SPDX-License-Identifier: Apache-2.0 */
/* That the parts of a tensor which rules take are all of it, and none twice. */
#ifndef RECIPE_PROVE_H
#define RECIPE_PROVE_H

#include <zf/model/map.h>

/* One part, by its elements. */
struct use {
    uint32_t tensor;
    uint32_t line; /* of the recipe: the rule */
    struct zf_strided part;
};

/* Do the parts of a tensor of `all` elements cover each of them once?
 * Errors: ZF_E_FORMAT some are in no part, some in two (*twice_out: the second of them), or the parts are cut so
 * differently that it cannot be told. */
bool prove_once(const struct use *use, uint32_t n, uint64_t all, uint64_t most, uint32_t *twice_out,
                struct zf_err *err) ZF_CHECKED;

#endif
