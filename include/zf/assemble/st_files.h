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
    struct zf_st_boxes boxes; /* empty if the header has no DCP_SHARDING_INFO */
};

struct zf_st_files {
    struct zf_arena *arena;
    zf_vec(struct zf_st_file);
    unsigned long n_ranks; /* ranks with files shard-RRRRR-…; 0 = no file has such a name */
    size_t n_skipped;      /* -o degraded: damaged files, reported in notes */
    /* -o degraded: the first file that is missing or could not be read, in the arena; NULL = none.  Which boxes of
     * which tensors it had is not known. */
    const char *lacks;
    struct zf_err first;     /* the failure of the first skipped file */
    struct zf_expect *ahead; /* files that will be added, for prefetching; or NULL */
};

bool zf_st_files_init(struct zf_st_files *f, const struct zf_limits *lim,
                      struct zf_err *err) ZF_CHECKED;
void zf_st_files_fini(struct zf_st_files *f);
static inline void zf_auto_st_files(struct zf_st_files *f)
{
    zf_st_files_fini(f);
}

/* Announces that the safetensors files of st's `dir` will be added, mostly in the order of their names. */
void zf_st_files_expect(struct zf_st_files *f, struct zf_store *st, const char *dir);

/* Reads the header of st's `path`.  With -o degraded, a damaged file is noted in b and skipped, and one that is shorter
 * or longer than its header says is noted and kept.  Errors: those of zf_st_load. */
bool zf_st_files_add(struct zf_st_files *f, struct zf_store *st, const char *path,
                     const struct zf_limits *lim, struct zf_build *b,
                     struct zf_err *err) ZF_CHECKED;

/* Records in `lacks` that a file is missing or unreadable; fmt gives its name. */
bool zf_st_files_lack(struct zf_st_files *f, struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))) ZF_CHECKED;

/* True if at least one file could be read.  Errors: that of the first file, if all are damaged. */
bool zf_st_files_some(const struct zf_st_files *f, struct zf_err *err) ZF_CHECKED;

/* The name without ".safetensors" and directory; *n_out = its length. */
const char *zf_st_file_stem(const char *path, size_t *n_out);

/* True if the name is that of a safetensors file. */
bool zf_st_file_named(const char *path);

/* The number RRRRR of shard-RRRRR-model-FFFFF-of-NNNNN.safetensors, a file of one rank; 0 = another name. */
unsigned long zf_st_file_rank(const char *name);

/* Shows the unusual entries of __metadata__ as state/<stem>.metadata.json (state/metadata.json if there is only one
 * file). */
bool zf_st_files_metadata(const struct zf_st_files *f, struct zf_build *b,
                          struct zf_err *err) ZF_CHECKED;

/* True if the header of st's `path` says which boxes it holds; false for damaged files. */
bool zf_st_file_has_boxes(struct zf_store *st, const char *path, const struct zf_limits *lim);

#endif
