/* SPDX-License-Identifier: Apache-2.0 */
/* Construction of a source as numbers and bytes: another process can make the same source again from the
 * same files without parsing them. */
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
    struct zf_out bytes; /* what is more than three numbers */
};

/* Arguments for making it again.  Everything is borrowed, and all but the store is as untrusted as any file. */
struct zf_remake {
    struct zf_source *parent; /* or NULL */
    uint64_t n[3];
    struct zf_bytes bytes;
    struct zf_store *store;
    const struct zf_limits *lim;
};

struct zf_source_kind {
    const char *name;
    /* Gives a reference.  Errors: ZF_E_FORMAT the recipe makes no sense; of making the source. */
    struct zf_source *(*make)(struct zf_remake *r, struct zf_err *err);
};

/* Those of this room; ends with NULL.  Files are the store's. */
extern const struct zf_source_kind *const zf_source_kinds[];

#endif
