/* SPDX-License-Identifier: Apache-2.0 */
/* A Hugging Face index JSON: which file holds which tensor.
 * Source: transformers 4.5x, modeling_utils.py save_pretrained; huggingface_hub,
 * serialization/_base.py. */
#ifndef ZF_ASSEMBLE_HF_INDEX_H
#define ZF_ASSEMBLE_HF_INDEX_H

#include <zf/base/arena.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/model/build.h>
#include <zf/source/store.h>

struct zf_st_index_entry {
    UT_hash_handle hh;  /* key: the tensor */
    const char *tensor; /* in the arena */
    uint32_t file;      /* number of the file that holds it */
};

struct zf_st_index {
    struct zf_arena *arena;
    struct zf_st_index_entry *entry; /* the map, in its order; uthash */
    zf_vec(const char *) file; /* the files named, each once, in the order of their first tensor; in
                                  the arena; paths in the store */
    const char *groups; /* the file of param_groups, where it is an optimizer's; arena; or NULL */
    char *path;         /* of the index, for messages */
};

void zf_st_index_fini(struct zf_st_index *x);
static inline void zf_auto_st_index(struct zf_st_index *x)
{
    zf_st_index_fini(x);
}

/* Reads st's `path`.  Errors: ZF_E_FORMAT no sound JSON, no weight_map, a file name that is
 * absolute or holds "..". */
bool zf_st_index_load(struct zf_store *st, const char *path, const struct zf_limits *lim,
                      struct zf_st_index *out, struct zf_err *err) ZF_CHECKED;

/* The same of a file that maps names to numbers F, of shard-RRRRR-model-FFFFF-of-NNNNN.safetensors; with
 * a "*" for each of the others they are the names of its files. */
bool zf_st_index_load_numbers(struct zf_store *st, const char *path, const struct zf_limits *lim,
                              struct zf_st_index *out, struct zf_err *err) ZF_CHECKED;

/* The file said to hold the tensor (borrowed), or NULL. */
const char *zf_st_index_file(const struct zf_st_index *x, const char *tensor);

/* `file` (the one file that was pointed at) if it is an index, or for NULL the index in `dir` ("" = the root):
 * model<tail>, else the only *<tail>; malloc'ed, NULL when there is none.
 * tail: ".safetensors.index.json", ".bin.index.json".
 * Errors: ZF_E_UNKNOWN several and none of them is the plain one. */
bool zf_st_index_find(struct zf_store *st, const char *dir, const char *file, const char *tail,
                      char **path_out, struct zf_err *err) ZF_CHECKED;

/* Whoever reads the files of an index. */
struct zf_st_index_reader {
    void *ctx;
    /* One file; here = false: it is missing, and the build is degraded. */
    bool (*add)(void *ctx, const char *file, bool here, struct zf_err *err);
    /* Why `tensor`, said to be in `file`, is in none of the files that were read; NULL = it is. */
    const char *(*lacks)(void *ctx, const char *tensor, const char *file);
};

/* Adds the files of x in turn.  A missing one is noted where the build is degraded.
 * Errors: those of add; ZF_E_FORMAT a file is missing. */
bool zf_st_index_read(const struct zf_st_index *x, struct zf_store *st,
                      const struct zf_st_index_reader *r, struct zf_build *b,
                      struct zf_err *err) ZF_CHECKED;

/* Every tensor of x must be in one of the files; where the build is degraded, what is in none is
 * noted and counts as missing.  Errors: ZF_E_FORMAT. */
bool zf_st_index_check(const struct zf_st_index *x, const struct zf_st_index_reader *r,
                       struct zf_build *b, struct zf_err *err) ZF_CHECKED;

#endif
