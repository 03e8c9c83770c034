/* SPDX-License-Identifier: Apache-2.0 */
/* After every step a trainer with fp32 master weights copies them into the model, rounding to nearest
 * even, so in an intact save both agree bit for bit, and a comparison can prove names.  A small save
 * is compared completely.  In a larger one each parameter is compared at both ends and at positions
 * spread evenly between them, fewer the more parameters there are. */
#include <zf/assemble/values.h>

#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>
#include <zf/model/cast.h>
#include <zf/model/value.h>

#define ROUND_CHUNK 1024u       /* elements read at once */
#define SAMPLE_WHOLE (4u << 20) /* a save of up to this many elements is compared completely */
#define SAMPLE_PLACES 2048u     /* approximate number of positions compared in a larger save */
#define SAMPLE_PARAMS 16384u    /* approximate upper bound of the parameters compared in it */
#define SAMPLE_RUN 32u          /* elements compared at a position */
#define SAMPLE_MOST 32u         /* positions per parameter; ROUND_CHUNK elements */

#define COPY_WHOLE (1u << 20)  /* a tensor of up to this many bytes is compared completely */
#define COPY_PLACE (64u << 10) /* bytes compared at each position of a larger one */
#define COPY_ALL (256u << 20)  /* comparing ends after this many bytes in all */

struct zf_sample zf_sample_of(uint64_t elements, uint64_t params)
{
    struct zf_sample s = {.places = 1, .every = 1};

    if (elements > SAMPLE_WHOLE) {
        uint64_t share = SAMPLE_PLACES / (params + 1);

        s.places = share > SAMPLE_MOST ? SAMPLE_MOST : share > 3 ? (uint32_t)share : 3;
        s.every = (uint32_t)(params / SAMPLE_PARAMS % UINT32_MAX) + 1;
    }
    return s;
}

bool zf_sample_span(const struct zf_sample *s, uint64_t n, uint32_t k, struct zf_span *out)
{
    if (s->places == 1 || n <= (uint64_t)s->places * SAMPLE_RUN) {
        *out = (struct zf_span){.first = 0, .n = n};
        return n > 0 && k == 0;
    }
    *out = (struct zf_span){.first = (n - SAMPLE_RUN) / (s->places - 1) * k, .n = SAMPLE_RUN};
    if (k == s->places - 1)
        out->first = n - SAMPLE_RUN;
    return k < s->places;
}

bool zf_values_can_round(enum zf_dtype master, enum zf_dtype weight)
{
    bool to = weight == ZF_DT_F32 || weight == ZF_DT_F16 || weight == ZF_DT_BF16;

    return zf_dtype_info(master)->bytes <= 8 &&
           (master == weight || (to && zf_can_cast(master, weight)));
}

/* 0: it is no number. */
static double values_double(const uint8_t *p, enum zf_dtype dtype)
{
    return zf_value_is_number(dtype) ? zf_value_double(dtype, p) : 0;
}

/* Are both elements equal?  Any two NaNs are: rounding may change the bits of a NaN. */
static bool values_same(const uint8_t *a, const uint8_t *b, enum zf_dtype dtype)
{
    double x, y;

    if (memcmp(a, b, zf_dtype_info(dtype)->bytes) == 0)
        return true;
    x = values_double(a, dtype);
    y = values_double(b, dtype);
    return x != x && y != y;
}

void zf_values_compare(const void *master, enum zf_dtype from, const void *weight, enum zf_dtype to,
                       size_t n, struct zf_mismatch *out)
{
    size_t mb = zf_dtype_info(from)->bytes, wb = zf_dtype_info(to)->bytes;
    uint8_t rounded[8 * ROUND_CHUNK];

    out->found = false;
    for (size_t done = 0, some; done < n && !out->found; done += some) {
        const uint8_t *full = (const uint8_t *)master + done * mb, *want = full;
        const uint8_t *have = (const uint8_t *)weight + done * wb;

        some = n - done < ROUND_CHUNK ? n - done : ROUND_CHUNK;
        if (from != to) {
            zf_cast(rounded, to, full, from, some);
            want = rounded;
        }
        if (memcmp(have, want, some * wb) == 0)
            continue;
        for (size_t i = 0; i < some && !out->found; i++) {
            if (!values_same(have + i * wb, want + i * wb, to)) {
                *out = (struct zf_mismatch){.found = true,
                                            .at = done + i,
                                            .master = values_double(full + i * mb, from),
                                            .weight = values_double(have + i * wb, to)};
            }
        }
    }
}

bool zf_values_round(struct zf_values master, struct zf_values weight, uint64_t n,
                     struct zf_mismatch *out, struct zf_err *err)
{
    size_t mb = zf_dtype_info(master.dtype)->bytes, wb = zf_dtype_info(weight.dtype)->bytes;
    uint8_t full[8 * ROUND_CHUNK], have[8 * ROUND_CHUNK];

