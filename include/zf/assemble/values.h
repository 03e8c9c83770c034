/* SPDX-License-Identifier: Apache-2.0 */
/* Compares tensors by their values: are the weights what the masters round to?  Are two tensors copies of each
 * other? */
#ifndef ZF_ASSEMBLE_VALUES_H
#define ZF_ASSEMBLE_VALUES_H

#include <zf/assemble/tensor_ref.h>
#include <zf/base/vec.h>
#include <zf/model/build.h>

/* How much of a checkpoint is compared, so that mounting reads a bounded number of bytes. */
struct zf_sample {
    uint32_t places; /* places compared in each parameter, at most 32; 1 = the whole parameter */
    uint32_t every;  /* only parameters i with i mod every = 0 are compared */
};
struct zf_sample zf_sample_of(uint64_t elements, uint64_t params);

struct zf_span {
    uint64_t first, n; /* elements */
};
/* Gives the k-th place of a parameter of n elements.  False: there are no more. */
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
    uint64_t at; /* element, counted from the beginning of the comparison */
    double master, weight;
};
/* True if values of type `weight` can be rounded values of type `master`. */
bool zf_values_can_round(enum zf_dtype master, enum zf_dtype weight);
/* Compares n weights with the rounded masters (to nearest even; all NaN are equal).  Errors: those of reading. */
bool zf_values_round(struct zf_values master, struct zf_values weight, uint64_t n,
                     struct zf_mismatch *out, struct zf_err *err) ZF_CHECKED;
/* The same at the places of a sample, the last of which ends less than `places` elements before the end. */
bool zf_values_round_at(struct zf_values master, struct zf_values weight, uint64_t n,
                        const struct zf_sample *s, struct zf_mismatch *out,
                        struct zf_err *err) ZF_CHECKED;
/* The same, but reads one place at a time and stops at the first that differs: for masters that are compared with many
 * weights, most of which differ in the first place. */
bool zf_values_round_each(struct zf_values master, struct zf_values weight, uint64_t n,
                          const struct zf_sample *s, struct zf_mismatch *out,
                          struct zf_err *err) ZF_CHECKED;
/* As zf_values_round, for elements in memory.  Pre: zf_values_can_round. */
void zf_values_compare(const void *master, enum zf_dtype from, const void *weight, enum zf_dtype to,
                       size_t n, struct zf_mismatch *out);
/* The number of elements at either end of a parameter that are compared when mounting. */
#define ZF_VALUES_ENDS 64
/* As zf_values_round, for drafts: compares `ends` elements at either end, 0 = all of them.  If the shapes differ or the
 * types cannot be compared, reports a mismatch at element 0 without values.  Errors: those of zf_draft_read. */
bool zf_drafts_round(struct zf_draft *master, struct zf_draft *weight, uint64_t ends,
                     struct zf_mismatch *out, struct zf_err *err) ZF_CHECKED;

/* The same for n elements of each from a given element on; ignores the shapes. */
struct zf_draft_at {
    struct zf_draft *of;
    uint64_t first; /* element */
};
bool zf_drafts_round_at(struct zf_draft_at master, struct zf_draft_at weight, uint64_t n,
                        uint64_t ends, struct zf_mismatch *out, struct zf_err *err) ZF_CHECKED;

/* State of comparing copies byte by byte.  Begins as {0}, except for `all`. */
struct zf_copy_check {
    bool all;           /* `left` gets completely compared copies, too (zf_build_records_copies) */
    uint64_t compared;  /* bytes */
    uint64_t unchecked; /* copies that were not compared */
    uint64_t sampled;   /* copies that were compared in some places only */
    zf_vec(struct zf_copy) left; /* the copies of these two kinds, with references */
    unsigned char *buf;
};
void zf_copy_check_fini(struct zf_copy_check *c);
/* *same: both have the same shape, type and bytes.  Tensors of up to 1 MiB are compared completely, larger ones at both
 * ends and in the middle; after 256 MiB, tensors of the same shape and type are counted and taken as equal.
 * Errors: those of reading; ZF_E_NOMEM. */
bool zf_copy_check_equal(struct zf_copy_check *c, const struct zf_tensor_ref *a,
                         const struct zf_tensor_ref *b, bool *same, struct zf_err *err) ZF_CHECKED;
/* Notes how many copies were not compared completely, and records them in the build (zf_build_copy). */
bool zf_copy_check_note(const struct zf_copy_check *c, struct zf_build *b,
                        struct zf_err *err) ZF_CHECKED;

#endif
