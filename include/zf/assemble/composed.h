/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor that is made of several others (quantized, sparse, a subclass such as torchao's), saved in chunks of rows:
 * its parts become tensors <name>.<part>, joined chunk by chunk. */
#ifndef ZF_ASSEMBLE_COMPOSED_H
#define ZF_ASSEMBLE_COMPOSED_H

#include <zf/assemble/tensor_ref.h>
#include <zf/base/out.h>
#include <zf/codec/torch.h>
#include <zf/model/build.h>

/* Calls fn once for each part of v (of kind PARTS) that is a dense tensor t or, with t NULL, a Python number.  name:
 * "<part>"; "<part>.<part>" for a part that is itself made of parts; "" for the stored integers of a quantized tensor.
 * All arguments are valid only during the call.  The names of attributes of other kinds are appended to attrs
 * (zf_torch_attrs).  Errors: those of fn and zf_torch_parts. */
typedef bool zf_composed_fn(void *ctx, const char *name, const struct zf_torch_tensor *t,
                            struct zf_number number, struct zf_err *err);
bool zf_composed_each(struct zf_torch *t, const struct zf_pv *v, struct zf_out *attrs,
                      zf_composed_fn *fn, void *ctx, struct zf_err *err) ZF_CHECKED;
/* Notes that these attributes are not shown, once for all tensors that have them; file: that of the first one.
 * Errors: those of the note. */
bool zf_composed_note(struct zf_build *b, const char *file, const char *attrs,
                      struct zf_err *err) ZF_CHECKED;

/* One such tensor while it is joined.  The caller sets the first five fields; all texts and arrays are borrowed. */
struct zf_composed {
    struct zf_build *b;
    const char *name;      /* of the tensor, for messages */
    uint32_t ndim;         /* of the whole tensor */
    const uint64_t *shape; /* [ndim] of the whole tensor */
    bool whole;            /* the tensor is a single chunk: nothing is joined */

    struct zf_spot spot;
    const char *file, *from;      /* files of the current chunk and of the first one */
    const uint64_t *start, *size; /* [ndim] of the current chunk, elements of the tensor */
    bool codes, scale;            /* it has such parts; with both, it is quantized in blocks */
    bool taken;                   /* a part has the name of another tensor */
    bool apart;                   /* it failed because its chunks do not make up one tensor */
    struct zf_out part;           /* <name>.<part> */
    uint32_t n_chunks, n_parts, n_first;
};
void zf_composed_fini(struct zf_composed *c);

/* Begins a tensor at a spot, or begins it again, which discards what was joined so far.  Opens a mark of b, which
 * zf_composed_end ends.  Errors: ZF_E_NOMEM. */
bool zf_composed_begin(struct zf_composed *c, struct zf_spot spot, struct zf_err *err) ZF_CHECKED;

/* Begins the next chunk, that of `file`: rows [start, start + size).  For the first chunk, all its parts are announced
 * with zf_composed_note_part; then the parts of each chunk are added with zf_composed_put.  Errors of these calls and
 * of zf_composed_end: ZF_E_UNSUPPORTED or ZF_E_FORMAT the parts are not cut like the tensor, are no whole blocks, or
 * differ between chunks (c->apart is then set); ZF_E_LIMIT dimensions; those of the build. */
bool zf_composed_chunk(struct zf_composed *c, const char *file, const uint64_t *start,
                       const uint64_t *size, struct zf_err *err) ZF_CHECKED;
void zf_composed_note_part(struct zf_composed *c, const char *part, uint32_t ndim);
bool zf_composed_put(struct zf_composed *c, const char *part, struct zf_type type,
                     struct zf_from from, struct zf_err *err) ZF_CHECKED;
/* Adds a part that is a Python number (a quantized tensor's scale): a tensor without dimensions, equal in all
 * chunks. */
bool zf_composed_put_number(struct zf_composed *c, const char *part, struct zf_number number,
                            struct zf_err *err) ZF_CHECKED;

/* Fails because the current chunk is a plain tensor. */
bool zf_composed_is_plain(struct zf_composed *c, struct zf_err *err) ZF_CHECKED;

/* Keeps all parts and returns true, or withdraws them and returns false.  ok: all chunks were added. */
bool zf_composed_end(struct zf_composed *c, bool ok, struct zf_err *err) ZF_CHECKED;

/* After a failure: if an optimizer state's chunks do not make up one tensor, notes that the state is left out, clears
 * the failure and returns true: the weights do not depend on it.  Otherwise returns false and keeps the failure. */
bool zf_composed_forgive(struct zf_composed *c, struct zf_err *err) ZF_CHECKED;

#endif
