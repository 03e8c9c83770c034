/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a set as a short list: the parts of names are levels, and numbered siblings with the same contents
 * (types, shapes) share a line, "layers.{0..31}". */
#ifndef ZF_INSPECT_OUTLINE_H
#define ZF_INSPECT_OUTLINE_H

#include <zf/model/model.h>

struct zf_outline_line {
    const char *path;      /* full path, with "{0..31}" for numbers; valid during the call */
    size_t label;          /* byte offset in path of the part that the parent line does not have */
    uint32_t depth;        /* number of ancestor lines */
    uint64_t times;        /* number of siblings on this line, such as 32; 1 = no others */
    uint64_t tensors;      /* tensors in one of the siblings */
    uint64_t elems, bytes; /* in all of them; tied tensors count once */
    const struct zf_tensor
        *tensor; /* if the line is a tensor, or several of one shape; else NULL */
};

/* Calls fn for every line, from top to bottom.  Errors: of fn, ZF_E_NOMEM. */
bool zf_outline(const struct zf_set *s,
                bool (*fn)(void *ctx, const struct zf_outline_line *line, struct zf_err *err),
                void *ctx, struct zf_err *err) ZF_CHECKED;

#endif
