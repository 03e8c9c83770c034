/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a set as a short list: parts of names are levels, and numbered siblings that hold the same (types, shapes) are one
 * line, "layers.{0..31}". */
#ifndef ZF_INSPECT_OUTLINE_H
#define ZF_INSPECT_OUTLINE_H

#include <zf/model/model.h>

struct zf_outline_line {
    const char *path;      /* whole, with "{0..31}" for numbers; valid during the call */
    size_t label;          /* byte in it where the part begins that the line above does not have */
    uint32_t depth;        /* lines above it that it belongs to */
    uint64_t times;        /* siblings that are one line: 32; 1 = no others */
    uint64_t tensors;      /* in one of them */
    uint64_t elems, bytes; /* in all of them, tied tensors once */
    const struct zf_tensor *tensor; /* the line is one, or several of one shape; else NULL */
};

/* Calls fn for every line, from top to bottom.  Errors: of fn, ZF_E_NOMEM. */
bool zf_outline(const struct zf_set *s,
                bool (*fn)(void *ctx, const struct zf_outline_line *line, struct zf_err *err),
                void *ctx, struct zf_err *err) ZF_CHECKED;

#endif
