/* SPDX-License-Identifier: Apache-2.0 */
/* bench_cast [KERNELS]: gigabytes a second of each cast and of memcpy, of so much as a request of 1
 * MiB is made of and once more in first- and second-level cache; KERNELS: avx2 or vector instead
 * of the best of this CPU. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <zf/base/auto.h>
#include "../../src/model/cast_kernels.h"

#define REPLY (1u << 20)
#define HOT                                                                                        \
    (64u                                                                                           \
     << 10) /* bytes read and written that stay in the second-level cache, also of the smallest */
#define TIMES 400
#define VALUES 65536

static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct row {
    const char *name;
    enum zf_dtype from, to;
    bool copy;         /* memcpy */
    double reply, hot; /* seconds a byte of the reply, of both the least */
    unsigned char *in; /* REPLY / bytes of `to` elements */
};

/* Seconds for `bytes` of the reply. */
static double once(cast_kernel *k, const struct row *r, unsigned char *out, size_t bytes)
{
    const size_t n = bytes / zf_dtype_info(r->to)->bytes;
    const double start = now();

    if (r->copy)
        memcpy(out, r->in, bytes);
    else
        k(out, r->to, r->in, r->from, n);
    __asm__ volatile("" ::: "memory");
    return now() - start;
}

static void measure(cast_kernel *k, struct row *r, unsigned char *out)
{
    const size_t in = zf_dtype_info(r->from)->bytes, to = zf_dtype_info(r->to)->bytes;
    const size_t hot = HOT * to / (in + to) / 256 * 256;
    const double reply = once(k, r, out, REPLY) / REPLY;

    r->reply = reply < r->reply ? reply : r->reply;
    for (int i = 0; i < 4; i++) {
        const double took = once(k, r, out, hot) / (double)hot;
        r->hot = took < r->hot ? took : r->hot;
    }
}

/* A value about as weights are distributed: the sum of four uniform ones, in [-4, 4]. */
static float weight(uint64_t *state)
{
    float sum = -4;

    for (int i = 0; i < 4; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        sum += (float)(*state >> 40) / (float)(1u << 23);
    }
    return sum;
}

/* Of all bytes the one whose value is nearest. */
static unsigned char nearest(const float *value, float x)
{
    unsigned best = 0;

    for (unsigned i = 1; i < 256; i++) {
        const float now = value[i] - x, least = value[best] - x;

        if ((now < 0 ? -now : now) < (least < 0 ? -least : least))
            best = i;
    }
    return (unsigned char)best;
}

/* Weights, those of 8 bits scaled as far as the type goes; a type with nothing but exponents: all
 * of them. */
static bool fill(struct row *r)
{
    const size_t size = zf_dtype_info(r->from)->bytes, n = REPLY / zf_dtype_info(r->to)->bytes;
    unsigned char all[256];
    float value[256], most = 0;
    uint64_t state = 1;

    r->in = malloc(n * size);
    for (unsigned i = 0; i < 256; i++)
        all[i] = (unsigned char)i;
    if (size == 1)
        zf_cast(value, ZF_DT_F32, all, r->from, 256);
    for (unsigned i = 0; size == 1 && i < 256; i++)
        most = value[i] > most && value[i] < 1e6f ? value[i] : most;
    for (size_t i = 0; r->in && i < n; i++) {
        const float w = weight(&state);

        if (i >= VALUES)
            memcpy(r->in + i * size, r->in + (i - VALUES) * size, size);
        else if (r->from == ZF_DT_F8_E8M0)
            r->in[i] = (unsigned char)(100 + i % 100);
        else if (size == 1)
            r->in[i] = nearest(value, w * most / 4);
        else
            zf_cast(r->in + i * size, r->from, &(float){w * 0.02f}, ZF_DT_F32, 1);
    }
    return r->in;
}

static cast_kernel *kernels(const char *name)
{
    return !name                     ? cast_kernel_best()
           : !strcmp(name, "avx2")   ? cast_kernel_avx2()
           : !strcmp(name, "vector") ? cast_kernel_vector()
                                     : NULL;
}

int main(int argc, char **argv)
{
    cast_kernel *k = kernels(argc > 1 ? argv[1] : NULL);
    static struct row row[] = {
        {"memcpy", ZF_DT_F32, ZF_DT_F32, true, 1, 1, NULL},
#define ROW(name, from, to) {name, ZF_DT_##from, ZF_DT_##to, false, 1, 1, NULL}
        ROW("f32->bf16", F32, BF16),
        ROW("f32->f16", F32, F16),
        ROW("bf16->f32", BF16, F32),
        ROW("f16->f32", F16, F32),
        ROW("bf16->f16", BF16, F16),
        ROW("f16->bf16", F16, BF16),
        ROW("f8_e4m3->f32", F8_E4M3, F32),
        ROW("f8_e4m3->bf16", F8_E4M3, BF16),
        ROW("f8_e5m2->f32", F8_E5M2, F32),
        ROW("f8_e5m2->f16", F8_E5M2, F16),
        ROW("f8_e4m3fnuz->bf16", F8_E4M3FNUZ, BF16),
        ROW("f8_e8m0->f32", F8_E8M0, F32),
#undef ROW
    };
    const size_t rows = sizeof row / sizeof row[0];
    zf_auto(mem) unsigned char *out = aligned_alloc(4096, REPLY);

    if (!k || !out)
        return 1;
    memset(out, 1, REPLY);
    for (size_t r = 0; r < rows; r++)
        if (!fill(&row[r]))
            return 1;
    /* In turn, and of each the quickest: what else runs on the machine only adds. */
    for (int i = 0; i < TIMES; i++)
        for (size_t r = 0; r < rows; r++)
            measure(k, &row[r], out);
    /* Name, bytes moved a second, those read and those written: of a request, and in cache. */
    for (size_t r = 0; r < rows; r++) {
        const double moved =
            1 + (double)zf_dtype_info(row[r].from)->bytes / zf_dtype_info(row[r].to)->bytes;

        printf("%s %.3f %.3f\n", row[r].name, moved / row[r].reply / 1e9, moved / row[r].hot / 1e9);
        free(row[r].in);
    }
    return 0;
}
