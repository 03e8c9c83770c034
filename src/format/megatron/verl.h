/* SPDX-License-Identifier: Apache-2.0 */
/* verl's Megatron saves: up to three saves of Megatron-core, each in a directory of its own, and the weights as files
 * of Hugging Face instead of the first, or beside it. */
#ifndef FORMAT_MEGATRON_VERL_H
#define FORMAT_MEGATRON_VERL_H

#include <zf/format.h>

#include "save.h"

/* Is st's root such a save, finished or not?  Then *out says so. */
bool mg_verl_probe(struct zf_store *st, const struct zf_limits *lim, struct zf_probe *out);

/* Of a save of verl, sets `in_parts`, `dir`, `n_dirs` (0: none is of Megatron's) and `foreign_weights`, and checks that all is
 * there that ckpt_contents.json names; of another one, nothing is changed.
 * Errors: ZF_E_FORMAT the file is damaged or missing, or what it names is; ZF_E_UNSUPPORTED another schema_version. */
bool mg_verl_find(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

/* Is model/dist_ckpt one of Megatron-FSDP, which holds the optimizer too? */
bool mg_verl_is_fsdp(struct zf_store *st);

/* One of the directories that was pointed at by itself: notes where the whole save is. */
bool mg_verl_note_above(const struct zf_save *save, const struct zf_open_opts *o,
                        struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* Puts the tensors of model/huggingface into the root.  Errors: ZF_E_FORMAT a file is missing or damaged. */
bool mg_verl_weights(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

#endif
