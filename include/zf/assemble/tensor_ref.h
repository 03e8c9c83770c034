/* SPDX-License-Identifier: Apache-2.0 */
/* Where the elements of a dense tensor are.  A kept reference outlives the pickle it was read from, so that only one
 * pickle of a save's many ranks is in memory at a time. */
#ifndef ZF_ASSEMBLE_TENSOR_REF_H
#define ZF_ASSEMBLE_TENSOR_REF_H

#include <zf/base/vec.h>
#include <zf/codec/torch.h>
#include <zf/model/build.h>

struct zf_tensor_ref {
    struct zf_source *src; /* borrowed from the file or the keeper; NULL for an empty storage */
    const char *key;       /* of the storage, which src and key identify */
    enum zf_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape, *stride; /* [ndim] elements; stride may be NULL when packed */
    uint64_t off;                   /* bytes */
    uint64_t n;                     /* elements */
    bool packed;                    /* C order without gaps */
};

/* Holds the sources of kept references until the tensors are drafted; their texts and shapes are in its arena, which is
 * borrowed.  {.arena = a} is an empty one. */
struct zf_keeper {
    struct zf_arena *arena;
    zf_vec(struct zf_source *) held;
    const uint64_t *shape, *stride; /* [ndim] of the last reference that was read; NULL = none */
    uint32_t ndim;
};
/* Keeps later references in a, which is borrowed: for references that live shorter than the others. */
void zf_keeper_into(struct zf_keeper *k, struct zf_arena *a);
/* Takes a reference on src, which may be NULL.  Errors: ZF_E_NOMEM. */
bool zf_keeper_hold(struct zf_keeper *k, struct zf_source *src, struct zf_err *err) ZF_CHECKED;
void zf_keeper_fini(struct zf_keeper *k);

/* Makes the reference of a tensor of an open file; borrows everything from the file.
 * Errors: ZF_E_FORMAT sizes beyond 64 bits. */
bool zf_tensor_ref_of(const struct zf_torch_tensor *t, struct zf_tensor_ref *out,
                      struct zf_err *err) ZF_CHECKED;
/* The same for a value of the file, and keeps the reference; *out is only written on success.
 * Errors: ZF_E_FORMAT v is no dense tensor; those of zf_torch_tensor and of the arena. */
bool zf_tensor_ref_read(struct zf_keeper *k, struct zf_torch *t, const struct zf_pv *v,
                        struct zf_tensor_ref *out, struct zf_err *err) ZF_CHECKED;

/* True if v is a tensor of an unsupported kind, so that an optimizer state with it must be left out; *err then says
 * why.  False for damaged tensors: reading them fails. */
bool zf_tensor_ref_odd(struct zf_torch *t, const struct zf_pv *v, struct zf_err *err) ZF_CHECKED;

/* As zf_tensor_ref_read, for one of many tensors of a file.  Those with empty storages, one per parameter in ZeRO stage
 * 3, share the source of the first such tensor: *empty, which must be NULL before the first tensor of the file. */
bool zf_tensor_ref_read_many(struct zf_keeper *k, struct zf_torch *t, const struct zf_pv *v,
                             struct zf_source **empty, struct zf_tensor_ref *out,
                             struct zf_err *err) ZF_CHECKED;

/* A Python number: I64 or F64, and its bits. */
struct zf_number {
    enum zf_dtype dtype;
    uint64_t bits;
};
/* Reads a Python number.  False: v is none (zf_pv_is_number; a bool counts as int), or an int of more than 64 bits. */
bool zf_number_of(const struct zf_pv *v, struct zf_number *out);

/* Drafts a Python number (zf_pv_is_number; a bool counts as int) as a tensor without dimensions, I64 or F64; ignores
 * any other value.  Errors: those of zf_build_scalar. */
bool zf_number_draft(struct zf_build *b, struct zf_spot spot, const struct zf_pv *v,
                     struct zf_err *err) ZF_CHECKED;

/* Compares references for sorting; 0 for the same elements in the same shape: one tensor with two names. */
int zf_tensor_ref_cmp(const struct zf_tensor_ref *a, const struct zf_tensor_ref *b);

/* Drafts the tensor of b from its one reference.  where: for messages, or NULL.
 * Errors: of zf_build_tensor and zf_draft_*. */
struct zf_draft *zf_tensor_ref_draft(struct zf_build *b, struct zf_spot spot,
                                     const struct zf_tensor_ref *r, const char *where,
                                     struct zf_err *err) ZF_CHECKED;

#endif
