/* SPDX-License-Identifier: Apache-2.0 */
/* Reads saves of torch.distributed.checkpoint: first the metadata of one or several state dicts, then places everything
 * in them in the tree, under names that the caller's rules give.  Shared by the families dcp and megatron, which know
 * where the metadata are and what a save is. */
#ifndef ZF_DCP_H
#define ZF_DCP_H

#include <zf/assemble/names.h>
#include <zf/base/auto.h>
#include <zf/model/build.h>
#include <zf/source/recipe.h>

struct zf_dcp;

/* The kinds of sources in a model made from DCP; ends with NULL. */
extern const struct zf_source_kind *const zf_dcp_kinds[];

/* Makes an empty one.  Errors: ZF_E_NOMEM. */
struct zf_dcp *zf_dcp_new(const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void zf_dcp_free(struct zf_dcp *d); /* with every pickled value; NULL is fine */
static inline void zf_auto_dcp(struct zf_dcp **d)
{
    zf_dcp_free(*d);
}

/* Separate state dicts that make up one checkpoint: the same name in two of them means two tensors. */
enum { ZF_DCP_GROUPS_MAX = 256 };
struct zf_dcp_group {
    const char *head;   /* a first step for paths that have no similar one; NULL = none */
    const char *number; /* digits after the first step, for the second model; NULL = none */
};
/* Metadata read from here on belong to another state dict.  Without a call, all belong to one without head and number.
 * Borrows the texts.  At most ZF_DCP_GROUPS_MAX calls. */
void zf_dcp_begin(struct zf_dcp *d, struct zf_dcp_group group);

/* Reads dir/name ("" = the root) and joins it with what was read before: the same tensor may be
 * described again, with more chunks (rank-local metadata), and a chunk that was already known is
 * passed over. With a degraded build, contradictions become notes and chunks without an item.
 * Errors: ZF_E_FORMAT names the key and what is wrong;
 * ZF_E_UNSUPPORTED dtype, torch 1.12; ZF_E_LIMIT. */
bool zf_dcp_read(struct zf_dcp *d, struct zf_store *st, const char *dir, const char *name,
                 const struct zf_limits *lim, struct zf_build *b, struct zf_err *err) ZF_CHECKED;
/* True if `dir` looks like a save, finished or not. */
bool zf_dcp_is_save(struct zf_store *st, const char *dir);
/* The name of the metadata file in `dir` (of the first rank, if each rank has one); borrowed from the listing; NULL:
 * there is none. */
const char *zf_dcp_metadata_in(struct zf_store *st, const char *dir);
/* Reads all metadata of the save in `dir`.  Notes data files that none of them names, and per-rank metadata next to
 * .metadata, which are not read.  Errors: those of zf_dcp_read; ZF_E_FORMAT there are none. */
bool zf_dcp_read_dir(struct zf_dcp *d, struct zf_store *st, const char *dir,
                     const struct zf_limits *lim, struct zf_build *b,
                     struct zf_err *err) ZF_CHECKED;

/* The number of metadata files that were read. */
uint32_t zf_dcp_n_read(const struct zf_dcp *d);

/* Adds the paths of all tensors to `names`, which zf_dcp_place then uses instead of its own: for an optimizer whose
 * weights are stored in another format.  Borrows names. */
bool zf_dcp_add_names(struct zf_dcp *d, struct zf_names *names, struct zf_err *err) ZF_CHECKED;

/* Opens the files, and adds every key at its place in the tree and every chunk as a box.
 * Errors: ZF_E_FORMAT a file is missing or too short, items overlap; of names and build. */
bool zf_dcp_place(struct zf_dcp *d, struct zf_store *st, const struct zf_limits *lim,
                  struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* The same for a family that processes the tensors further: each becomes a hidden draft (zf_build_hidden) with all its
 * chunks, and bytes items are not shown.  Only tensors that are made of others (quantised ones) are placed in the
 * tree. */
bool zf_dcp_draft(struct zf_dcp *d, struct zf_store *st, const struct zf_limits *lim,
                  struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* ---- what is in it, by number ---- */

/* An entry that was saved under one name (FQN). */
struct zf_dcp_key {
    /* terminated; may hold any byte; lives as long as the zf_dcp, as all of this */
    const char *name;
    size_t name_len;
    bool is_bytes;       /* an opaque item, such as a pickled object; then there is no type */
    struct zf_type type; /* of the tensor, in its true shape */
    /* [ndim] the number of chunks along each dimension, all of one size except that the last may be smaller; NULL if
     * the chunks are no such grid, or contradictory.  For a flattened tensor (Megatron's), whose chunks are ranges of
     * boxes, the grid of these boxes. */
    const uint64_t *cuts;
    struct zf_draft *draft; /* after zf_dcp_place or _draft; NULL: not shown, or made of others */
    uint32_t group;         /* number of the state dict, in the order of zf_dcp_begin */
};
uint64_t zf_dcp_n_keys(const struct zf_dcp *d);
/* i < n_keys, in the order of the metadata.  Errors: ZF_E_NOMEM. */
bool zf_dcp_key(struct zf_dcp *d, uint64_t i, struct zf_dcp_key *out,
                struct zf_err *err) ZF_CHECKED;
/* The exact bytes of a key's bytes item, as a source with a reference; after zf_dcp_place or _draft.  Reading it fails
 * if the item is lost or no whole file.  Errors: ZF_E_NOMEM. */
struct zf_source *zf_dcp_item(struct zf_dcp *d, uint64_t i, struct zf_err *err) ZF_CHECKED;

#endif
