/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of all ranks' files as those of the whole model.  Nothing is read here: names, shapes and
 * places in, names, shapes and boxes out. */
#ifndef FORMAT_MEGATRON_LEGACY_JOIN_H
#define FORMAT_MEGATRON_LEGACY_JOIN_H

#include "parts.h"

/* Fills `whole` and what the parts say of it.
 * Errors: ZF_E_FORMAT, ZF_E_UNSUPPORTED: the sentence is the reason why there is no join; of the
 * arena. */
bool legacy_join(struct legacy_join *j, struct zf_err *err) ZF_CHECKED;
void legacy_join_fini(struct legacy_join *j);
/* The tensor of that name, or NULL. */
const struct legacy_whole *legacy_join_find(const struct legacy_join *j, const char *name,
                                            size_t n);

/* Box k of what part `slot` of w is, where a part has `rows` x `columns` elements: false, there are
 * no more. */
struct legacy_box {
    uint64_t start[2], size[2]; /* in w */
    uint64_t row;               /* of the part, where the box begins */
};
bool legacy_join_box(const struct legacy_whole *w, uint32_t slot, const uint64_t *shape, uint32_t k,
                     struct legacy_box *out);

#endif
