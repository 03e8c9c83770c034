/* SPDX-License-Identifier: Apache-2.0 */
/* A serialized description of a source, from which another process can make the same source again
 * without parsing the files. */
#ifndef ZF_SOURCE_RECIPE_H
#define ZF_SOURCE_RECIPE_H

#include <zf/base/bytes.h>
#include <zf/base/out.h>
#include <zf/source/source.h>

struct zf_source_kind;

struct zf_recipe {
    const struct zf_source_kind *kind;
    struct zf_source *parent; /* borrowed, or NULL */
    uint64_t n[3];
    struct zf_out bytes; /* further data */
};

/* The arguments for making it again.  All are borrowed, and all but the store untrusted, as any file is. */
struct zf_remake {
    struct zf_source *parent; /* or NULL */
    uint64_t n[3];
    struct zf_bytes bytes;
    struct zf_store *store;
    const struct zf_limits *lim;
};

struct zf_source_kind {
    const char *name;
    /* Returns a reference.  Errors: ZF_E_FORMAT the recipe is invalid; of making the source. */
    struct zf_source *(*make)(struct zf_remake *r, struct zf_err *err);
};

/* The kinds of src/source, except files, which the store opens; ends with NULL. */
extern const struct zf_source_kind *const zf_source_kinds[];

#endif
