/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer gathered into several torch.save files with an index, as ColossalAI saves it: parameters by number, the
 * groups of parameters in a file of their own.
 * Source: colossalai/checkpoint_io/utils.py (0.3 … 0.5), get_optimizer_base_filenames, shard_optimizer_checkpoint. */
#ifndef ZF_ASSEMBLE_OPTIM_INDEX_H
#define ZF_ASSEMBLE_OPTIM_INDEX_H

#include <zf/assemble/hf_index.h>
#include <zf/assemble/open_opts.h>

/* Finds such an index in `dir` ("" = the root of st) by its name; *path_out: malloc'ed, NULL if there is none.
 * Errors: ZF_E_NOMEM. */
bool zf_optim_index_find(struct zf_store *st, const char *dir, char **path_out,
                         struct zf_err *err) ZF_CHECKED;

/* Adds the files of the index: optim/<state>/<number>, and the groups as state/<file>.json.  x must have groups.
 * Errors: ZF_E_FORMAT a file is missing, or has other parameters than the index says; those of the files. */
bool zf_optim_index_add(const struct zf_st_index *x, struct zf_store *st,
                        const struct zf_open_opts *o, struct zf_build *b,
                        struct zf_err *err) ZF_CHECKED;

/* Finds and adds the index in `dir`, if there is one. */
bool zf_optim_index_add_dir(struct zf_store *st, const char *dir, const struct zf_open_opts *o,
                            struct zf_build *b, struct zf_err *err) ZF_CHECKED;

#endif
