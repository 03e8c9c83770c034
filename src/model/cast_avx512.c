/* SPDX-License-Identifier: Apache-2.0 */
/* Casts with sixteen elements a vector.  AVX-512's own bfloat16 instruction is not used: it flushes
 * subnormals to zero. */
#include "cast_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

static const uint16_t cast_avx512_odd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                             23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                             45, 47, 49, 51, 53, 55, 57, 59, 61, 63};

#define LANES 16
#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl")))
#define BYTES_TO_16(in) ((halves)_mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(in))))
#define TO_32(h) ((words)_mm512_cvtepu16_epi32((__m256i)(h)))
#define F16_TO_F32(h) ((words)_mm512_cvtph_ps((__m256i)(h)))
#define F32_TO_F16(u) ((halves)_mm512_cvtps_ph((__m512)(u), _MM_FROUND_TO_NEAREST_INT))
#define UPPER(a, b)                                                                                \
    ((pair)_mm512_permutex2var_epi16((__m512i)(a), _mm512_loadu_si512(cast_avx512_odd),            \
                                     (__m512i)(b)))
#define LEAVE() _mm256_zeroupper()
#include "cast_lanes.h"

cast_kernel *cast_kernel_avx512(void)
{
    static _Atomic int known; /* as in cast_kernel_avx2 */
    int is = known;

    if (is == 0) {
        is = cast_kernel_avx2() && __builtin_cpu_supports("avx512f") &&
                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
                 ? 2
                 : 1;
        known = is;
    }
    return is == 2 ? cast_lanes : NULL;
}

#else

cast_kernel *cast_kernel_avx512(void)
{
    return NULL;
}

#endif
