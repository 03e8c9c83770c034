/* SPDX-License-Identifier: Apache-2.0 */
/* An output embedding that is the input's: trainers save it once. */
#ifndef FORMAT_SAFETENSORS_TIED_H
#define FORMAT_SAFETENSORS_TIED_H

#include "hf_parts.h"
#include "join.h"

struct st_tied {
    const char *head; /* its name in the list, which may be in no file; NULL: there is none such */
    bool told;        /* config.json says that it is tied */
};

/* A tie by the list of names and the weights' config.json.  Where the latter denies it, there is none.
 * Source: nemo_automodel/components/checkpoint/checkpointing.py, _maybe_build_consolidated_index (0.7): a model that is not of
 * the hub has all names of its state dict in the list, and stateful_wrappers.py, ModelState, drops a tied lm_head
 * before saving; utils.py, get_lm_head_weight_and_name. */
void st_tied_find(const struct hf_parts *p, struct zf_store *st, const struct zf_st_index *number,
                  const struct zf_limits *lim, struct st_tied *out);

/* After all tensors: makes a head that is in no file a second name of the input embedding, or notes that it is not
 * there. */
bool st_tied_add(const struct st_tied *t, const struct zf_st_index *number, struct zf_names *names,
                 struct zf_build *b, struct zf_err *err) ZF_CHECKED;

#endif
