/* SPDX-License-Identifier: Apache-2.0 */
#include "state.h"

bool zf_state_add(struct zf_build *b, const struct zf_place_file *f, const char *stem,
                  const struct zf_limits *lim, struct zf_err *err)
{
    (void)b;
    (void)f;
    (void)stem;
    (void)lim;
    (void)err;
    return true;
}
