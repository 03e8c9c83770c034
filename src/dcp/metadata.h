/* SPDX-License-Identifier: Apache-2.0 */
/* The pickled metadata of a torch.distributed.checkpoint as flat arrays: its tensors and bytes items,
 * the chunks they consist of, and the file range that holds each chunk's item.  Keys, chunks and files
 * are numbered and looked up through hash tables: a save of a thousand ranks has millions of chunks.
 * Source: torch/distributed/checkpoint/metadata.py, filesystem.py (1.13 … 2.15). */
#ifndef DCP_METADATA_H
#define DCP_METADATA_H

#include <zf/assemble/degraded.h>
#include <zf/assemble/names.h>
#include <zf/base/sorted.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/codec/pickle.h>
#include <zf/dcp.h>
#include <zf/model/build.h>

#define ZF_DCP_NONE UINT32_MAX /* no key, chunk or file */

#define ZF_DCP_WHOLE_DIMS 64 /* most dimensions of a flattened tensor */

/* Something saved under one name (FQN).  Keys and chunks must be small: there can be millions of either. */
struct dcp_key {
    const char *name;      /* NUL-terminated; may contain any byte */
    const uint64_t *shape; /* [ndim] elements, as stored; preceded by ndim zeros */
    /* [ndim - 1] the true shape of a flattened tensor (mcore_data.h), or NULL */
    const uint64_t *whole;
    const uint32_t *steps; /* from planner_data (paths.h); NULL: its name is the path */
    uint32_t name_len;
    uint32_t ndim;
    uint32_t pass;      /* number of the metadata file that described it first */
    unsigned group : 8; /* number of the state dict it belongs to */
    unsigned dtype : 8; /* enum zf_dtype, of the whole tensor */
    bool is_bytes : 1;  /* an opaque item; it has no dtype, and one chunk */
    bool
        doubtful : 1; /* -o degraded: its shape is contradicted, so none of its bytes can be read */
    /* set while placing (composed.h): its items are tensors made of several others */
    bool composed : 1;
    /* set while placing: a bytes item of another state dict has the same path; its directory is prepended (paths.h) */
    bool apart : 1;
};

enum dcp_wrap {
    ZF_DCP_PLAIN,
    ZF_DCP_ZSTD,  /* transform_descriptors ['stream.zstd/1'] */
    ZF_DCP_OTHER, /* any other transformation */
};

/* An item: a range of a file. */
struct dcp_item {
    uint32_t file; /* file number; ZF_DCP_NONE: none is recorded */
    enum dcp_wrap wrap;
    uint64_t off,
        len; /* bytes; once tensors.c has placed a tensor's item, off is its address in the items
                        * source of its file */
};

/* One box of a tensor, or a bytes item. */
struct dcp_chunk {
    uint32_t key; /* number of its key */
    bool lost;    /* its records contradict each other, or its item is damaged */
    bool empty;   /* without elements, like its tensor */
    bool whole;   /* a bytes item that was verified to be one whole file */
    struct dcp_item item;
    const uint64_t *box; /* ndim starts, then ndim sizes, in elements */
};

/* Another rank's item for a chunk that exists already. */
struct dcp_copy {
    uint32_t chunk; /* number */
    struct dcp_item item;
};

/* A file that contains items. */
struct dcp_file {
    const char *path; /* in the store */
    uint64_t end;     /* end of its last item, in bytes */
    bool foreign;     /* degraded: not the file that the metadata describes */
};

/* Maps the name of a key or a file to its number. */
struct dcp_number {
    UT_hash_handle hh;
    uint32_t number;
};

