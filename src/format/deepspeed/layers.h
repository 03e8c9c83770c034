/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a pipeline's layers. */
#ifndef FORMAT_DEEPSPEED_LAYERS_H
#define FORMAT_DEEPSPEED_LAYERS_H

#include "ranks.h"

struct ds_layer {
    const struct ds_file *file;
    struct ds_entry *entry; /* under the names of the file, which lack the layer's own */
    uint32_t n;
    struct ds_rank *owner; /* NULL: no names of parameters or buffers speak of it */
    /* "tied_modules.<key>." of the module whose file it is; of one whose masters do not round to it */
    struct ds_name tied, unlike;
};

struct ds_layers {
    struct ds_layer *layer; /* [ds->dir.n_layers] in the order of the files */
};

/* Reads all files, and gives those of layers that a rank's names speak of to its model.
 * Errors: ZF_E_FORMAT a layer's file is missing, two stages claim it; those of reading. */
bool ds_layers_read(struct ds_save *ds, struct ds_ranks *all, struct ds_layers *out,
                    struct zf_err *err) ZF_CHECKED;
/* Once the masters of mp are drafted: gives it the file of each tied module of it that nobody has yet. */
bool ds_layers_tied(struct ds_rank *mp, struct ds_layers *l, struct zf_err *err) ZF_CHECKED;
/* Once all ranks are drafted: drafts what is left, layers of which nothing is trained, for the rank of the
 * layer before.  Errors: ZF_E_FORMAT the file should be a tied module's, but is not what its masters
 * round to. */
bool ds_layers_frozen(struct ds_save *ds, struct ds_ranks *all, struct ds_layers *l,
                      struct zf_err *err) ZF_CHECKED;

#endif
