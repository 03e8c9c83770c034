/* SPDX-License-Identifier: Apache-2.0 */
/* The way back from bytes of files to the tensors that are made of them. */
#ifndef ZF_INSPECT_REFER_H
#define ZF_INSPECT_REFER_H

#include <zf/base/vec.h>
#include <zf/model/model.h>

/* The files that tensors of c lie in, each once, in no order; those of lost bytes are not among them.  Borrowed from c.
 * Errors: ZF_E_NOMEM. */
typedef zf_vec(struct zf_source *) zf_refer_list;
bool zf_refer_files(const struct zf_checkpoint *c, zf_refer_list *out,
                    struct zf_err *err) ZF_CHECKED;

/* Elements of a tensor, and their place in a file. */
struct zf_refer {
    const struct zf_set *set;
    const struct zf_tensor *tensor; /* of the set */
    const uint64_t *start, *count;  /* [ndim] a box of it, in elements */
    bool exact;          /* every element of the box has one of the bytes; else some may */
    uint64_t first, end; /* of the file: bytes of the box, no others than were asked for */
};
/* False: no more. */
typedef bool zf_refer_fn(void *ctx, const struct zf_refer *r);

/* Calls fn for each box of elements that are made of bytes [first, end) of `file`, one of zf_refer_files, in the order of
 * sets and tensors; a tensor may have several, which share no element.  A compressed stream that has one of the bytes gives
 * all elements that come out of it, not exactly, as do rows that share bytes with one another (views).  A tied tensor comes
 * under each of its names.  Errors: ZF_E_NOMEM; that fn ended it is none. */
bool zf_refer_each(const struct zf_checkpoint *c, const struct zf_source *file, uint64_t first,
                   uint64_t end, zf_refer_fn *fn, void *ctx, struct zf_err *err) ZF_CHECKED;

#endif
