/* SPDX-License-Identifier: Apache-2.0 */
/* bench_cast: input bytes a second of each cast and of memcpy, in pieces of the size a read has. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <zf/base/auto.h>
#include <zf/model/cast.h>

#define INPUT (1u << 20)
#define TIMES 400

static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(void)
{
    static const struct {
        const char *name;
        enum zf_dtype from, to;
        size_t width;
    } row[] = {
        {"f32->bf16", ZF_DT_F32, ZF_DT_BF16, 4},
        {"f32->f16", ZF_DT_F32, ZF_DT_F16, 4},
        {"bf16->f32", ZF_DT_BF16, ZF_DT_F32, 2},
        {"f16->f32", ZF_DT_F16, ZF_DT_F32, 2},
    };
    zf_auto(mem) unsigned char *in = malloc(INPUT);
    zf_auto(mem) unsigned char *out = malloc(2 * INPUT);

    if (!in || !out) {
        return 1;
    }
    for (size_t i = 0; i < INPUT; i++) {
        in[i] = (unsigned char)(i * 37 % 251);
    }
    memset(out, 1, 2 * INPUT);
    double start = now();
    for (int i = 0; i < TIMES; i++) {
        memcpy(out, in, INPUT);
        __asm__ volatile("" ::: "memory");
    }
    printf("memcpy %.3f\n", (double)INPUT * TIMES / (now() - start) / 1e9);
    for (size_t r = 0; r < sizeof row / sizeof row[0]; r++) {
        start = now();
        for (int i = 0; i < TIMES; i++) {
            zf_cast(out, row[r].to, in, row[r].from, INPUT / row[r].width);
        }
        printf("%s %.3f\n", row[r].name, (double)INPUT * TIMES / (now() - start) / 1e9);
    }
    return 0;
}
