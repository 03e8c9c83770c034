/* SPDX-License-Identifier: Apache-2.0 */
/* Some safetensors files of one checkpoint, with their headers read. */
#ifndef ZF_ASSEMBLE_ST_FILES_H
#define ZF_ASSEMBLE_ST_FILES_H

#include <zf/assemble/open_opts.h>
#include <zf/assemble/st_boxes.h>
#include <zf/base/vec.h>
#include <zf/codec/safetensors.h>
#include <zf/model/build.h>

struct zf_st_file {
    const char *path; /* in the store; arena */
    struct zf_source *src;
    struct zf_st_header head;
    struct zf_st_boxes boxes; /* none where the header has no DCP_SHARDING_INFO */
};

struct zf_st_files {
    struct zf_arena *arena;
    zf_vec(struct zf_st_file);
    unsigned long n_ranks; /* that have files shard-RRRRR-…; 0 = none is called so */
    size_t n_skipped;      /* -o degraded: damaged files, reported in notes */
    /* -o degraded: the first file that should be here and could not be read, in the arena; NULL = none.
     * What it said about the boxes of any tensor is lost with it. */
    const char *lacks;
    struct zf_err first;     /* what was wrong with the first that was skipped */
    struct zf_expect *ahead; /* those that will be added; or NULL */
};

bool zf_st_files_init(struct zf_st_files *f, const struct zf_limits *lim,
                      struct zf_err *err) ZF_CHECKED;
void zf_st_files_fini(struct zf_st_files *f);
static inline void zf_auto_st_files(struct zf_st_files *f)
{
    zf_st_files_fini(f);
}

/* The safetensors files of st's `dir` will be added, mostly in the order of their names. */
void zf_st_files_expect(struct zf_st_files *f, struct zf_store *st, const char *dir);

/* Reads the header of st's `path`.  With -o degraded a damaged file is noted in b and skipped, and
 * one that is shorter or longer than its header says is noted and kept.  Errors: of zf_st_load. */
bool zf_st_files_add(struct zf_st_files *f, struct zf_store *st, const char *path,
                     const struct zf_limits *lim, struct zf_build *b,
                     struct zf_err *err) ZF_CHECKED;

/* Remembers in `lacks` that this file is missing or unreadable; fmt makes its name. */
bool zf_st_files_lack(struct zf_st_files *f, struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))) ZF_CHECKED;

/* Is there a file that could be read?  Errors: of the first one, where all are damaged. */
bool zf_st_files_some(const struct zf_st_files *f, struct zf_err *err) ZF_CHECKED;

/* The name without ".safetensors" and directory; *n_out = its length. */
const char *zf_st_file_stem(const char *path, size_t *n_out);

/* Is this a safetensors file by its name? */
bool zf_st_file_named(const char *path);

/* R of shard-RRRRR-model-FFFFF-of-NNNNN.safetensors, what one rank wrote; 0 = another name. */
unsigned long zf_st_file_rank(const char *name);

/* Shows what __metadata__ holds beyond the usual, as state/<stem>.metadata.json (or
 * state/metadata.json when the file is the only one). */
bool zf_st_files_metadata(const struct zf_st_files *f, struct zf_build *b,
                          struct zf_err *err) ZF_CHECKED;

/* Does the header of st's `path` say which boxes it holds?  Damaged files do not. */
bool zf_st_file_has_boxes(struct zf_store *st, const char *path, const struct zf_limits *lim);

#endif
