/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of a save are: weights in safetensors, their optimizer, what lies beside them. */
#ifndef FORMAT_SAFETENSORS_HF_PARTS_H
#define FORMAT_SAFETENSORS_HF_PARTS_H

#include <zf/assemble/open_opts.h>
#include <zf/base/auto.h>
#include <zf/format.h>

#include "join.h"

struct hf_parts {
    char *index; /* path of the index JSON, or NULL */
    const char
        *weights; /* the directory of the weights, "" = the save's own; NULL = there are none */
    const char *optimizer; /* the directory of the optimizer, or NULL */
    bool dcp;              /* it is a save of torch.distributed.checkpoint; else it has an index */
};

/* Errors: ZF_E_UNKNOWN several indices. */
bool hf_parts_find(const struct zf_save *save, const struct zf_limits *lim, struct hf_parts *out,
                   struct zf_err *err) ZF_CHECKED;
static inline void zf_auto_hf_parts(struct hf_parts *p)
{
    free(p->index);
}

/* Do the headers of the weights say which box of a tensor they hold? */
bool hf_parts_boxes(const struct hf_parts *p, struct zf_store *st, const struct zf_limits *lim);

/* The directory "<weights>/.hf_metadata" with this name behind it. */
char *hf_parts_metadata(const struct hf_parts *p, const char *name, struct zf_err *err);

/* Shows the files that from_pretrained wants, of .hf_metadata and of the weights' own directory, and notes what is
 * not shown: a consolidated copy, the optimizer of weights that were pointed at by themselves. */
bool hf_parts_show_others(const struct hf_parts *p, const struct zf_save *save,
                          const struct zf_open_opts *o, struct zf_build *b,
                          struct zf_err *err) ZF_CHECKED;

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
