/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a model's modules, for saves whose keys are in no order. */
#ifndef FORMAT_MEGATRON_BUCKET_ORDER_H
#define FORMAT_MEGATRON_BUCKET_ORDER_H

#include "keys.h"

/* The orders of parameters that are tried. */
enum bucket_order {
    BUCKET_STORED, /* order of the keys in .metadata */
    BUCKET_LOCAL,  /* module order of Megatron's own layers */
    BUCKET_FUSED, /* module order of Transformer Engine, whose norms are part of the next linear layer */
    BUCKET_ORDERS
};

/* The position of a parameter's outermost module in the model. */
uint64_t bucket_order_top(struct mg_text name);
/* The position of a module in its layer; rest: the index in the name at which the module begins. */
uint64_t bucket_order_module(struct mg_text name, size_t rest, enum bucket_order order);
/* The position of the parameter in its module. */
uint64_t bucket_order_ending(struct mg_text name);

#endif
