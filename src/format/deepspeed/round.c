/* SPDX-License-Identifier: Apache-2.0 */
/* Whether weights are what masters round to.  After every step DeepSpeed copies the masters into
 * the model, rounding to nearest even, so in a sound save the two agree bit for bit, and names can be
 * proved by comparing.  A small save is compared wholly.  Of a larger one each parameter is
 * compared at both ends and at places spread evenly between them, fewer the more parameters
 * there are, so that mounting reads a bounded number of bytes. */
#include <string.h>

#include <zf/model/cast.h>

#include "ds.h"

#define ROUND_CHUNK 1024u      /* elements read at once */
#define ROUND_WHOLE (4u << 20) /* elements of a save that is compared wholly */
#define ROUND_PLACES 2048u     /* places that are compared in a larger one, about */
#define ROUND_PARAMS 16384u    /* parameters of it that are looked at, at most about */
#define ROUND_RUN 32u          /* elements that are compared at a place */

struct zf_ds_sample zf_ds_round_sample(uint64_t elements, uint64_t params)
{
    struct zf_ds_sample s = {.places = 1, .every = 1};

    if (elements > ROUND_WHOLE) {
        uint64_t share = ROUND_PLACES / (params + 1);

        s.places = share > 32 ? 32 : share > 3 ? (uint32_t)share : 3;
        s.every = (uint32_t)(params / ROUND_PARAMS % UINT32_MAX) + 1;
    }
    return s;
}

bool zf_ds_round_span(const struct zf_ds_sample *s, uint64_t n, uint32_t k, uint64_t span[2])
{
    bool whole = s->places == 1 || n <= (uint64_t)s->places * ROUND_RUN;

    span[0] = whole ? 0 : (n - ROUND_RUN) / (s->places - 1) * k;
    span[1] = whole ? n : ROUND_RUN;
    if (!whole && k == s->places - 1) {
        span[0] = n - ROUND_RUN;
    }
    return n > 0 && k < (whole ? 1 : s->places);
}

bool zf_ds_round_can(enum zf_dtype master, enum zf_dtype weight)
{
    bool to = weight == ZF_DT_F32 || weight == ZF_DT_F16 || weight == ZF_DT_BF16;

    return zf_dtype_info(master)->bytes <= 8 &&
           (master == weight || (to && zf_can_cast(master, weight)));
}

static double value_of(const uint8_t *p, enum zf_dtype dtype)
{
    double d = 0;
    float f = 0;

    if (dtype == ZF_DT_F64) {
        memcpy(&d, p, sizeof d);
    } else if (zf_can_cast(dtype, ZF_DT_F32)) {
        zf_cast(&f, ZF_DT_F32, p, dtype, 1);
        d = f;
    }
    return d;
}

/* A NaN of the master may have any of its patterns in the weight. */
static bool same_value(const uint8_t *a, const uint8_t *b, enum zf_dtype dtype)
{
    double x, y;

    if (memcmp(a, b, zf_dtype_info(dtype)->bytes) == 0) {
        return true;
    }
    x = value_of(a, dtype);
    y = value_of(b, dtype);
    return x != x && y != y;
}

static bool compare_chunk(const struct zf_ds_run *master, const struct zf_ds_run *weight, size_t n,
                          struct zf_ds_miss *miss, struct zf_err *err)
{
    size_t mb = zf_dtype_info(master->dtype)->bytes, wb = zf_dtype_info(weight->dtype)->bytes;
    uint8_t have[8 * ROUND_CHUNK], full[8 * ROUND_CHUNK], rounded[8 * ROUND_CHUNK];
    const uint8_t *want = rounded;

    if (!zf_source_pread(master->src, full, n * mb, master->off, err) ||
        !zf_source_pread(weight->src, have, n * wb, weight->off, err)) {
        return false;
    }
    if (master->dtype == weight->dtype) {
        want = full;
    } else {
        zf_cast(rounded, weight->dtype, full, master->dtype, n);
    }
    if (memcmp(have, want, n * wb) == 0) {
        return true;
    }
    for (size_t i = 0; i < n && !miss->found; i++) {
        if (!same_value(have + i * wb, want + i * wb, weight->dtype)) {
            *miss = (struct zf_ds_miss){.found = true,
                                        .at = i,
                                        .master = value_of(full + i * mb, master->dtype),
                                        .weight = value_of(have + i * wb, weight->dtype)};
        }
    }
    return true;
}

bool zf_ds_round_compare(struct zf_ds_run master, struct zf_ds_run weight, uint64_t n,
                         struct zf_ds_miss *miss, struct zf_err *err)
{
    uint64_t done = 0;

    for (miss->found = false; done < n && !miss->found;) {
        size_t some = n - done < ROUND_CHUNK ? (size_t)(n - done) : ROUND_CHUNK;

        if (!compare_chunk(&master, &weight, some, miss, err)) {
            return false;
        }
        miss->at += miss->found ? done : 0;
        master.off += some * zf_dtype_info(master.dtype)->bytes;
        weight.off += some * zf_dtype_info(weight.dtype)->bytes;
        done += some;
    }
    return true;
}
