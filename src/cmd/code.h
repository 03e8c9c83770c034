/* SPDX-License-Identifier: Apache-2.0 */
/* Reports which code loading a checkpoint in Python would run. */
#ifndef ZF_CMD_CODE_H
#define ZF_CMD_CODE_H

#include <jansson.h>

#include <zf/base/out.h>
#include <zf/model/model.h>

#include "options.h"

/* The imports and calls in the pickles of all files that were read from `path` to open c: "code" of zerofs.info/1.
 * Cached together with a cached model.  NULL: out of memory. */
json_t *code_json(const char *path, const struct zf_checkpoint *c, const struct opts *o);

/* Appends a one-sentence summary, without newline and full stop: "loading it with Python would import
 * my.trainer.Config (2 files); nothing is called".  Names are not escaped: print it with print_name. */
void code_put_sentence(const json_t *code, struct zf_out *out);

#endif
