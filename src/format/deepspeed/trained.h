/* SPDX-License-Identifier: Apache-2.0 */
/* trained/: exactly the parameters that the optimizer holds; and the adapters among the weights. */
#ifndef FORMAT_DEEPSPEED_TRAINED_H
#define FORMAT_DEEPSPEED_TRAINED_H

#include "ranks.h"

/* Names of parameters, sorted. */
struct ds_trained {
    struct ds_name *name;
    uint32_t n;
};

/* Those that the ranks of the tree `dir` train; "" = all ranks. */
bool ds_trained_names(struct ds_save *ds, const struct ds_ranks *all, const char *dir,
                      struct ds_trained *out, struct zf_err *err) ZF_CHECKED;
/* Shows both in the root, and in every rank's tree, as far as it has weights.  Pre: everything else is
 * drafted. */
bool ds_trained_show(struct ds_save *ds, const struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;

#endif
