/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor that is made of several others (quantized, sparse, a subclass such as torchao's), of which each
 * chunk holds some rows: its parts become tensors <name>.<part>, joined chunk by chunk. */
#ifndef ZF_ASSEMBLE_COMPOSED_H
#define ZF_ASSEMBLE_COMPOSED_H

#include <zf/assemble/tensor_ref.h>
#include <zf/base/out.h>
#include <zf/codec/torch.h>
#include <zf/model/build.h>

/* Calls fn once for each part of v, of kind PARTS, that is a dense tensor t, or with t NULL a number of Python's: name
 * "<part>", or "<part>.<part>" of a part that is made of others itself, "" for the stored integers of a quantized tensor; all are there during the call only.
 * attrs: the names of attributes that are none of these are appended to it (zf_torch_attrs).
 * Errors: fn's, those of zf_torch_parts. */
typedef bool zf_composed_fn(void *ctx, const char *name, const struct zf_torch_tensor *t,
                            struct zf_number number, struct zf_err *err);
bool zf_composed_each(struct zf_torch *t, const struct zf_pv *v, struct zf_out *attrs,
                      zf_composed_fn *fn, void *ctx, struct zf_err *err) ZF_CHECKED;
/* Notes, once for all tensors that have these, that attributes are not shown; file: of the first.  Errors: of the note. */
bool zf_composed_note(struct zf_build *b, const char *file, const char *attrs,
                      struct zf_err *err) ZF_CHECKED;

/* One such tensor while it is joined.  The first five are the caller's; all texts and extents are borrowed. */
struct zf_composed {
    struct zf_build *b;
    const char *name;      /* the tensor's, for sentences */
    uint32_t ndim;         /* of the whole */
    const uint64_t *shape; /* [ndim] of the whole */
    bool whole;            /* one chunk is the tensor: nothing is joined */

    struct zf_spot spot;
    const char *file, *from;      /* of the chunk at hand, of the first */
    const uint64_t *start, *size; /* [ndim] of the chunk at hand, elements of the tensor */
    bool codes, scale;            /* it has such parts: with both it is quantized in blocks */
    bool taken;                   /* a part has the name of another tensor */
    bool apart;                   /* the failure is that its chunks are not one tensor */
    struct zf_out part;           /* <name>.<part> */
    uint32_t n_chunks, n_parts, n_first;
};
void zf_composed_fini(struct zf_composed *c);

/* Begins at a spot, for the first time or once more: what was joined so far is forgotten.  A mark of b is open
 * until zf_composed_end.  Errors: ZF_E_NOMEM. */
bool zf_composed_begin(struct zf_composed *c, struct zf_spot spot, struct zf_err *err) ZF_CHECKED;

/* The chunk of `file` that comes next: rows [start, start + size).  Its parts are seen first, where it is the first
 * chunk, and then put.  Errors of these and of the end: ZF_E_UNSUPPORTED or ZF_E_FORMAT the parts are not cut as the
 * tensor is, are no whole blocks, or differ between chunks; c->apart is set.  ZF_E_LIMIT dimensions; of the build. */
bool zf_composed_chunk(struct zf_composed *c, const char *file, const uint64_t *start,
                       const uint64_t *size, struct zf_err *err) ZF_CHECKED;
void zf_composed_note_part(struct zf_composed *c, const char *part, uint32_t ndim);
bool zf_composed_put(struct zf_composed *c, const char *part, struct zf_type type,
                     struct zf_from from, struct zf_err *err) ZF_CHECKED;
/* A part that is a number of Python's (a quantized tensor's scale): a tensor of no dimension, equal in all chunks. */
bool zf_composed_put_number(struct zf_composed *c, const char *part, struct zf_number number,
                            struct zf_err *err) ZF_CHECKED;

/* Fails when the chunk at hand is a plain tensor. */
bool zf_composed_is_plain(struct zf_composed *c, struct zf_err *err) ZF_CHECKED;

/* ok: all chunks were put.  Keeps all parts, or withdraws them; answers which. */
bool zf_composed_end(struct zf_composed *c, bool ok, struct zf_err *err) ZF_CHECKED;

/* After a failure: a state of an optimizer whose chunks are not one tensor costs itself, not the weights: it is noted
 * as left out, and the failure forgotten.  Else false, with the failure. */
bool zf_composed_forgive(struct zf_composed *c, struct zf_err *err) ZF_CHECKED;

#endif
