/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a pipeline's layers. */
#ifndef FORMAT_DEEPSPEED_LAYERS_H
#define FORMAT_DEEPSPEED_LAYERS_H

#include "ranks.h"

struct ds_layer {
    const struct ds_file *file;
    struct ds_entry *entry; /* under the names of the file, which lack the layer's own */
    uint32_t n;
    struct ds_rank *owner;   /* NULL: no names of parameters or buffers speak of it */
    struct ds_name tied_key; /* "tied_modules.<key>.": the tied module this file belongs to */
    struct ds_name
        mismatch_key; /* a tied module of the same names and shapes whose masters differ */
};

struct ds_layers {
    struct ds_layer *layer; /* [ds->dir.n_layers] in the order of the files */
    const struct ds_ranks *all;
};

/* Reads all files, and gives those of layers that a rank's names speak of to its model.
 * Errors: ZF_E_FORMAT a layer's file is missing, two stages claim it; those of reading. */
bool ds_layers_read(struct ds_save *ds, struct ds_ranks *all, struct ds_layers *out,
                    struct zf_err *err) ZF_CHECKED;
/* "tied_modules.<key>." of a parameter's name; n = 0: it is none. */
struct ds_name ds_layers_tied_key(struct ds_name name);
/* Appends the entries of the layer to the model, with `head` in front of their names. */
bool ds_layers_give(struct ds_rank *mp, const struct ds_layer *l, const char *head,
                    struct zf_err *err) ZF_CHECKED;

#endif
