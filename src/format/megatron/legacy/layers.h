/* SPDX-License-Identifier: Apache-2.0 */
/* Files number the layers of each chunk from 0: the numbers of the whole model. */
#ifndef FORMAT_MEGATRON_LEGACY_LAYERS_H
#define FORMAT_MEGATRON_LEGACY_LAYERS_H

#include "parts.h"

struct legacy_layers {
    uint32_t stages, chunks;
    uint64_t *begin; /* [LEGACY_STACKS * chunks * stages] of each stack's chunks */
    uint64_t *count; /* likewise */
    uint64_t total[LEGACY_STACKS];
    const char *name[LEGACY_STACKS]; /* NULL: there is no such stack */
};

/* Counts the layers of each (virtual chunk, stage) over all files and adds them up, chunks outermost.
 * That also covers stages of unequal length.  Source: megatron/core/transformer/transformer_block.py,
 * transformer_layer.py (get_transformer_layer_offset), where uneven splits and layouts differ by
 * version, but never this order.
 * Errors: ZF_E_UNSUPPORTED a name that is not known; ZF_E_FORMAT ranks of one chunk have different
 * layers; the sum is not num_layers. */
bool legacy_layers_count(struct legacy_layers *l, const struct legacy_join *j,
                         struct zf_err *err) ZF_CHECKED;

/* The number in the whole model of the layer of such a name. */
uint64_t legacy_layers_number(const struct legacy_layers *l, const struct legacy_name *name,
                              uint32_t chunk, uint32_t stage);

#endif