    out->found = false;
    for (uint64_t done = 0; done < n && !out->found;) {
        size_t some = n - done < ROUND_CHUNK ? (size_t)(n - done) : ROUND_CHUNK;

        if (!zf_source_pread(master.src, full, some * mb, master.off + done * mb, err) ||
            !zf_source_pread(weight.src, have, some * wb, weight.off + done * wb, err))
            return false;
        zf_values_compare(full, master.dtype, have, weight.dtype, some, out);
        out->at += out->found ? done : 0;
        done += some;
    }
    return true;
}

/* Reads all positions of a sample in one call. */
static bool values_read_places(struct zf_values v, void *buf, uint64_t step, uint32_t places,
                               struct zf_err *err)
{
    size_t each = zf_dtype_info(v.dtype)->bytes, run = SAMPLE_RUN * each;

    return zf_source_read_rows(
        v.src,
        &(struct zf_rows){
            .buf = buf, .n = run, .pitch = run, .off = v.off, .step = step * each, .count = places},
        err);
}

bool zf_values_round_at(struct zf_values master, struct zf_values weight, uint64_t n,
                        const struct zf_sample *s, struct zf_mismatch *out, struct zf_err *err)
{
    uint8_t full[8 * ROUND_CHUNK], have[8 * ROUND_CHUNK];
    uint32_t places = s->places < SAMPLE_MOST ? s->places : SAMPLE_MOST;

    if (places == 1 || n <= (uint64_t)places * SAMPLE_RUN)
        return zf_values_round(master, weight, n, out, err);
    uint64_t step = (n - SAMPLE_RUN) / (places - 1);

    if (!values_read_places(master, full, step, places, err) ||
        !values_read_places(weight, have, step, places, err))
        return false;
    zf_values_compare(full, master.dtype, have, weight.dtype, (size_t)places * SAMPLE_RUN, out);
    out->at = out->found ? out->at / SAMPLE_RUN * step + out->at % SAMPLE_RUN : 0;
    return true;
}

bool zf_values_round_each(struct zf_values master, struct zf_values weight, uint64_t n,
                          const struct zf_sample *s, struct zf_mismatch *out, struct zf_err *err)
{
    uint64_t mb = zf_dtype_info(master.dtype)->bytes, wb = zf_dtype_info(weight.dtype)->bytes;
    struct zf_span span;

    out->found = false;
    for (uint32_t k = 0; !out->found && zf_sample_span(s, n, k, &span); k++) {
        struct zf_values from = {master.src, master.off + span.first * mb, master.dtype};
        struct zf_values to = {weight.src, weight.off + span.first * wb, weight.dtype};

        if (!zf_values_round(from, to, span.n, out, err))
            return false;
        if (out->found)
            out->at += span.first;
    }
    return true;
}

/* Compares elements [at.first, at.first + at.n), relative to both starts. */
static bool values_round_stretch(struct zf_draft_at master, struct zf_draft_at weight,
                                 struct zf_span at, struct zf_mismatch *out, struct zf_err *err)
{
    enum zf_dtype from = zf_draft_type(master.of).dtype, to = zf_draft_type(weight.of).dtype;
    uint8_t full[8 * ROUND_CHUNK], have[8 * ROUND_CHUNK];

    out->found = false;
    for (uint64_t done = 0; done < at.n && !out->found;) {
        size_t some = at.n - done < ROUND_CHUNK ? (size_t)(at.n - done) : ROUND_CHUNK;
        uint64_t first = at.first + done;

        if (!zf_draft_read(master.of, master.first + first, some, full, err) ||
            !zf_draft_read(weight.of, weight.first + first, some, have, err))
            return false;
        zf_values_compare(full, from, have, to, some, out);
        out->at += out->found ? first : 0;
        done += some;
    }
    return true;
}

bool zf_drafts_round_at(struct zf_draft_at master, struct zf_draft_at weight, uint64_t n,
                        uint64_t ends, struct zf_mismatch *out, struct zf_err *err)
{
    *out = (struct zf_mismatch){.found = true};
    if (!zf_values_can_round(zf_draft_type(master.of).dtype, zf_draft_type(weight.of).dtype))
        return true;
    if (ends == 0 || n <= 2 * ends)
        return values_round_stretch(master, weight, (struct zf_span){0, n}, out, err);
    return values_round_stretch(master, weight, (struct zf_span){0, ends}, out, err) &&
           (out->found ||
            values_round_stretch(master, weight, (struct zf_span){n - ends, ends}, out, err));
}

bool zf_drafts_round(struct zf_draft *master, struct zf_draft *weight, uint64_t ends,
                     struct zf_mismatch *out, struct zf_err *err)
{
    struct zf_type full = zf_draft_type(master), type = zf_draft_type(weight);
    uint64_t n = 0;

