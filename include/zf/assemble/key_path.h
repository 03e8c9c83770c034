/* SPDX-License-Identifier: Apache-2.0 */
/* Where a value is in a checkpoint: the keys that lead to it. */
#ifndef ZF_ASSEMBLE_KEY_PATH_H
#define ZF_ASSEMBLE_KEY_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One step of a path.  A dict key is text (an integer key: its decimal text); a position in a list
 * is text too, with `index` set. */
struct zf_step {
    const char *p;
    size_t n;
    bool index;
};

/* A path of one step is a flat key: dots in it are never nesting, except that an optimizer's entry
 * is recognised by its spelling (`optim….state.…`). */
struct zf_path {
    const struct zf_step *step;
    uint32_t n;
};

#endif