struct zf_dcp {
    struct zf_dcp_group group[ZF_DCP_GROUPS_MAX];
    uint32_t n_groups, at_group; /* at: the group of the metadata being read */
    struct zf_limits lim;
    struct zf_names *names; /* borrowed from the caller, who has collected all paths; NULL = none */
    zf_vec(struct dcp_key) key;
    zf_vec(struct dcp_chunk) chunk; /* empty ones only if the whole tensor is empty */
    zf_vec(struct dcp_copy) copy;   /* of values that every rank saves (replicas.c) */
    zf_vec(uint64_t) box;           /* the current box (dcp_box_room) */
    zf_vec(struct dcp_file) file;
    zf_vec(const char *) pass; /* paths of the metadata files read; keys count from 1 */
    bool patched;              /* degraded: contradictions were ignored, file ends may be wrong */
    struct zf_arena *pickles;  /* all values */
    struct zf_source **source; /* [file.n] once placed; NULL = missing (degraded), or not needed */
    struct zf_draft **draft;   /* [key.n] once placed */
    struct dcp_grid *grid;     /* [key.n] once asked for (ask.c) */
    struct dcp_number *files;  /* uthash, by path */
    struct dcp_number *keys[ZF_DCP_GROUPS_MAX]; /* uthash, by name */
    struct zf_arena *numbers;                   /* entries of `keys` */
    uint32_t next_key;                          /* the key after the one found last */
    uint32_t next_chunk;                        /* the chunk after the one found last */
    bool hides;                                 /* some chunk is hidden (dcp_add_chunk) */
    uint64_t newest;                            /* number of chunks when the last key was added */
    struct zf_sorted chunks; /* half of the hash of (key, start), then the number */
};

/* The key of this name (borrowed) in the state dict being read; added if it is new.
 * Errors: ZF_E_LIMIT tensors; ZF_E_NOMEM. */
bool dcp_take_key(struct zf_dcp *d, const char *p, uint64_t n, uint32_t *out, bool *new_out,
                  struct zf_err *err) ZF_CHECKED;
/* The key of this name in the state dict being read, or ZF_DCP_NONE. */
uint32_t dcp_find_key(struct zf_dcp *d, const char *p, uint64_t n);

/* Room for ndim starts and ndim sizes, which dcp_add_chunk keeps; valid until the next call.
 * NULL: ZF_E_NOMEM. */
uint64_t *dcp_box_room(struct zf_dcp *d, uint32_t ndim, struct zf_err *err);
/* Adds a chunk of `key` with the box that was written to dcp_box_room; hidden: dcp_find_chunk does not
 * find it.  Errors: ZF_E_LIMIT pieces; ZF_E_NOMEM. */
struct dcp_chunk *dcp_add_chunk(struct zf_dcp *d, uint32_t key, bool hidden,
                                const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
/* Frees the tables for lookups by name or place. */
void dcp_forget_names(struct zf_dcp *d);
/* The first chunk of `key` that starts at `start` and has number `from` or more, or ZF_DCP_NONE. */
uint32_t dcp_find_chunk(struct zf_dcp *d, uint32_t key, const uint64_t *start, uint64_t from);

/* The number of the file at path; a new path is copied. */
bool dcp_take_file(struct zf_dcp *d, const char *path, uint32_t *out,
                   struct zf_err *err) ZF_CHECKED;

/* A metadata file that is being read. */
struct dcp_reading {
    struct zf_dcp *d;
    const struct zf_limits *lim;
    struct zf_build *b;
    const char *dir, *path;        /* its directory, its own path */
    uint64_t first_chunk;          /* number of this file's first chunk */
    const struct zf_pv *last_path; /* most items refer to their file by the same pickled string */
    uint32_t last_file;
    uint64_t n_strange; /* number of items without a tensor */
};

/* Adds the file's name to the failure, once.  Returns false. */
bool dcp_in_file(const struct dcp_reading *r, struct zf_err *err);

/* In a degraded build, notes the failure and returns true. */
bool dcp_forgive(struct dcp_reading *r, struct zf_err *err);

/* ---- its parts, each in a file of its own ---- */

/* Reads one entry of state_dict_metadata into r->d; the entry may be freed afterwards.  A name that an
 * earlier metadata file described (rank-local metadata) gets further chunks; known chunks are skipped.
 * Errors: ZF_E_FORMAT names the key; ZF_E_UNSUPPORTED dtype, torch 1.12; ZF_E_LIMIT. */
bool dcp_take_state(struct dcp_reading *r, const struct zf_pv *key, const struct zf_pv *v,
                    struct zf_err *err) ZF_CHECKED;
/* Reads one pair of storage_data into the chunks of r->d, after state_dict_metadata; the pair may be freed afterwards.
 * Errors: ZF_E_FORMAT names the key; ZF_E_NOMEM. */
bool dcp_take_storage(struct dcp_reading *r, const struct zf_pv *index, const struct zf_pv *info,
                      struct zf_err *err) ZF_CHECKED;
/* Notes what was strange, at the end.  Errors: ZF_E_NOMEM. */
bool dcp_end_storage(const struct dcp_reading *r, struct zf_err *err) ZF_CHECKED;

#endif
