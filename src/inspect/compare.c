/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/inspect/compare.h>

#include <math.h>
#include <string.h>

#include <zf/model/value.h>

/* Elements whose bytes are compared at once, before single elements are. */
#define BLOCK 512u

static bool compare_close(double a, double b, double apart, const struct zf_comparison *within)
{
    return a == b || (isnan(a) && isnan(b)) ||
           (isfinite(apart) && apart <= within->atol + within->rtol * fabs(b));
}

/* |a - b| of two integer elements, which a double may not represent exactly. */
static double compare_ints(enum zf_dtype t, const uint8_t *a, const uint8_t *b)
{
    const int64_t x = zf_value_int(t, a), y = zf_value_int(t, b);
    const bool less = zf_value_is_unsigned(t) ? (uint64_t)x < (uint64_t)y : x < y;

    return (double)(less ? (uint64_t)y - (uint64_t)x : (uint64_t)x - (uint64_t)y);
}

/* How two numbers of type t with different bits compare: `most` is their distance, NAN if it is undefined. */
struct compared {
    bool close, nan;
    double most;
};

static struct compared compare_halves(enum zf_dtype t, const uint8_t *a, const uint8_t *b,
                                      const struct zf_comparison *within)
{
    const double x = zf_value_double(t, a), y = zf_value_double(t, b);
    const double apart = zf_value_is_int(t) ? compare_ints(t, a, b) : fabs(x - y);

    return (struct compared){
        .close = zf_value_is_int(t) ? apart == 0 || apart <= within->atol + within->rtol * fabs(y)
                                    : compare_close(x, y, apart, within),
        .nan = isnan(x) != isnan(y),
        .most = apart};
}

static struct compared compare_elements(enum zf_dtype t, const uint8_t *a, const uint8_t *b,
                                        const struct zf_comparison *within)
{
    const enum zf_dtype half = zf_value_half(t);

    if (zf_dtype_info(t)->kind == 'c') {
        const uint32_t n = zf_dtype_info(half)->bytes;
        const struct compared re = compare_halves(half, a, b, within),
                              im = compare_halves(half, a + n, b + n, within);

        return (struct compared){
            .close = re.close && im.close, .nan = re.nan || im.nan, .most = fmax(re.most, im.most)};
    }
    return zf_value_is_number(t) ? compare_halves(t, a, b, within) : (struct compared){.most = NAN};
}

static void compare_add(struct zf_difference *d, const struct compared *c, const uint8_t *a,
                        const uint8_t *b, uint32_t each, uint64_t at)
{
    d->differ += !c->close;
    d->bits += c->close;
    d->nans += !c->close && c->nan;
    if (!c->close && !isnan(c->most) && (!d->far || c->most > d->most)) {
        d->far = true;
        d->at = at;
        d->most = c->most;
        memcpy(d->a, a, each);
        memcpy(d->b, b, each);
    }
}

void zf_difference_of(struct zf_difference *out, const struct zf_comparison *how, const void *a,
                      const void *b, size_t n, uint64_t at)
{
    const uint32_t each = zf_dtype_info(how->dtype)->bytes;
    const uint8_t *x = a, *y = b;

    *out = (struct zf_difference){0};
    for (size_t from = 0, end; from < n; from = end) {
        end = n - from < BLOCK ? n : from + BLOCK;
        if (memcmp(x + from * each, y + from * each, (end - from) * each) == 0)
            continue;
        for (size_t i = from; i < end; i++) {
            const uint8_t *p = x + i * each, *q = y + i * each;

            if (memcmp(p, q, each) != 0) {
                const struct compared c = compare_elements(how->dtype, p, q, how);

                compare_add(out, &c, p, q, each, at + i);
            }
        }
    }
}

void zf_difference_join(struct zf_difference *d, const struct zf_difference *next)
{
    if (next->far && (!d->far || next->most > d->most)) {
        d->far = true;
        d->at = next->at;
        d->most = next->most;
        memcpy(d->a, next->a, sizeof d->a);
        memcpy(d->b, next->b, sizeof d->b);
    }
    d->differ += next->differ;
    d->bits += next->bits;
    d->nans += next->nans;
}
