/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of the values that all files of a save repeat. */
#ifndef FORMAT_DEEPSPEED_AGREE_H
#define FORMAT_DEEPSPEED_AGREE_H

#include "save.h"

/* Lists in ds->said what the open file t must have in common with the others. */
bool ds_agree_read(struct ds_save *ds, struct zf_torch *t, const char *path, bool model,
                   struct zf_err *err) ZF_CHECKED;
/* Compares the file read last with the first of its kind, which is compared with the first of the
 * other kind.  Errors: ZF_E_FORMAT naming both files and both values. */
bool ds_agree_check(struct ds_save *ds, bool model, struct zf_err *err) ZF_CHECKED;
/* Compares what the open file t, the first of its model-parallel rank, must have in common with those of
 * all others.  Errors: likewise. */
bool ds_agree_job(struct ds_save *ds, struct zf_torch *t, const char *path,
                  struct zf_err *err) ZF_CHECKED;
/* The file t that was read last speaks for those with its pickle, if all that it said is in that. */
void ds_agree_remember(struct ds_save *ds, struct zf_torch *t);
/* Compares the model-states files f[n], from which nothing else is read, with the file `first`. */
bool ds_agree_models(struct ds_save *ds, const char *first, const struct ds_file *f, uint32_t n,
                     struct zf_err *err) ZF_CHECKED;

#endif
