/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tree of a checkpoint: every set in every presentation (zerofs(5)). */
#ifndef ZF_VIEW_H
#define ZF_VIEW_H

#include <zf/base/out.h>
#include <zf/base/vec.h>
#include <zf/model/model.h>
#include <zf/tree.h>

/* The parts that directories list; everything can be opened by name, listed or not. */
enum zf_show {
    ZF_SHOW_RAW = 1,
    ZF_SHOW_NPY = 2,
    ZF_SHOW_SAFETENSORS = 4,
    ZF_SHOW_BIN = 8,
    ZF_SHOW_HF = 16,
    ZF_SHOW_AS = 32,
    ZF_SHOW_OPTIM = 64,
    ZF_SHOW_STORED = 128, /* and the framework's own forms: stacked/, bucket/ */
    ZF_SHOW_STATE = 256,
    ZF_SHOW_EXTRA = 512,
    ZF_SHOW_TRAINED = 1024, /* trained/ and adapter/: the part of the weights that was trained */
    ZF_SHOW_ALL = 2047,
    ZF_SHOW_AUTO = 2048, /* each presentation once, in the root; raw files elsewhere */
};

/* True for a word that such a list may have, such as "raw" or "auto". */
bool zf_show_word(const char *word);
/* Adds the words of a list, separated by ',' or ':', to *mask (bits of enum zf_show).
 * Errors: ZF_E_USAGE an unknown word, or "all" or "auto" together with others. */
bool zf_show_add(uint32_t *mask, const char *list, struct zf_err *err) ZF_CHECKED;

/* The contents of hf/ at the root, computed when it is first accessed. */
struct zf_view_later {
    /* Adds hf, files below hf/ and notes to c, or only notes.  Called until it succeeds, by one thread at a time. */
    bool (*model)(void *ctx, struct zf_checkpoint *c, struct zf_err *err);
    /* enter and leave are called around `model`, and around waiting for the thread that calls it.  wait: the thread
     * must wait; otherwise enter may fail with ZF_E_BUSY, like zf_gate_enter. */
    bool (*enter)(void *ctx, bool wait, bool *held_out, struct zf_err *err);
    void (*leave)(void *ctx, bool held);
    void (*free)(void *ctx);
    void *ctx;
};

struct zf_view_opts {
    uint32_t show;           /* bits of enum zf_show; 0 = all */
    bool omit_lost;          /* damaged tensors are shown only as raw files */
    uint64_t shard_size;     /* bytes of one hf/ shard; 0 = 5 GB */
    const char *const *keep; /* globs: tensors that as/ does not cast; borrowed by the tree */
    size_t n_keep;
    const struct zf_limits *lim;
    struct zf_view_later
        later; /* without `model`: the checkpoint already has the contents of hf/ */
};

/* Takes c and o->later.ctx (freed with the tree, and on failure). */
struct zf_tree *zf_tree_new(struct zf_checkpoint *c, const struct zf_view_opts *o,
                            struct zf_err *err) ZF_CHECKED;

/* From now on every directory lists everything in it.  Must be called before threads share the tree. */
void zf_tree_list_all(struct zf_tree *t);

/* The checkpoint inside a tree made by zf_tree_new (borrowed). */
const struct zf_checkpoint *zf_tree_checkpoint(const struct zf_tree *t);

/* The same, including the contents of hf/, which are computed now if needed.  Errors: those of o->later; ZF_E_NOMEM. */
const struct zf_checkpoint *zf_tree_model(const struct zf_tree *t, struct zf_err *err) ZF_CHECKED;

/* Describes a raw tensor file of the tree; false for every other inode. */
struct zf_node_tensor {
    const struct zf_set *set;
    const struct zf_tensor *tensor;
    enum zf_dtype dtype; /* as served: differs from the tensor's under as/ */
};
bool zf_tree_tensor(const struct zf_tree *t, uint64_t ino, struct zf_node_tensor *out);

/* Writes the complete value of its attribute user.zerofs.sources, a JSON array, without the attribute's size limit. */
void zf_tree_sources(const struct zf_node_tensor *x, struct zf_out *out);

/* The map (borrowed) of a file whose contents are exactly that map (raw tensors, blobs, bulk files), for tools that
 * need its pieces (export's holes).  NULL, and *err is cleared, for computed files (casts, .npy) and for directories;
 * NULL with an error if a bulk file cannot be planned. */
const struct zf_map *zf_tree_map(struct zf_tree *t, uint64_t ino, struct zf_err *err);

/* A CRC-32 that is 0 in a file, because the bytes were not read.  The right value is that of bytes [first, first + n);
 * it belongs, little-endian, at both offsets `at`. */
struct zf_sum {
    uint64_t first, n, at[2];
};
typedef zf_vec(struct zf_sum) zf_sums;
/* Adds those of a file (most files have none), in the order of their bytes.  Errors: ZF_E_NOMEM. */
bool zf_tree_sums(struct zf_tree *t, uint64_t ino, zf_sums *out, struct zf_err *err) ZF_CHECKED;

#endif
