/* SPDX-License-Identifier: Apache-2.0 */
/* Locates the parts of a save: weights in safetensors, their optimizer, other files. */
#ifndef FORMAT_SAFETENSORS_HF_PARTS_H
#define FORMAT_SAFETENSORS_HF_PARTS_H

#include <zf/assemble/open_opts.h>
#include <zf/base/auto.h>
#include <zf/format.h>

#include "join.h"

struct hf_parts {
    char *index;           /* path of the index JSON, or NULL */
    const char *weights;   /* their directory, "" = that of the save; NULL = there are none */
    const char *optimizer; /* the directory of the optimizer, or NULL */
    bool dcp;              /* the optimizer is a DCP save; else safetensors with an index */
};

/* Finds the parts.  Errors: ZF_E_UNKNOWN several indices. */
bool hf_parts_find(const struct zf_save *save, const struct zf_limits *lim, struct hf_parts *out,
                   struct zf_err *err) ZF_CHECKED;
static inline void zf_auto_hf_parts(struct hf_parts *p)
{
    free(p->index);
}

/* True if the headers of the weights say which box of a tensor each entry holds. */
bool hf_parts_boxes(const struct hf_parts *p, struct zf_store *st, const struct zf_limits *lim);

/* The path "<weights>/.hf_metadata/<name>". */
char *hf_parts_metadata(const struct hf_parts *p, const char *name, struct zf_err *err);

/* Shows the files that from_pretrained needs, from .hf_metadata and the directory of the weights, and notes what is
 * not shown: a consolidated copy; the optimizer, if only the directory of the weights was given. */
bool hf_parts_show_others(const struct hf_parts *p, const struct zf_save *save,
                          const struct zf_open_opts *o, struct zf_build *b,
                          struct zf_err *err) ZF_CHECKED;

struct st_tied {
    const char *head; /* the output embedding in the list, maybe in no file; NULL: not tied */
    bool told;        /* config.json says that it is tied */
};

/* Finds a tied output embedding by the list of names and the weights' config.json; none if the latter denies it.
 * Source: nemo_automodel/components/checkpoint/checkpointing.py, _maybe_build_consolidated_index (0.7): a model
 * that is not from the hub has all names of its state dict in the list, and stateful_wrappers.py, ModelState, drops
 * a tied lm_head before saving; utils.py, get_lm_head_weight_and_name. */
void st_tied_find(const struct hf_parts *p, struct zf_store *st, const struct zf_st_index *number,
                  const struct zf_limits *lim, struct st_tied *out);

/* Call after all tensors: if the head is in no file, makes it a second name of the input embedding, or notes that it is
 * missing. */
bool st_tied_add(const struct st_tied *t, const struct zf_st_index *number, struct zf_names *names,
                 struct zf_build *b, struct zf_err *err) ZF_CHECKED;

#endif
