/* SPDX-License-Identifier: Apache-2.0 */
/* All sources of one checkpoint, one reference each; maps refer to them by a 32-bit index. */
#ifndef MODEL_SOURCES_H
#define MODEL_SOURCES_H

#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/source/source.h>

/* Indices that do not refer to a file. */
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

/* Starts with the entries that do not refer to a file. */
bool sources_init(struct sources *t, struct zf_err *err) ZF_CHECKED;
/* *out: the index of s, which gets a reference if it is new; 0 for NULL. */
bool sources_add(struct sources *t, struct zf_source *s, uint32_t *out,
                 struct zf_err *err) ZF_CHECKED;
/* Drops the sources from index n on, the last ones added. */
void sources_cut(struct sources *t, uint32_t n);
/* Frees the table that only building needs. */
void sources_seal(struct sources *t);
/* Drops all references. */
void sources_fini(struct sources *t);

#endif
