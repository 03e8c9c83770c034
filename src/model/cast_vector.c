/* SPDX-License-Identifier: Apache-2.0 */
/* Casts with four elements a vector, on any CPU. */
#include "cast_lanes.h"

cast_kernel *cast_kernel_vector(void)
{
    return cast_lanes;
}
