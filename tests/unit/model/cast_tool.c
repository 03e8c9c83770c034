/* SPDX-License-Identifier: Apache-2.0 */
/* cast_tool FROM TO KERNELS < in > out: casts up to 4 MiB, for comparison with other
 * implementations.  Exit 3: it wrote behind the output; 4: it left the upper parts of the vector
 * registers in use; 77: this CPU has no such kernels. */
#include <stdio.h>
#include <string.h>

#include "../../../src/model/cast_kernels.h"

#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Bytes behind the output that a cast must leave alone. */
#define BEHIND 64

static bool type_of(const char *suffix, enum zf_dtype *out)
{
    for (*out = 0; *out < ZF_DT_COUNT; ++*out)
        if (strcmp(zf_dtype_info(*out)->suffix, suffix) == 0)
            return true;
    return false;
}

/* Whether the upper parts of the vector registers hold something, which slows down the SSE code that
 * runs next (XINUSE: Intel's manual, volume 1, 13.6).  False where the CPU does not tell. */
static bool wide_in_use(void)
{
#if defined(__x86_64__)
    unsigned eax, ebx, ecx, edx;

    if (__get_cpuid_count(1, 0, &eax, &ebx, &ecx, &edx) && (ecx & bit_OSXSAVE) &&
        __get_cpuid_count(0xd, 1, &eax, &ebx, &ecx, &edx) && (eax & 4)) {
        __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(1));
        return eax & (1u << 2 | 1u << 6); /* AVX, ZMM_Hi256 */
    }
#endif
    return false;
}

int main(int argc, char **argv)
{
    cast_kernel *k;
    enum zf_dtype from, to;
    size_t n = 0, cap = 4u << 20;
    char behind[BEHIND];

    if (argc != 4 || !type_of(argv[1], &from) || !type_of(argv[2], &to) || from == to ||
        !zf_can_cast(from, to))
        return 2;
    k = strcmp(argv[3], "avx512") == 0 ? cast_kernel_avx512()
        : strcmp(argv[3], "avx2") == 0 ? cast_kernel_avx2()
                                       : cast_kernel_vector();
    if (!k)
        return 77;
    char *in = malloc(cap), *out = malloc(4 * cap + BEHIND);
    if (!in || !out)
        return 2;
    n = fread(in, 1, cap, stdin) / zf_dtype_info(from)->bytes;
    size_t bytes = n * zf_dtype_info(to)->bytes;
    memset(behind, 0x5a, sizeof behind);
    memcpy(out + bytes, behind, sizeof behind);
    k(out, to, in, from, n);
    bool left = !wide_in_use();
    bool inside = memcmp(out + bytes, behind, sizeof behind) == 0,
         ok = fwrite(out, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
    free(in);
    free(out);
    return !inside ? 3 : !left ? 4 : ok ? 0 : 1;
}
