/* SPDX-License-Identifier: Apache-2.0 */
/* Values that a trainer saves next to the weights: the optimizer, schedulers, RNG states. */
#ifndef ZF_ASSEMBLE_COMPANIONS_H
#define ZF_ASSEMBLE_COMPANIONS_H

#include <zf/assemble/open_opts.h>
#include <zf/model/build.h>

/* Adds the torch.save files in st's root that hold no weights: optimizers as optim/, the tensors of
 * schedulers, RNG states and the like as extra/, everything else as state/<file>.json.  A file
 * that cannot be read is reported in a note: the weights do not depend on it. */
bool zf_companions_add(struct zf_store *st, const struct zf_open_opts *o, struct zf_build *b,
                       struct zf_err *err) ZF_CHECKED;

/* The same for files whose names `fits` accepts; they hold no weights, whatever their names suggest. */
bool zf_companions_add_those(struct zf_store *st, const struct zf_open_opts *o, struct zf_build *b,
                             bool (*fits)(const char *name), struct zf_err *err) ZF_CHECKED;

/* The same for all files in these directories; dir ends with NULL. */
bool zf_companions_add_in(struct zf_store *st, const char *const *dir, const struct zf_open_opts *o,
                          struct zf_build *b, struct zf_err *err) ZF_CHECKED;
/* The same for the files that each rank wrote into a directory next to the weights (rng/, dataloader/). */
bool zf_companions_add_ranks(struct zf_store *st, const struct zf_open_opts *o, struct zf_build *b,
                             struct zf_err *err) ZF_CHECKED;

#endif
