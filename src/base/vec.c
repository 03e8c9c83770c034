/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/vec.h>

#define FIRST 8u /* elements */

void *zf_vec_grow(void *at, size_t n, size_t more, size_t *cap, size_t each, struct zf_err *err)
{
    if (more <= *cap - n)
        return at;
    size_t want = *cap ? *cap : FIRST;
    while (want - n < more && want <= SIZE_MAX / 2)
        want *= 2;
    bool fits = want - n >= more && want <= SIZE_MAX / each;
    void *grown = fits ? realloc(at, want * each) : NULL;
    if (!grown) {
        return zf_null(
            zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a list of %zu things", want));
    }
    *cap = want;
    return grown;
}
