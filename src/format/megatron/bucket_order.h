/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a model's modules, for saves whose keys have none. */
#ifndef FORMAT_MEGATRON_BUCKET_ORDER_H
#define FORMAT_MEGATRON_BUCKET_ORDER_H

#include "keys.h"

/* The orders of a model's parameters that are tried. */
enum bucket_order {
    BUCKET_STORED, /* of the keys in .metadata */
    BUCKET_LOCAL,  /* of the modules of Megatron's own layers */
    BUCKET_FUSED,  /* of Transformer Engine's, whose norms belong to the layer behind them */
    BUCKET_ORDERS
};

/* The place of a parameter's outermost module among the others. */
uint64_t bucket_order_top(struct mg_text name);
/* That of a module of a layer; rest: where in the name it begins. */
uint64_t bucket_order_module(struct mg_text name, size_t rest, enum bucket_order order);
/* That of the parameter among those of its module. */
uint64_t bucket_order_ending(struct mg_text name);

#endif
