/* SPDX-License-Identifier: Apache-2.0 */
/* bench_cast [KERNELS]: gigabytes a second of each cast and of memcpy, in pieces of the size a read has; KERNELS: avx2, vector or
 * scalar instead of the best there are. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <zf/base/auto.h>
#include "../../src/model/cast_kernels.h"

#define INPUT (1u << 20)
#define BLOCK (128u << 10) /* stays in the second-level cache */
#define TIMES 400

static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct row {
    const char *name;
    enum zf_dtype from, to;
    size_t in, out; /* bytes of an element; in = 0 is memcpy */
    double best;
};

static void once(const struct cast_kernels *k, struct row *r, unsigned char *out, const unsigned char *in)
{
    double start = now();

    for (size_t i = 0; i < INPUT; i += BLOCK) {
        if (r->in == 0) {
            memcpy(out + i, in + i, BLOCK);
        } else {
            cast_kernels_run(k, out + i / r->in * r->out, r->to, in + i, r->from, BLOCK / r->in);
        }
        __asm__ volatile("" ::: "memory");
    }
    double took = now() - start;
    r->best = took < r->best ? took : r->best;
}

static const struct cast_kernels *kernels(const char *name)
{
    return !name                      ? cast_kernels_best()
           : !strcmp(name, "avx2")    ? cast_kernels_avx2()
           : !strcmp(name, "vector")  ? cast_kernels_vector()
           : !strcmp(name, "scalar")  ? cast_kernels_scalar()
                                      : NULL;
}

int main(int argc, char **argv)
{
    const struct cast_kernels *k = kernels(argc > 1 ? argv[1] : NULL);
    static struct row row[] = {
        {"memcpy", ZF_DT_F32, ZF_DT_F32, 0, 0, 1e9},    {"f32->bf16", ZF_DT_F32, ZF_DT_BF16, 4, 2, 1e9},
        {"f32->f16", ZF_DT_F32, ZF_DT_F16, 4, 2, 1e9},  {"bf16->f32", ZF_DT_BF16, ZF_DT_F32, 2, 4, 1e9},
        {"f16->f32", ZF_DT_F16, ZF_DT_F32, 2, 4, 1e9},  {"bf16->f16", ZF_DT_BF16, ZF_DT_F16, 2, 2, 1e9},
        {"f16->bf16", ZF_DT_F16, ZF_DT_BF16, 2, 2, 1e9}, {"f8_e4m3->f32", ZF_DT_F8_E4M3, ZF_DT_F32, 1, 4, 1e9},
        {"f8_e4m3->bf16", ZF_DT_F8_E4M3, ZF_DT_BF16, 1, 2, 1e9}, {"f8_e5m2->f16", ZF_DT_F8_E5M2, ZF_DT_F16, 1, 2, 1e9},
        {"f8_e8m0->f32", ZF_DT_F8_E8M0, ZF_DT_F32, 1, 4, 1e9},
    };
    zf_auto(mem) unsigned char *in = malloc(INPUT);
    zf_auto(mem) unsigned char *out = malloc(4 * INPUT);

    if (!k || !in || !out) {
        return 1;
    }
    for (size_t i = 0; i < INPUT; i++) {
        in[i] = (unsigned char)(i * 37 % 251);
    }
    memset(out, 1, 4 * INPUT);
    /* In turn, and of each the quickest: what else runs on the machine only adds. */
    for (int i = 0; i < TIMES; i++) {
        for (size_t r = 0; r < sizeof row / sizeof row[0]; r++) {
            once(k, &row[r], out, in);
        }
    }
    /* Name, input bytes a second, and bytes moved: those read and those written. */
    for (size_t r = 0; r < sizeof row / sizeof row[0]; r++) {
        double rate = INPUT / row[r].best / 1e9;
        double out_in = row[r].in ? (double)row[r].out / (double)row[r].in : 1;

        printf("%s %.3f %.3f\n", row[r].name, rate, rate * (1 + out_in));
    }
    return 0;
}
