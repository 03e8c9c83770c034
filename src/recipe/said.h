/* SPDX-License-Identifier: Apache-2.0 */
/* Small JSON and YAML files of the checkpoint, read once, and values in them by dotted paths. */
#ifndef RECIPE_SAID_H
#define RECIPE_SAID_H

#include <zf/codec/json.h>
#include <zf/model/model.h>

#define MAX_DOCUMENTS 64

struct said {
    const struct zf_checkpoint *c;
    const struct zf_limits *lim;
    struct document {
        char *path;   /* owned, as the values are */
        json_t *root; /* NULL = there is none, or it cannot be read */
    } doc[MAX_DOCUMENTS];
    uint32_t n;
    struct zf_err why; /* why one could not be read; its code is ZF_OK where all could */
    char clash[300];   /* files that are read as one say different things; "" = they do not */
};

void said_fini(struct said *s);
static inline void zf_auto_said(struct said *s)
{
    said_fini(s);
}

/* The document at `path` of the checkpoint; YAML as JSON would be, but without what is empty.  Borrowed; NULL: there is
 * none that can be read. */
json_t *said_file(struct said *s, const char *path);
/* The same of all whose paths begin as `path`, which ends with '*', as one object; its names have '_' for '-'. */
json_t *said_files(struct said *s, const char *path);
/* Adds the file's settings to root, which must be an object of said_files().  A value that is there already and is
 * another: s->clash. */
bool said_also(struct said *s, json_t *root, const char *path);

/* The value at prefix.path, or NULL.  Names may hold dots themselves, or be positions in lists; '-' in them is as good
 * as '_'.  Borrowed. */
json_t *said_find(json_t *root, const char *prefix, const char *path);
/* Is there any value at or below prefix ("" = the root)? */
bool said_any(json_t *root, const char *prefix);

#endif
