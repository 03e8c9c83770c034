/* SPDX-License-Identifier: Apache-2.0 */
/* A model in the making as bytes, and back: the verbs of build.h that make the same again.
 * Whoever unpacks seals what comes of it, with the proof of any other model, so bytes that were
 * changed cannot make more of a model than a format driver could. */
#ifndef ZF_MODEL_PACK_H
#define ZF_MODEL_PACK_H

#include <zf/base/bytes.h>
#include <zf/base/out.h>
#include <zf/model/build.h>

/* Gives the number, from 0 up, by which a source of the model is known to whoever keeps the bytes. */
typedef bool zf_pack_source_fn(void *ctx, struct zf_source *src, uint64_t *number_out,
                               struct zf_err *err);

/* Everything that was drafted so far, in the order of the drafts; to be asked just before the seal.
 * Errors: ZF_E_UNSUPPORTED a part of it is lost or missing; of `number`. */
bool zf_build_pack(const struct zf_build *b, zf_pack_source_fn *number, void *ctx,
                   struct zf_out *out, struct zf_err *err) ZF_CHECKED;

/* Into a build that is new.  source[n]: by number, borrowed.
 * Errors: ZF_E_FORMAT the bytes make no sense; of the verbs. */
bool zf_build_unpack(struct zf_build *b, struct zf_bytes *in, struct zf_source *const *source,
                     uint64_t n, struct zf_err *err) ZF_CHECKED;

#endif
