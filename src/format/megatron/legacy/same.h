/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that several ranks hold must be equal before one of them is served for all. */
#ifndef FORMAT_MEGATRON_LEGACY_SAME_H
#define FORMAT_MEGATRON_LEGACY_SAME_H

#include "join.h"
#include "save.h"

/* Compares the copies of weights.  A name that is tied keeps `tied` when its bytes are those of the
 * embedding, and loses it when they are not and args do not say that they should be.
 * Errors: ZF_E_FORMAT naming both files; of reading. */
bool legacy_same_weights(struct legacy_save *ls, struct legacy_join *j,
                         struct zf_err *err) ZF_CHECKED;

/* The same of masters and moments, which all parts of a tensor must have or none; where only a buffer
 * without a map is to blame, the tensor is marked as partial.
 * Errors: likewise: the sentence is the reason why they are not joined. */
bool legacy_same_optim(struct legacy_save *ls, struct legacy_join *j,
                       struct zf_err *err) ZF_CHECKED;

#endif
