/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of a save are: weights in safetensors, their optimizer, what lies beside them. */
#ifndef FORMAT_SAFETENSORS_HF_PARTS_H
#define FORMAT_SAFETENSORS_HF_PARTS_H

#include <zf/assemble/open_opts.h>
#include <zf/base/auto.h>
#include <zf/format.h>

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
bool hf_parts_beside(const struct hf_parts *p, const struct zf_save *save,
                     const struct zf_open_opts *o, struct zf_build *b,
                     struct zf_err *err) ZF_CHECKED;

#endif
