/* SPDX-License-Identifier: Apache-2.0 */
#include "cast_kernels.h"

#include <string.h>

bool zf_can_cast(enum zf_dtype from, enum zf_dtype to)
{
    return zf_dtype_info(from)->kind == 'f' &&
           (to == ZF_DT_F32 || to == ZF_DT_F16 || to == ZF_DT_BF16);
}

cast_kernel *cast_kernel_best(void)
{
    cast_kernel *k = cast_kernel_avx512();

    k = k ? k : cast_kernel_avx2();
    return k ? k : cast_kernel_vector();
}

void zf_cast(void *out, enum zf_dtype to, const void *in, enum zf_dtype from, size_t n)
{
    if (n == 0)
        return;
    if (from == to)
        memcpy(out, in, n * zf_dtype_info(from)->bytes);
    else
        cast_kernel_best()(out, to, in, from, n);
}
