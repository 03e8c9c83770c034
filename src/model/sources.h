/* SPDX-License-Identifier: Apache-2.0 */
/* All sources of one checkpoint, one reference each; maps name them by a 32-bit number.  Number 0
 * is "zeros": there is no source. */
#ifndef MODEL_SOURCES_H
#define MODEL_SOURCES_H

#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/source/source.h>

struct source_number;
struct sources {
    zf_vec(struct zf_source *);    /* at[0] is NULL */
    struct source_number *numbers; /* uthash, by address; while building only */
};

/* The number of s, which gets a reference when it is new; NULL is 0. */
bool sources_add(struct sources *t, struct zf_source *s, uint32_t *out,
                 struct zf_err *err) ZF_CHECKED;
/* Drops those from number n on, the last that were added; n >= 1. */
void sources_cut(struct sources *t, uint32_t n);
/* Forgets what only building needs. */
void sources_seal(struct sources *t);
/* Drops all references. */
void sources_fini(struct sources *t);

#endif
