/* SPDX-License-Identifier: Apache-2.0 */
/* Every cap in the program, one table: it makes the struct, the defaults and `--limit NAME=N`.
 * zerofs(1) lists the same. */
#ifndef ZF_BASE_LIMITS_H
#define ZF_BASE_LIMITS_H

#include <zf/base/err.h>

/* X(name, default, unit, what it caps) */
#define ZF_LIMITS(X)                                                                               \
    X(pickle_bytes, 2ull << 30, "bytes", "one pickle stream")                                      \
    X(pickle_memory, 16ull << 30, "bytes", "memory for the values of one pickle")                  \
    X(pickle_objects, 200000000, "objects", "values made by one pickle")                           \
    X(pickle_depth, 10000, "levels", "nesting of one value")                                       \
    X(pickle_memo, 100000000, "entries", "memo entries of one pickle")                             \
    X(meta_memory, 16, "bytes", "memory for each byte of metadata on disk, beyond meta_slack")     \
    X(meta_slack, 32ull << 20, "bytes",                                                            \
      "memory that any metadata may take, and what may be decompressed beyond its size on disk")   \
    X(json_bytes, 256ull << 20, "bytes", "one JSON or YAML document")                              \
    X(json_depth, 128, "levels", "nesting of one JSON or YAML document")                           \
    X(text_bytes, 64ull << 20, "bytes", "one state/*.json made from a pickle")                     \
    X(zip_entries, 4000000, "entries", "members of one archive")                                   \
    X(zip_directory, 1ull << 30, "bytes", "central directory of one archive")                      \
    X(inflate_bytes, 64ull << 30, "bytes", "one compressed member or item once decompressed")      \
    X(chunk_bytes, 1ull << 30, "bytes", "one compressed chunk of an array once decompressed")      \
    X(tensors, 10000000, "tensors", "tensors of one checkpoint")                                   \
    X(tensor_dims, 64, "dimensions", "dimensions of one tensor")                                   \
    X(view_bytes, 64ull << 20, "bytes", "one tensor that view_ratio would refuse")                 \
    X(view_ratio, 1024, "times", "bytes of a tensor against those that its strides reach")         \
    X(pieces, 100000000, "pieces", "chunks and slices of one checkpoint")                          \
    X(grid_cells, 16777216, "cells", "index cells of one tensor")                                  \
    X(model_memory, 16ull << 30, "bytes", "memory for tensors and maps of one checkpoint")         \
    X(compare_bytes, 64ull << 20, "bytes", "one of two tensors that a recipe compares wholly")     \
    X(recipe_bytes, 1ull << 20, "bytes", "one recipe")                                             \
    X(recipe_parts, 16384, "parts", "parts that a recipe cuts one tensor into")                    \
    X(dir_entries, 1000000, "entries", "names in one directory of a checkpoint")                   \
    X(head_requests, 100000, "requests",                                                           \
      "files of one directory behind an address that are asked for one by one")                    \
    X(open_files, 0, "files",                                                                      \
      "descriptors kept open on shards; 0: what the process may have, less a reserve")             \
    X(cache_bytes, 64ull << 20, "bytes", "decompressed and transposed blocks kept in memory")

/* ZF_LIMIT_tensors and so on: one limit of the table. */
enum zf_limit {
    ZF_LIMIT_NONE,
#define X(name, dflt, unit, what) ZF_LIMIT_##name,
    ZF_LIMITS(X)
#undef X
};

struct zf_limits {
#define X(name, dflt, unit, what) uint64_t name;
    ZF_LIMITS(X)
#undef X
};

/* The defaults of the table. */
struct zf_limits zf_limits_default(void);

/* The memory that metadata of `disk` bytes on disk may take: meta_slack, plus meta_memory for each byte.  The time for
 * reading is proportional to the memory, so this bounds it, too. */
uint64_t zf_limits_meta(const struct zf_limits *lim, uint64_t disk);

/* Applies one "name=number" (a size as zf_num_size reads it).
 * Errors: ZF_E_USAGE unknown name (the sentence lists the known ones) or not a number. */
bool zf_limits_set(struct zf_limits *lim, const char *assignment, struct zf_err *err) ZF_CHECKED;

/* The name of a limit, as zf_limits_set takes it; NULL for ZF_LIMIT_NONE. */
const char *zf_limit_name(enum zf_limit limit);

/* As zf_fail, with ZF_E_LIMIT, because of `limit`, which a larger value would avoid.  The message should name it.
 * Returns false. */
bool zf_fail_limit(struct zf_err *err, enum zf_limit limit, uint64_t off, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
