/* SPDX-License-Identifier: Apache-2.0 */
/* Casts with eight elements a vector. */
#include "cast_kernels.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define LANES 8
#define WIDE __attribute__((target("avx2,f16c,fma")))
#define BYTES_TO_16(in) ((halves)_mm_cvtepu8_epi16(_mm_loadl_epi64((const void *)(in))))
#define TO_32(h) ((words)_mm256_cvtepu16_epi32((__m128i)(h)))
#define F16_TO_F32(h) ((words)_mm256_cvtph_ps((__m128i)(h)))
#define F32_TO_F16(u) ((halves)_mm256_cvtps_ph((__m256)(u), _MM_FROUND_TO_NEAREST_INT))
/* Packing works on the two halves of the vectors: the permutation puts the quarters in order. */
#define UPPER(a, b)                                                                                \
    ((pair)_mm256_permute4x64_epi64(                                                               \
        _mm256_packus_epi32((__m256i)((a) >> 16), (__m256i)((b) >> 16)), 0xd8))
#define CHOOSE(mask, yes, no)                                                                      \
    ((words)_mm256_blendv_epi8((__m256i)(no), (__m256i)(yes), (__m256i)(mask)))
#define LEAVE() _mm256_zeroupper()
#include "cast_lanes.h"

/* Uses cpuid, because not every compiler's __builtin_cpu_supports knows "f16c".  The builtin for AVX2
 * is true only if the operating system saves the wide registers, so it is checked, too. */
static bool cast_avx2_has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;

    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

cast_kernel *cast_kernel_avx2(void)
{
    /* cpuid costs microseconds in a virtual machine, more than most casts. */
    static _Atomic int known; /* 0 = not asked yet, 1 = no, 2 = yes */
    int is = known;

    if (is == 0) {
        is = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cast_avx2_has_f16c()
                 ? 2
                 : 1;
        known = is;
    }
    return is == 2 ? cast_lanes : NULL;
}

#else

cast_kernel *cast_kernel_avx2(void)
{
    return NULL;
}

#endif
