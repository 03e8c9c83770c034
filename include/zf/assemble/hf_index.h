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
    zf_vec(const char *)
        file; /* paths (in the store) of the named files, each once, in the order of their first
                                  tensor; in the arena */
    const char *
        groups; /* the file of param_groups, for the index of an optimizer; in the arena; or NULL */
    char *path; /* of the index, for messages */
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

/* The same for a file that maps names to the number FFFFF of files shard-RRRRR-model-FFFFF-of-NNNNN.safetensors;
 * out->file then has these names with "*" for RRRRR and NNNNN. */
bool zf_st_index_load_numbers(struct zf_store *st, const char *path, const struct zf_limits *lim,
                              struct zf_st_index *out, struct zf_err *err) ZF_CHECKED;

/* The file that holds the tensor according to the index (borrowed), or NULL. */
const char *zf_st_index_file(const struct zf_st_index *x, const char *tensor);

/* Finds an index: `file` (the single file that the user named), if it is one; for NULL, the index in `dir` ("" = the
 * root), model<tail> or else the only *<tail>.  *path_out: malloc'ed, NULL if there is none.
 * tail: ".safetensors.index.json", ".bin.index.json".
 * Errors: ZF_E_UNKNOWN there are several, and none is model<tail>. */
bool zf_st_index_find(struct zf_store *st, const char *dir, const char *file, const char *tail,
                      char **path_out, struct zf_err *err) ZF_CHECKED;

/* Callbacks of a reader of an index's files. */
struct zf_st_index_reader {
    void *ctx;
    /* Adds a file; here = false: it is missing, and the build is degraded. */
    bool (*add)(void *ctx, const char *file, bool here, struct zf_err *err);
    /* The reason why `tensor`, which the index places in `file`, is in none of the files read; NULL = it is in one. */
    const char *(*lacks)(void *ctx, const char *tensor, const char *file);
};

/* Adds the files of x in turn.  In a degraded build, missing files are noted.
 * Errors: those of add; ZF_E_FORMAT a file is missing. */
bool zf_st_index_read(const struct zf_st_index *x, struct zf_store *st,
                      const struct zf_st_index_reader *r, struct zf_build *b,
                      struct zf_err *err) ZF_CHECKED;

/* Checks that every tensor of x is in one of the files; in a degraded build, tensors in none are noted and recorded as
 * missing.  Errors: ZF_E_FORMAT. */
bool zf_st_index_check(const struct zf_st_index *x, const struct zf_st_index_reader *r,
                       struct zf_build *b, struct zf_err *err) ZF_CHECKED;

#endif
