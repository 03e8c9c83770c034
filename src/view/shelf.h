/* SPDX-License-Identifier: Apache-2.0 */
/* A shelf is a directory with one computed file per tensor, without kept nodes.  The same set is on
 * several shelves: raw, as .npy, and both again under as/<dtype>/. */
#ifndef VIEW_SHELF_H
#define VIEW_SHELF_H

#include <zf/model/model.h>
#include <zf/view.h>

enum shelf_kind { SHELF_RAW, SHELF_NPY };

/* A tensor whose name is too long for a file name, so that it cannot be decoded; sorted by the start of the hash. */
struct long_name {
    uint64_t hash;
    uint32_t tensor;
};

/* A set with the data for lookups, shared by its shelves. */
struct shelf_set {
    const struct zf_set *set;
    struct long_name *longs;
    uint32_t n_longs;
    uint8_t *keep;   /* bit alias_of: the tensor keeps its type under as/; NULL = none */
    uint32_t *links; /* names per inode, by canonical index; NULL = no ties in this set */
};

/* Fills *out; memory from a.  Errors: ZF_E_NOMEM. */
bool shelf_set_init(struct shelf_set *out, const struct zf_set *set, const struct zf_view_opts *o,
                    struct zf_arena *a, struct zf_err *err) ZF_CHECKED;

struct shelf {
    const struct shelf_set *of;
    enum shelf_kind kind;
    enum zf_dtype cast; /* ZF_DT_COUNT = none */
    bool hidden;        /* its files are found by name, not listed */
};

/* The dtype that tensor i has in its file. */
enum zf_dtype shelf_dtype(const struct shelf *s, uint32_t i);
/* Size in bytes of file i. */
uint64_t shelf_size(const struct shelf *s, uint32_t i);
uint32_t shelf_links(const struct shelf *s, uint32_t i);
void shelf_name(const struct shelf *s, uint32_t i, char out[256]);
bool shelf_find(const struct shelf *s, const char *name, uint32_t *i_out);
bool shelf_read(const struct shelf *s, uint32_t i, void *buf, size_t n, uint64_t off,
                struct zf_err *err) ZF_CHECKED;

/* Replaces the range [*off, *off + *n) of tensor i's file by the range of the tensor's data it is made of;
 * returns the data's map. */
const struct zf_map *shelf_stretch(const struct shelf *s, uint32_t i, uint64_t *off, uint64_t *n);

/* The offset in tensor i's data that byte `off` of its file is made of; 0 before the data. */
uint64_t shelf_data_byte(const struct shelf *s, uint32_t i, uint64_t off);

/* The type of a tensor under as/<cast>/: floating-point tensors are cast, except kept ones; all others are not. */
enum zf_dtype shelf_set_dtype(const struct shelf_set *ss, uint32_t i, enum zf_dtype cast);
/* Size of its data there; the sum over the set does not exceed the largest file size (layout_check_size). */
uint64_t shelf_set_bytes(const struct shelf_set *ss, uint32_t i, enum zf_dtype cast);

/* The numpy type used for a type that numpy lacks: bf16, f8 and complex halves are widened without loss. */
struct npy_as {
    enum zf_dtype from, to; /* cast of each element; equal = none */
    const char *descr;
};
struct npy_as npy_as(enum zf_dtype t);

#endif
