/* SPDX-License-Identifier: Apache-2.0 */
/* Would loading a checkpoint with Python run code? */
#ifndef ZF_CMD_CODE_H
#define ZF_CMD_CODE_H

#include <jansson.h>

#include <zf/base/out.h>
#include <zf/model/model.h>

#include "options.h"

/* Imports and calls of the pickles in the files that opening c read from `path`: zerofs.info/1's "code".  Kept with a model
 * that is kept.  NULL: no memory. */
json_t *code_json(const char *path, const struct zf_checkpoint *c, const struct opts *o);

/* Appends one sentence of it, without newline and full stop: "loading it with Python would import my.trainer.Config
 * (2 files); nothing is called".  Names are as in the file, for print_name. */
void code_put_sentence(const json_t *code, struct zf_out *out);

#endif
