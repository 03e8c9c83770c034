/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/inspect/slice.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void zf_slice_all(struct zf_slice *out, uint32_t ndim, const uint64_t *shape)
{
    *out = (struct zf_slice){.ndim = ndim};
    for (uint32_t d = 0; d < ndim; d++)
        out->axis[d] = (struct zf_slice_axis){.step = 1, .n = shape[d]};
}

/* A parser of the notation; on an error, `at` is where something else was expected. */
struct slice_text {
    const char *whole, *at;
    struct zf_err *err;
};

static void slice_blanks(struct slice_text *s)
{
    s->at += strspn(s->at, " \t");
}

static bool slice_bad(const struct slice_text *s, const char *expected)
{
    return zf_fail(
        s->err, ZF_E_USAGE, ZF_OFF_NONE,
        "%s in \"%.80s\" at character %zu: an index has the form [3], [0:2, :6] or [..., ::2]",
        expected, s->whole, (size_t)(s->at - s->whole) + 1);
}

/* Parses an optional number of at most 18 digits, so that the sum of two fits. */
static bool slice_number(struct slice_text *s, bool *there, int64_t *out)
{
    slice_blanks(s);
    const char *digits = s->at + (*s->at == '-' || *s->at == '+');
    const size_t n = strspn(digits, "0123456789");

    *there = n > 0;
    if (n > 18)
        return slice_bad(s, "a number is too large");
    if (n > 0) {
        *out = strtoll(s->at, NULL, 10);
        s->at = digits + n;
        slice_blanks(s);
    } else if (digits != s->at) {
        return slice_bad(s, "a digit is missing");
    }
    return true;
}

/* A bound clamped to low .. high, as in Python's slice.indices(). */
static int64_t slice_cut(int64_t v, int64_t size, int64_t low, int64_t high)
{
    v += v < 0 ? size : 0;
    return v < low ? low : v > high ? high : v;
}

/* Parses start:stop:step, after its first number. */
static bool slice_range(struct slice_text *s, bool has_start, int64_t start, int64_t size,
                        struct zf_slice_axis *out)
{
    bool has_stop, has_step = false;
    int64_t stop = 0, step = 1;

    s->at++;
    if (!slice_number(s, &has_stop, &stop))
        return false;
    if (*s->at == ':') {
        s->at++;
        if (!slice_number(s, &has_step, &step))
            return false;
    }
    step = has_step ? step : 1;
    if (step == 0)
        return slice_bad(s, "a step is 0");
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    start = has_start ? slice_cut(start, size, low, high) : step < 0 ? high : low;
    stop = has_stop ? slice_cut(stop, size, low, high) : step < 0 ? low : high;
    const int64_t span = step < 0 ? start - stop : stop - start, by = step < 0 ? -step : step;
    *out = (struct zf_slice_axis){.first = span > 0 ? (uint64_t)start : 0,
                                  .step = step,
                                  .n = span > 0 ? (uint64_t)((span - 1) / by + 1) : 0};
    return true;
}

/* Parses the notation for one axis with `size` elements. */
static bool slice_axis(struct slice_text *s, uint32_t d, uint64_t size, struct zf_slice_axis *out)
{
    bool there;
    int64_t v = 0;

    if (size > INT64_MAX / 2)
        return zf_fail(s->err, ZF_E_USAGE, ZF_OFF_NONE, "an axis has %" PRIu64 " elements", size);
    if (!slice_number(s, &there, &v))
        return false;
    if (*s->at == ':')
        return slice_range(s, there, v, (int64_t)size, out);
    if (!there)
        return slice_bad(s, "a number or \":\" is missing");
    if (v >= (int64_t)size || v < -(int64_t)size) {
        return zf_fail(s->err, ZF_E_USAGE, ZF_OFF_NONE,
                       "index %" PRId64 " is out of range: axis %" PRIu32 " has %" PRIu64
                       " elements",
                       v, d, size);
    }
    *out = (struct zf_slice_axis){
        .first = (uint64_t)(v < 0 ? v + (int64_t)size : v), .step = 1, .n = 1, .single = true};
    return true;
}

/* The number of axes in the rest of the text, from p on. */
static uint32_t slice_count(const char *p)
{
    uint32_t n = 0;

    p += strspn(p, " \t,");
    while (*p && *p != ']') {
        n++;
        p += strcspn(p, ",]");
        p += strspn(p, " \t,");
    }
    return n;
}

/* Parses "...": it stands for all axes except those written after it. */
static bool slice_dots(struct slice_text *s, struct zf_slice *out, uint32_t *d)
{
    s->at += 3;
    slice_blanks(s);
    if (strstr(s->at, "..."))
        return slice_bad(s, "\"...\" stands twice");
    const uint32_t behind = slice_count(s->at);
    if (behind > out->ndim - *d) {
        return zf_fail(s->err, ZF_E_USAGE, ZF_OFF_NONE,
                       "%.80s has more axes than the tensor, which has %" PRIu32, s->whole,
                       out->ndim);
    }
    *d = out->ndim - behind;
    return true;
}

bool zf_slice_parse(struct zf_slice *out, const char *text, uint32_t ndim, const uint64_t *shape,
                    struct zf_err *err)
{
    struct slice_text s = {.whole = text, .at = text + 1, .err = err};

    zf_slice_all(out, ndim, shape);
    slice_blanks(&s);
    for (uint32_t d = 0; *s.at != ']';) {
        bool ok = true;

        if (strncmp(s.at, "...", 3) == 0) {
            ok = slice_dots(&s, out, &d);
        } else if (d == ndim) {
            return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                           "%.80s has more axes than the tensor, which has %" PRIu32, text, ndim);
        } else {
            ok = slice_axis(&s, d, shape[d], &out->axis[d]);
            d++;
        }
        if (!ok)
            return false;
        if (*s.at == ',') {
            s.at++;
            slice_blanks(&s);
        } else if (*s.at != ']') {
            return slice_bad(&s, "\",\" or \"]\" is missing");
        }
    }
    return s.at[1] == '\0' ? true : slice_bad(&s, "text stands behind \"]\"");
}
