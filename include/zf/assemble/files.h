/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about one file of a store that every family asks. */
#ifndef ZF_ASSEMBLE_FILES_H
#define ZF_ASSEMBLE_FILES_H

#include <zf/base/vec.h>
#include <zf/source/store.h>

#define ZF_ABSENT_MAX 80

/* For a sentence about st's `path`, which should be a file: "is a FIFO, not a file", or "is missing"
 * when nothing is there.  Written to out [ZF_ABSENT_MAX], which is returned. */
const char *zf_absent(struct zf_store *st, const char *path, char *out);

/* A file name of a numbered series: <stem>-<number>-of-<of><tail>, as in
 * "model-00002-of-00003.safetensors"; the last such numbers where a name has several.
 * Numbers of five digits may stand behind "_" or "." and around "_of_" too.
 * Source: huggingface_hub, serialization/_base.py; transformers 4.5x, modeling_utils.py. */
struct zf_series {
    size_t stem; /* bytes of the name in front of the numbers */
    unsigned long number, of;
    int width;        /* digits of the first of them: 5 as the writers above give them */
    const char *tail; /* ".safetensors"; points into the name */
};

/* False: no such name; *out is left undefined. */
bool zf_series_parse(const char *name, struct zf_series *out);

/* The files of a directory that are of one series: of one stem, tail and `of`. */
struct zf_series_files {
    const char *name; /* of the first; borrowed from the listing */
    struct zf_series as;
    unsigned long lacks; /* the least number without a file; 0 = all are there */
};

/* All series of a directory.  {0} is an empty list; zf_vec_fini(&list.of) ends it. */
struct zf_series_list {
    zf_vec(struct zf_series_files) of;
};

/* Lists the series of those of the n entries that `counts` says yes to.  A series counts from 1, or
 * all of it from 0.  Errors: ZF_E_NOMEM. */
bool zf_series_list(const struct zf_entry *e, size_t n, bool (*counts)(const char *name),
                    struct zf_series_list *out, struct zf_err *err) ZF_CHECKED;

/* The series that a file of that name belongs to, or NULL. */
const struct zf_series_files *zf_series_find(const struct zf_series_list *list, const char *name);

/* Says which file is missing of a series that lacks one; false.  Error: ZF_E_FORMAT. */
bool zf_series_fail(const struct zf_series_files *s, struct zf_err *err);

/* Git LFS leaves a small text in place of a file that was not fetched: the usual reason why a model
 * cloned from a hub does not open.  Source: git-lfs, docs/spec.md (version 1). */
bool zf_lfs_is(struct zf_source *src);

/* Says so, without a path. */
bool zf_lfs_fail(struct zf_err *err);

/* The first file in st's root that is such a text, or NULL; borrowed from the listing.  only: look
 * at no other file; NULL = at all. */
const char *zf_lfs_find(struct zf_store *st, const char *only);

#endif
