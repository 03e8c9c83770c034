/* SPDX-License-Identifier: Apache-2.0 */
/* What every family needs to know about the files of a store. */
#ifndef ZF_ASSEMBLE_FILES_H
#define ZF_ASSEMBLE_FILES_H

#include <zf/base/vec.h>
#include <zf/source/store.h>

#define ZF_ABSENT_MAX 80

/* Says for an error message what is wrong with st's `path`, which should be a file: "is a FIFO, not a file", or "is
 * missing".  Written to out [ZF_ABSENT_MAX], which is returned. */
const char *zf_absent(struct zf_store *st, const char *path, char *out);

/* A file name of a numbered series: <stem>-<number>-of-<of><tail>, as in
 * "model-00002-of-00003.safetensors"; the last such pair of numbers if a name has several.  With five digits, "_" or
 * "." may precede the numbers, and "_of_" separate them.
 * Source: huggingface_hub, serialization/_base.py; transformers 4.5x, modeling_utils.py. */
struct zf_series {
    size_t stem; /* bytes of the name in front of the numbers */
    unsigned long number, of;
    int width;        /* digits of the first one: 5 with the writers above */
    const char *tail; /* ".safetensors"; points into the name */
};

/* False: no such name; *out is left undefined. */
bool zf_series_parse(const char *name, struct zf_series *out);

/* The files of a directory that form one series: they have the same stem, tail and `of`. */
struct zf_series_files {
    const char *name; /* of the first file; borrowed from the listing */
    struct zf_series as;
    unsigned long lacks; /* the smallest number without a file; 0 = all files exist */
};

/* All series of a directory.  {0} is an empty list; free it with zf_vec_fini(&list.of). */
struct zf_series_list {
    zf_vec(struct zf_series_files) of;
};

/* Lists the series among those of the n entries for which `counts` is true.  A series is numbered from 1 or from 0.
 * Errors: ZF_E_NOMEM. */
bool zf_series_list(const struct zf_entry *e, size_t n, bool (*counts)(const char *name),
                    struct zf_series_list *out, struct zf_err *err) ZF_CHECKED;

/* The series that a file of that name belongs to, or NULL. */
const struct zf_series_files *zf_series_find(const struct zf_series_list *list, const char *name);

/* Fails with the name of the file that the series lacks.  Returns false.  Error: ZF_E_FORMAT. */
bool zf_series_fail(const struct zf_series_files *s, struct zf_err *err);

/* True for the small pointer text that Git LFS leaves in place of a file that was not fetched: the usual reason why a
 * model cloned from a hub does not open.  Source: git-lfs, docs/spec.md (version 1). */
bool zf_lfs_is(struct zf_source *src);

/* Fails with a message that the file is such a pointer, without a path. */
bool zf_lfs_fail(struct zf_err *err);

/* The first file in st's root that is such a pointer, or NULL; borrowed from the listing.  only: the only file that is
 * checked; NULL = all. */
const char *zf_lfs_find(struct zf_store *st, const char *only);

#endif
