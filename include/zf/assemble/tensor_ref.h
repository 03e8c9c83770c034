/* SPDX-License-Identifier: Apache-2.0 */
/* Where the elements of a dense tensor are.  A reference that is kept outlives the pickle it was
 * read from, so that a save of many ranks never has more than one of their pickles in memory. */
#ifndef ZF_ASSEMBLE_TENSOR_REF_H
#define ZF_ASSEMBLE_TENSOR_REF_H

#include <zf/base/vec.h>
#include <zf/codec/torch.h>
#include <zf/model/build.h>

struct zf_tensor_ref {
    struct zf_source *src; /* borrowed from the file or the keeper; NULL for an empty storage */
    const char *key;       /* of the storage: one source and key, one storage */
    enum zf_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape, *stride; /* [ndim] elements; stride may be NULL when packed */
    uint64_t off;                   /* bytes */
    uint64_t n;                     /* elements */
    bool packed;                    /* C order without gaps */
};

/* Holds the sources of references until the tensors are drafted; their texts and extents are in
 * its arena, which is borrowed.  {.arena = a} is an empty one. */
struct zf_keeper {
    struct zf_arena *arena;
    zf_vec(struct zf_source *) held;
    const uint64_t *shape, *stride; /* [ndim] of the reference that was read last; NULL = none */
    uint32_t ndim;
};
/* Later references are kept in a, which is borrowed: for references with a shorter life than the others. */
void zf_keeper_into(struct zf_keeper *k, struct zf_arena *a);
/* Takes a reference on src, which may be NULL.  Errors: ZF_E_NOMEM. */
bool zf_keeper_hold(struct zf_keeper *k, struct zf_source *src, struct zf_err *err) ZF_CHECKED;
void zf_keeper_fini(struct zf_keeper *k);

/* The reference of a tensor of an open file; borrows everything from it.
 * Errors: ZF_E_FORMAT sizes beyond 64 bits. */
bool zf_tensor_ref_of(const struct zf_torch_tensor *t, struct zf_tensor_ref *out,
                      struct zf_err *err) ZF_CHECKED;
/* The same of a value of the file, kept; *out is written when it is whole.  Errors: ZF_E_FORMAT v is no dense tensor; those of
 * zf_torch_tensor; of the arena. */
bool zf_tensor_ref_read(struct zf_keeper *k, struct zf_torch *t, const struct zf_pv *v,
                        struct zf_tensor_ref *out, struct zf_err *err) ZF_CHECKED;

/* Is v a tensor of a kind that is not understood, so that an optimizer's state with it costs itself?  Then *err says why.
 * Damage is met by reading it. */
bool zf_tensor_ref_odd(struct zf_torch *t, const struct zf_pv *v, struct zf_err *err) ZF_CHECKED;

/* The same of one of the many tensors of a file.  Those of storages without a byte, of which ZeRO stage 3 leaves one
 * a parameter, share a source, the first one's: *empty, which is NULL before the first tensor of the file. */
bool zf_tensor_ref_read_many(struct zf_keeper *k, struct zf_torch *t, const struct zf_pv *v,
                             struct zf_source **empty, struct zf_tensor_ref *out,
                             struct zf_err *err) ZF_CHECKED;

/* A number of Python's: I64 or F64, and its bits. */
struct zf_number {
    enum zf_dtype dtype;
    uint64_t bits;
};
/* False: v is none (zf_pv_is_number; a bool counts as int), or an int of more than 64 bits. */
bool zf_number_of(const struct zf_pv *v, struct zf_number *out);

/* Drafts a number of Python's (zf_pv_is_number; a bool counts as int) as a tensor without dimensions, I64 or F64; any
 * other value is nothing.  Errors: of zf_build_scalar. */
bool zf_number_draft(struct zf_build *b, struct zf_spot spot, const struct zf_pv *v,
                     struct zf_err *err) ZF_CHECKED;

/* Orders references so that those of the same elements in the same shape are neighbours; 0 for
 * these: one tensor with two names. */
int zf_tensor_ref_cmp(const struct zf_tensor_ref *a, const struct zf_tensor_ref *b);

/* Drafts the tensor of b from its one reference.  where: for messages, or NULL.
 * Errors: of zf_build_tensor and zf_draft_*. */
struct zf_draft *zf_tensor_ref_draft(struct zf_build *b, struct zf_spot spot,
                                     const struct zf_tensor_ref *r, const char *where,
                                     struct zf_err *err) ZF_CHECKED;

#endif
