/* SPDX-License-Identifier: Apache-2.0 */
/* The maps of all tensors turned round: which tensors have bytes of theirs at a place of a file. */
#ifndef VERIFY_PLACES_H
#define VERIFY_PLACES_H

#include <zf/base/vec.h>
#include <zf/verify/finding.h>

/* Bytes of a file that a tensor is made of. */
struct place {
    uint64_t off, end;
    uint64_t reach; /* the largest `end` of this place and of all before it in the file */
    uint32_t tensor;
    uint32_t rows; /* 0: all of these bytes; else the number of a struct place_rows, from 1 */
    bool raw;      /* elements as they are: not compressed, swapped or cut */
};

/* `run` bytes at off, and so in each of n[0] * n[1] * … places, step[0] bytes apart, and so on, the widest steps first. */
#define PLACE_DIMS 16
struct place_rows {
    uint32_t nd;
    uint64_t n[PLACE_DIMS], step[PLACE_DIMS], run;
};

/* Bytes of a tensor that are made: decompressed, swapped, or a value of a pickle. */
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
    struct places_index *index;     /* by address of the source, while it is made */
};

/* Of the n tensors.  Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool places_init(struct places *p, const struct zf_verify_tensor *tensor, size_t n,
                 struct zf_err *err) ZF_CHECKED;
/* The same of the second ones of copies, if the first are in `shown`, and of padding. */
bool places_init_copies(struct places *p, const struct places *shown, const struct zf_copy *copy,
                        uint64_t n, struct zf_err *err) ZF_CHECKED;
void places_fini(struct places *p);

/* NULL: no tensor is in it. */
const struct place_file *places_find(const struct places *p, const struct zf_source *file);

/* Calls fn for the stretches of bytes of a place within [first, end), in the order of their offsets. */
typedef void place_run_fn(void *ctx, uint64_t off, uint64_t n);
void place_each_run(const struct places *p, const struct place *at, uint64_t first, uint64_t end,
                    place_run_fn *fn, void *ctx);

/* The first place of a file that may have bytes behind `first`. */
size_t place_begin(const struct place_file *f, uint64_t first);

/* Appends the numbers of the tensors that have bytes in [first, end) of a file, each once, ascending. */
typedef zf_vec(uint32_t) place_tensors;
bool places_tensors(const struct places *p, const struct zf_source *file, uint64_t first,
                    uint64_t end, place_tensors *out, struct zf_err *err) ZF_CHECKED;

#endif
