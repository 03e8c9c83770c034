/* SPDX-License-Identifier: Apache-2.0 */
#include "grid.h"
bool zf_grid_make(const struct zf_grid_make *m, struct zf_fault *fault_out, struct zf_map **map_out,
                  struct zf_err *err)
{
    (void)m, (void)fault_out, (void)map_out;
    return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "boxes are not mapped yet");
}
bool zf_grid_mend(const struct zf_grid_make *m, struct zf_map **map_out, struct zf_err *err)
{
    (void)m, (void)map_out;
    return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "boxes are not mapped yet");
}
