/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the tensors to which given bytes of a file belong. */
#ifndef ZF_INSPECT_REFER_H
#define ZF_INSPECT_REFER_H

#include <zf/base/vec.h>
#include <zf/model/model.h>

/* Lists the files with bytes of tensors of c, each once, in no particular order, without those of lost bytes.  Borrowed
 * from c.
 * Errors: ZF_E_NOMEM. */
typedef zf_vec(struct zf_source *) zf_refer_list;
bool zf_refer_files(const struct zf_checkpoint *c, zf_refer_list *out,
                    struct zf_err *err) ZF_CHECKED;

/* A box of a tensor, and its place in a file. */
struct zf_refer {
    const struct zf_set *set;
    const struct zf_tensor *tensor; /* of the set */
    const uint64_t *start, *count;  /* [ndim] a box of it, in elements */
    bool exact;          /* every element of the box has one of the bytes; else some may */
    uint64_t first, end; /* range in the file: the bytes of the box within the requested range */
};
/* False: no more. */
typedef bool zf_refer_fn(void *ctx, const struct zf_refer *r);

/* Calls fn for each box of elements with bytes in [first, end) of `file`, one of zf_refer_files, in the order of sets
 * and tensors; a tensor may have several disjoint boxes.  If the bytes touch a compressed stream, all of its elements
 * are reported, with `exact` false; likewise for rows that share bytes with one another (views).  A tied tensor is
 * reported under each of its names.  Errors: ZF_E_NOMEM; it is no error if fn returns false. */
bool zf_refer_each(const struct zf_checkpoint *c, const struct zf_source *file, uint64_t first,
                   uint64_t end, zf_refer_fn *fn, void *ctx, struct zf_err *err) ZF_CHECKED;

#endif
