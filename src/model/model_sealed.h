/* SPDX-License-Identifier: Apache-2.0 */
/* A sealed checkpoint, as the seal makes it and zf_checkpoint_free frees it. */
#ifndef MODEL_MODEL_SEALED_H
#define MODEL_MODEL_SEALED_H

#include <zf/model/model.h>

struct sources;

/* The public part of a checkpoint, followed by its sources. */
struct sealed {
    struct zf_checkpoint c; /* first */
    struct sources *sources;
};

/* The order of a checkpoint's sets and files: as strcmp, but '/' sorts before every other byte, so
 * that a directory is followed by its contents. */
int path_order(const char *a, const char *b);

#endif
