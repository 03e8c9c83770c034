/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/degraded.h>

bool zf_forgive(struct zf_build *b, struct zf_err *err)
{
    char text[800];
    struct zf_err trouble;

    if (!zf_build_degraded(b) || err->code == ZF_E_NOMEM || err->code == ZF_E_LIMIT) {
        return false;
    }
    zf_err_clear(&trouble);
    zf_err_text(err, text, sizeof text);
    if (!zf_build_note(b, &trouble, "%s", text)) {
        *err = trouble;
        return false;
    }
    zf_err_clear(err);
    return true;
}
