/* SPDX-License-Identifier: Apache-2.0 */
/* Saves of Megatron's oldest format: one torch.save file a model-parallel rank. */
#ifndef FORMAT_MEGATRON_LEGACY_H
#define FORMAT_MEGATRON_LEGACY_H

#include <zf/format.h>

/* Is save->store the folder of an iteration that holds mp_rank_* folders with a file each?  Errors: of
 * the store. */
bool legacy_probe(const struct zf_save *save, const struct zf_open_opts *o, struct zf_probe *out,
                  struct zf_err *err) ZF_CHECKED;
bool legacy_open(const struct zf_save *save, const struct zf_open_opts *o, struct zf_build *b,
                 struct zf_err *err) ZF_CHECKED;

#endif
