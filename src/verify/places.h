/* SPDX-License-Identifier: Apache-2.0 */
/* The inverse of the maps of all tensors: which tensors have data at a place in a file. */
#ifndef VERIFY_PLACES_H
#define VERIFY_PLACES_H

#include <zf/base/vec.h>
#include <zf/verify/finding.h>

/* A range of a file that a tensor is made of. */
struct place {
    uint64_t off, end;
    uint64_t reach; /* largest `end` of this place and all earlier ones in the file */
    uint32_t tensor;
    uint32_t rows; /* 0: all of these bytes; else 1 + the index of a struct place_rows */
    bool raw;      /* unchanged elements: not compressed, swapped or cut */
};

/* Rows of `run` bytes, the first at off: n[0] of them, step[0] bytes apart, each n[1] rows, and so on; largest steps
 * first. */
#define PLACE_DIMS 16
struct place_rows {
    uint32_t nd;
    uint64_t n[PLACE_DIMS], step[PLACE_DIMS], run;
};

/* Bytes of a tensor that are made: decompressed, byte-swapped, or a value from a pickle. */
struct place_made {
    struct zf_source *src; /* borrowed */
    uint64_t off, n;
    uint32_t tensor;
};

struct place_file {
    struct zf_source *src;   /* borrowed */
    zf_vec(struct place) at; /* by off */
};

struct places {
    zf_vec(struct place_file) file; /* by name */
    zf_vec(struct place_rows) rows;
    zf_vec(struct place_made) made; /* by source and offset */
    struct places_index *index; /* by address of the source; only while the places are being made */
};

/* Makes the places of n tensors.  Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool places_init(struct places *p, const struct zf_verify_tensor *tensor, size_t n,
                 struct zf_err *err) ZF_CHECKED;
/* Makes the places of the second sides of copies, if the first ones are in `shown`, and of padding. */
bool places_init_copies(struct places *p, const struct places *shown, const struct zf_copy *copy,
                        uint64_t n, struct zf_err *err) ZF_CHECKED;
void places_fini(struct places *p);

/* The places in a file; NULL: no tensor has data in it. */
const struct place_file *places_find(const struct places *p, const struct zf_source *file);

/* Calls fn for each contiguous run of a place within [first, end), by offset. */
typedef void place_run_fn(void *ctx, uint64_t off, uint64_t n);
void place_each_run(const struct places *p, const struct place *at, uint64_t first, uint64_t end,
                    place_run_fn *fn, void *ctx);

/* Index of the first place of a file that may have bytes at or after `first`. */
size_t place_begin(const struct place_file *f, uint64_t first);

/* Appends the numbers of the tensors that have data in [first, end) of a file, each once, ascending. */
typedef zf_vec(uint32_t) place_tensors;
bool places_tensors(const struct places *p, const struct zf_source *file, uint64_t first,
                    uint64_t end, place_tensors *out, struct zf_err *err) ZF_CHECKED;

#endif
