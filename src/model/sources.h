/* SPDX-License-Identifier: Apache-2.0 */
/* All sources of one checkpoint, one reference each; maps name them by a 32-bit number. */
#ifndef MODEL_SOURCES_H
#define MODEL_SOURCES_H

#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/source/source.h>

/* The numbers that mean no file. */
enum {
    SOURCES_ZEROS,   /* there is no source */
    SOURCES_NONE,    /* lost: no piece covers the byte (only read before the seal) */
    SOURCES_SEVERAL, /* lost: several do */
    SOURCES_FILES    /* the first of all others */
};

struct source_number;
struct sources {
    zf_vec(struct zf_source *);    /* at[SOURCES_ZEROS] is NULL */
    struct source_number *numbers; /* uthash, by address; while building only */
};

/* With the numbers that mean no file. */
bool sources_init(struct sources *t, struct zf_err *err) ZF_CHECKED;
/* The number of s, which gets a reference when it is new; NULL is 0. */
bool sources_add(struct sources *t, struct zf_source *s, uint32_t *out,
                 struct zf_err *err) ZF_CHECKED;
/* Drops those from number n on, the last that were added. */
void sources_cut(struct sources *t, uint32_t n);
/* Forgets what only building needs. */
void sources_seal(struct sources *t);
/* Drops all references. */
void sources_fini(struct sources *t);

#endif
