/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes from the YAML files that NeMo and Megatron-Bridge put beside a save, which has no `args` then. */
#ifndef FORMAT_MEGATRON_SETTINGS_YAML_H
#define FORMAT_MEGATRON_SETTINGS_YAML_H

#include <zf/source/store.h>

#include "settings.h"

/* Looks for run_config.yaml, model_config.yaml, context/model.yaml or transformer_config.json in `save`, then in `outer`,
 * the directory that the save was found in (or NULL), and reads the first of them into *out,
 * whose sizes are all 0 else. file[80]: which one that was, or "".
 * Errors: of that file: ZF_E_FORMAT no YAML, a size out of its range or said twice and
 * differently; ZF_E_LIMIT; ZF_E_UNSUPPORTED built without libyaml.  The sizes do without: they
 * can be had from the chunk grids. */
bool megatron_settings_yaml(struct zf_store *save, struct zf_store *outer,
                            const struct zf_limits *lim, struct megatron_settings *out,
                            char file[80], struct zf_err *err) ZF_CHECKED;

/* The same from the text of such a file. */
bool megatron_settings_yaml_text(const char *text, size_t n, const struct zf_limits *lim,
                                 struct megatron_settings *out, struct zf_err *err) ZF_CHECKED;

#endif
