/* SPDX-License-Identifier: Apache-2.0 */
/* Serializes an unsealed model, as the calls of build.h that make it again.  After unpacking it is sealed, with the
 * same proof as any other model, so manipulated bytes can do no more than a format driver could. */
#ifndef ZF_MODEL_PACK_H
#define ZF_MODEL_PACK_H

#include <zf/base/bytes.h>
#include <zf/base/out.h>
#include <zf/model/build.h>

/* Gives the number (0 …) by which the caller will identify this source when it unpacks. */
typedef bool zf_pack_source_fn(void *ctx, struct zf_source *src, uint64_t *number_out,
                               struct zf_err *err);

/* Writes everything that was added to b, in the order of the drafts; call it just before the seal.
 * Errors: ZF_E_UNSUPPORTED a part of it is lost or missing; those of `number`. */
bool zf_build_pack(const struct zf_build *b, zf_pack_source_fn *number, void *ctx,
                   struct zf_out *out, struct zf_err *err) ZF_CHECKED;

/* Rebuilds the model in b, which must be new.  source[n]: by number, borrowed.
 * Errors: ZF_E_FORMAT the bytes make no sense; those of the calls of build.h. */
bool zf_build_unpack(struct zf_build *b, struct zf_bytes *in, struct zf_source *const *source,
                     uint64_t n, struct zf_err *err) ZF_CHECKED;

#endif