    full.dtype = type.dtype;
    *out = (struct zf_mismatch){.found = true};
    return !zf_elems(type.ndim, type.shape, &n) || !zf_type_equal(full, type) ||
           zf_drafts_round_at((struct zf_draft_at){master, 0}, (struct zf_draft_at){weight, 0}, n,
                              ends, out, err);
}

/* ---- copies ---- */

void zf_copy_check_fini(struct zf_copy_check *c)
{
    for (size_t i = 0; i < c->left.n; i++) {
        zf_source_unref(&c->left.at[i].src[0]);
        zf_source_unref(&c->left.at[i].src[1]);
    }
    zf_vec_fini(&c->left);
    free(c->buf);
    c->buf = NULL;
}

/* The number of bytes in the storage from the first to the last element of r. */
static bool values_extent(const struct zf_tensor_ref *r, uint64_t *out)
{
    uint64_t last = 0;

    for (uint32_t d = 0; d < r->ndim && r->n > 0; d++)
        if (!zf_mul_add(r->shape[d] - 1, r->stride[d], last, &last))
            return false;
    return zf_mul(r->n ? last + 1 : 0, zf_dtype_info(r->dtype)->bytes, out);
}

static bool values_same_bytes(struct zf_copy_check *c, const struct zf_tensor_ref *a,
                              const struct zf_tensor_ref *b, struct zf_span at, bool *same,
                              struct zf_err *err)
{
    if (c->compared >= COPY_ALL) {
        c->unchecked++;
        return true;
    }
    if (!c->buf && !(c->buf = malloc(2 * (size_t)COPY_WHOLE)))
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for comparing tensors");
    c->compared += 2 * at.n;
    if (!zf_source_pread(a->src, c->buf, at.n, a->off + at.first, err) ||
        !zf_source_pread(b->src, c->buf + COPY_WHOLE, at.n, b->off + at.first, err))
        return false;
    *same = memcmp(c->buf, c->buf + COPY_WHOLE, at.n) == 0;
    return true;
}

/* Leaves the comparison of len bytes to verify, which reads everything. */
static bool values_leave(struct zf_copy_check *c, const struct zf_tensor_ref *a,
                         const struct zf_tensor_ref *b, uint64_t len, struct zf_err *err)
{
    struct zf_copy *to = zf_vec_push(&c->left, err);

    if (to) {
        *to = (struct zf_copy){.src = {zf_source_ref(a->src), zf_source_ref(b->src)},
                               .off = {a->off, b->off},
                               .n = len};
    }
    return to != NULL;
}

bool zf_copy_check_equal(struct zf_copy_check *c, const struct zf_tensor_ref *a,
                         const struct zf_tensor_ref *b, bool *same, struct zf_err *err)
{
    uint64_t len;

    *same = a->dtype == b->dtype && zf_shape_equal(a->ndim, a->shape, b->ndim, b->shape) &&
            memcmp(a->stride, b->stride, a->ndim * sizeof *a->stride) == 0 &&
            values_extent(a, &len);
    if (!*same || len == 0)
        return true;
    const bool left = len > COPY_WHOLE || c->compared >= COPY_ALL;
    if (left && !values_leave(c, a, b, len, err))
        return false;
    if (len <= COPY_WHOLE) {
        return values_same_bytes(c, a, b, (struct zf_span){0, len}, same, err) &&
               (!*same || !c->all || left || values_leave(c, a, b, len, err));
    }
    if (c->compared >= COPY_ALL) {
        c->unchecked++;
        return true;
    }
    c->sampled++;
    const uint64_t at[] = {0, len / 2, len - COPY_PLACE};
    for (size_t i = 0; i < sizeof at / sizeof at[0] && *same; i++)
        if (!values_same_bytes(c, a, b, (struct zf_span){at[i], COPY_PLACE}, same, err))
            return false;
    return true;
}

bool zf_copy_check_note(const struct zf_copy_check *c, struct zf_build *b, struct zf_err *err)
{
    for (size_t i = 0; i < c->left.n; i++)
        if (!zf_build_copy(b, &c->left.at[i], err))
            return false;
    return (c->sampled == 0 ||
            zf_build_note_on(
                b, ZF_NOTE_UNCOMPARED, NULL, err,
                "%llu replicas of tensors are longer than 1 MiB: only their beginning, "
                "middle and end were compared (zerofs verify compares all)",
                (unsigned long long)c->sampled)) &&
           (c->unchecked == 0 ||
            zf_build_note_on(b, ZF_NOTE_UNCOMPARED, NULL, err,
                             "%llu replicas of tensors were not compared: only the first 256 MiB "
                             "are (zerofs verify compares all)",
                             (unsigned long long)c->unchecked));
}
