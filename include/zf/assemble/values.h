/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of tensors by their values: are weights what masters round to, are two tensors
 * copies of one another? */
#ifndef ZF_ASSEMBLE_VALUES_H
#define ZF_ASSEMBLE_VALUES_H

#include <zf/assemble/tensor_ref.h>
#include <zf/base/vec.h>
#include <zf/model/build.h>

/* How much of a checkpoint is compared, so that mounting reads a bounded number of bytes. */
struct zf_sample {
    uint32_t places; /* of a parameter, at most 32; 1 = the whole of it */
    uint32_t every;  /* parameters i with i mod every = 0 */
};
struct zf_sample zf_sample_of(uint64_t elements, uint64_t params);

struct zf_span {
    uint64_t first, n; /* elements */
};
/* The k-th place of a parameter of n elements.  False: there are no more. */
bool zf_sample_span(const struct zf_sample *s, uint64_t n, uint32_t k, struct zf_span *out);

/* Packed elements of a source, from byte `off` on. */
struct zf_values {
    struct zf_source *src;
    uint64_t off;
    enum zf_dtype dtype;
};
/* The first element that differs. */
struct zf_mismatch {
    bool found;
    uint64_t at; /* element, counted from where comparing began */
    double master, weight;
};
/* Can values of the one type be the rounded values of the other? */
bool zf_values_can_round(enum zf_dtype master, enum zf_dtype weight);
/* Compares n weights with what the masters round to (nearest even; any NaN is a NaN).
 * Errors: of reading. */
bool zf_values_round(struct zf_values master, struct zf_values weight, uint64_t n,
                     struct zf_mismatch *out, struct zf_err *err) ZF_CHECKED;
/* The same at the places of a sample, the last of which ends less than `places` elements before the end. */
bool zf_values_round_at(struct zf_values master, struct zf_values weight, uint64_t n,
                        const struct zf_sample *s, struct zf_mismatch *out,
                        struct zf_err *err) ZF_CHECKED;
/* The same, one place after the other up to the first that differs: for masters that are tried against many
 * weights, most of which differ at once. */
bool zf_values_round_each(struct zf_values master, struct zf_values weight, uint64_t n,
                          const struct zf_sample *s, struct zf_mismatch *out,
                          struct zf_err *err) ZF_CHECKED;
/* The same of elements in memory, whose types can be compared. */
void zf_values_compare(const void *master, enum zf_dtype from, const void *weight, enum zf_dtype to,
                       size_t n, struct zf_mismatch *out);
/* Number of elements at either end of a parameter that are compared at mount. */
#define ZF_VALUES_ENDS 64
/* The same of tensors that are being put together: `ends` elements at either end, 0 = all of them.
 * Of another shape, or types that cannot be compared, *out is found at element 0 without values.
 * Errors: of zf_draft_read. */
bool zf_drafts_round(struct zf_draft *master, struct zf_draft *weight, uint64_t ends,
                     struct zf_mismatch *out, struct zf_err *err) ZF_CHECKED;

/* The same of n elements of each from a place on; shapes are not looked at. */
struct zf_draft_at {
    struct zf_draft *of;
    uint64_t first; /* element */
};
bool zf_drafts_round_at(struct zf_draft_at master, struct zf_draft_at weight, uint64_t n,
                        uint64_t ends, struct zf_mismatch *out, struct zf_err *err) ZF_CHECKED;

/* Compares bytes.  {0}, but for `all`, has compared nothing so far. */
struct zf_copy_check {
    bool all;           /* leaves those that are compared wholly, too: zf_build_records_copies */
    uint64_t compared;  /* bytes */
    uint64_t unchecked; /* comparisons that were not made */
    uint64_t sampled;   /* those that were compared in some places only */
    zf_vec(struct zf_copy) left; /* both of these; they have references */
    unsigned char *buf;
};
void zf_copy_check_fini(struct zf_copy_check *c);
/* Are both the same shape, type and bytes?  Up to 1 MiB is compared wholly, more at its ends and in
 * the middle; after 256 MiB tensors of one shape and type are taken as equal and counted.
 * Errors: of reading; ZF_E_NOMEM. */
bool zf_copy_check_equal(struct zf_copy_check *c, const struct zf_tensor_ref *a,
                         const struct zf_tensor_ref *b, bool *same, struct zf_err *err) ZF_CHECKED;
/* Notes what of the copies is taken on trust, and tells the build which they are. */
bool zf_copy_check_note(const struct zf_copy_check *c, struct zf_build *b,
                        struct zf_err *err) ZF_CHECKED;

#endif
