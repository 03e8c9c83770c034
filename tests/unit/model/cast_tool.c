/* SPDX-License-Identifier: Apache-2.0 */
/* cast_tool FROM TO KERNELS < in > out: casts up to 4 MiB, for comparison with other
 * implementations.  With "rows" for kernels: fails if the table of an 8-bit type is not in rows. */
#include <stdio.h>
#include <string.h>

#include "../../../src/model/cast_kernels.h"
#include "../../../src/model/cast_tiny.h"

#include <stdlib.h>

/* Bytes behind the output that a cast must leave alone. */
#define BEHIND 64

static bool type_of(const char *suffix, enum zf_dtype *out)
{
    for (*out = 0; *out < ZF_DT_COUNT; ++*out) {
        if (strcmp(zf_dtype_info(*out)->suffix, suffix) == 0) {
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    const struct cast_kernels *k;
    enum zf_dtype from, to;
    size_t n = 0, cap = 4u << 20;
    char behind[BEHIND];

    if (argc != 4 || !type_of(argv[1], &from) || !type_of(argv[2], &to) || !zf_can_cast(from, to)) {
        return 2;
    }
    if (strcmp(argv[3], "rows") == 0) {
        return cast_tiny_of(from, to)->in_rows ? 0 : 1;
    }
    k = strcmp(argv[3], "avx512") == 0   ? cast_kernels_avx512()
        : strcmp(argv[3], "avx2") == 0   ? cast_kernels_avx2()
        : strcmp(argv[3], "vector") == 0 ? cast_kernels_vector()
                                         : cast_kernels_scalar();
    if (!k) {
        return 77;
    }
    char *in = malloc(cap), *out = malloc(4 * cap + BEHIND);
    if (!in || !out) {
        return 2;
    }
    n = fread(in, 1, cap, stdin) / zf_dtype_info(from)->bytes;
    size_t bytes = n * zf_dtype_info(to)->bytes;
    memset(behind, 0x5a, sizeof behind);
    memcpy(out + bytes, behind, sizeof behind);
    cast_kernels_run(k, out, to, in, from, n);
    bool inside = memcmp(out + bytes, behind, sizeof behind) == 0,
         ok = fwrite(out, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
    free(in);
    free(out);
    return !inside ? 3 : ok ? 0 : 1;
}
