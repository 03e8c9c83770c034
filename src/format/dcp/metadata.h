/* SPDX-License-Identifier: Apache-2.0 */
/* What the pickled metadata of a torch.distributed.checkpoint says, as flat arrays: which tensors
 * and byte items there are, of which chunks they consist, and in which file each chunk's item
 * stands. Source: torch/distributed/checkpoint/metadata.py, filesystem.py (1.13 … 2.14). */
#ifndef FORMAT_DCP_METADATA_H
#define FORMAT_DCP_METADATA_H

#include <zf/assemble/degraded.h>
#include <zf/codec/pickle.h>
#include <zf/model/build.h>

#include "table.h"

/* Something saved under one name (FQN). */
struct zf_dcp_key {
    const char *name; /* terminated; may hold any byte */
    uint32_t name_len;
    const char *from;    /* path of the metadata file that told of it first */
    uint32_t pass;       /* number of the metadata file that told of it first */
    uint32_t group;      /* number of the state dict it belongs to */
    bool is_bytes;       /* an opaque item; then all that follows is 0 and there is one chunk */
    enum zf_dtype dtype; /* of the whole tensor */
    uint32_t ndim;
    const uint64_t *shape; /* [ndim] elements */
    const uint64_t
        *whole; /* [ndim - 1] the true shape of a flattened tensor (dcp_flat.h), or NULL */
    const struct zf_pv *path; /* planner_data's tuple, or NULL */
    bool doubtful; /* -o degraded: its shape is contradicted, so no byte of it can be given */
    bool composed; /* for whoever opens items: its chunks are tensors made of several others */
};

enum zf_dcp_wrap {
    ZF_DCP_PLAIN,
    ZF_DCP_ZSTD,  /* transform_descriptors ['stream.zstd/1'] */
    ZF_DCP_OTHER, /* any other transformation */
};

/* One box of a tensor, or a bytes item. */
struct zf_dcp_chunk {
    uint32_t key, file; /* numbers; file ZF_DCP_NONE: no item is recorded */
    uint64_t off, len;  /* bytes of the item in its file */
    uint64_t box;       /* where in zf_dcp.box: ndim starts, then ndim sizes, in elements */
    uint64_t addr; /* for whoever places the items: where the data stands in the items source */
    enum zf_dcp_wrap wrap;
    bool lost;  /* its records contradict each other */
    bool empty; /* of no elements, as its tensor */
    bool whole; /* a bytes item that was found to be one whole file */
};

/* Another rank's item for a chunk that is there already. */
struct zf_dcp_copy {
    uint32_t chunk, file; /* numbers */
    uint64_t off, len;    /* bytes */
    enum zf_dcp_wrap wrap;
};

/* State dicts of their own that make up one checkpoint: the same name in two is not one tensor. */
enum { ZF_DCP_GROUPS_MAX = 64 };
struct zf_dcp_group {
    const char *head;   /* a first step for paths that do not have one like it; NULL = none */
    const char *number; /* digits behind the first step, to tell the second model; NULL = none */
};

struct zf_dcp {
    struct zf_dcp_group group[ZF_DCP_GROUPS_MAX];
    uint32_t at_group; /* of the metadata that is read */
    struct zf_dcp_key *key;
    uint64_t n_keys, cap_keys;
    struct zf_dcp_chunk *chunk; /* of size 0 only where the whole tensor is */
    uint64_t n_chunks, cap_chunks;
    struct zf_dcp_copy *copy; /* of the values that every rank repeats (dcp_copies.h) */
    uint64_t n_copies, cap_copies;
    uint64_t *box;
    uint64_t n_box, cap_box;
    const char **file;  /* paths in the store */
    uint64_t *file_end; /* the end of the last item in each, in bytes */
    uint64_t n_files, cap_files, cap_ends;
    const struct zf_pv *root; /* of the metadata read last */
    uint32_t n_passes;
    struct zf_arena *pickles; /* all values */
    struct zf_dcp_table keys, chunks, files;
    uint64_t seed; /* of the hashes */
};

/* Gives an empty one. Errors: ZF_E_NOMEM. */
struct zf_dcp *zf_dcp_new(const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void zf_dcp_free(struct zf_dcp *d); /* with every pickled value; NULL is fine */
static inline void zf_auto_dcp(struct zf_dcp **d)
{
    zf_dcp_free(*d);
}

/* Reads dir/name ("" = the root) and joins it with what was read before: the same tensor may be
 * told of again, with more chunks (rank-local metadata), and a chunk that was already known is
 * passed over. With a degraded build, contradictions become notes and chunks without an item.
 * Errors: ZF_E_FORMAT names the key and what is wrong;
 * ZF_E_UNSUPPORTED dtype, torch 1.12; ZF_E_LIMIT. */
bool zf_dcp_read(struct zf_dcp *d, struct zf_store *st, const char *dir, const char *name,
                 const struct zf_limits *lim, struct zf_build *b, struct zf_err *err) ZF_CHECKED;

#endif
