/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoint -> tree: every set with every presentation (zerofs(5)). */
#ifndef ZF_VIEW_H
#define ZF_VIEW_H

#include <zf/base/out.h>
#include <zf/base/vec.h>
#include <zf/model/model.h>
#include <zf/tree.h>

/* The parts that directories list; everything is found by name whatever is listed. */
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

/* Is this one of the words of a list, such as "raw" or "auto"? */
bool zf_show_word(const char *word);
/* Adds the words of a list, separated by ',' or ':', to *mask (bits of enum zf_show).
 * Errors: ZF_E_USAGE an unknown word, "all" or "auto" beside others. */
bool zf_show_add(uint32_t *mask, const char *list, struct zf_err *err) ZF_CHECKED;

/* The contents of hf/ at the root, worked out when it is first looked at. */
struct zf_view_later {
    /* Adds hf, files below hf/ and notes to c, or notes alone.  Called until it succeeds, by one thread at a time. */
    bool (*model)(void *ctx, struct zf_checkpoint *c, struct zf_err *err);
    /* Around it, and around waiting for the thread that calls it.  wait: this one has to; else it may be refused with
     * ZF_E_BUSY, as by zf_gate_enter. */
    bool (*enter)(void *ctx, bool wait, bool *held_out, struct zf_err *err);
    void (*leave)(void *ctx, bool held);
    void (*free)(void *ctx);
    void *ctx;
};

struct zf_view_opts {
    uint32_t show;           /* bits of enum zf_show; 0 = all */
    bool omit_lost;          /* damaged tensors are left out of all but the raw files */
    uint64_t shard_size;     /* bytes of one hf/ shard; 0 = 5 GB */
    const char *const *keep; /* globs: tensors that as/ leaves as they are; borrowed by the tree */
    size_t n_keep;
    const struct zf_limits *lim;
    struct zf_view_later later; /* without model: the checkpoint has all that hf/ is */
};

/* Takes c and o->later.ctx (freed with the tree, and on failure). */
struct zf_tree *zf_tree_new(struct zf_checkpoint *c, const struct zf_view_opts *o,
                            struct zf_err *err) ZF_CHECKED;

/* From now on every directory lists all it holds.  Before the tree is shared between threads. */
void zf_tree_list_all(struct zf_tree *t);

/* The checkpoint inside a tree made by zf_tree_new (borrowed). */
const struct zf_checkpoint *zf_tree_checkpoint(const struct zf_tree *t);

/* The same with what hf/ shows, which is worked out now unless it was.  Errors: of o->later; ZF_E_NOMEM. */
const struct zf_checkpoint *zf_tree_model(const struct zf_tree *t, struct zf_err *err) ZF_CHECKED;

/* Describes a raw tensor file of the tree; false for every other inode. */
struct zf_node_tensor {
    const struct zf_set *set;
    const struct zf_tensor *tensor;
    enum zf_dtype dtype; /* as served: differs from the tensor's under as/ */
};
bool zf_tree_tensor(const struct zf_tree *t, uint64_t ino, struct zf_node_tensor *out);

/* Adds all of its user.zerofs.sources, which has no bound here: a JSON array. */
void zf_tree_sources(const struct zf_node_tensor *x, struct zf_out *out);

/* The map of a file that is served as it is mapped (raw tensors, blobs, bulk files), borrowed, for
 * tools that look at its pieces (export's holes).  NULL, and *err is cleared, for what is computed
 * (casts, .npy) and for directories; NULL with an error when a bulk file cannot be planned. */
const struct zf_map *zf_tree_map(struct zf_tree *t, uint64_t ino, struct zf_err *err);

/* A CRC-32 that a file has as 0, because its bytes were not read: that of bytes [first, first + n), which belongs, lowest
 * byte first, to two places. */
struct zf_sum {
    uint64_t first, n, at[2];
};
typedef zf_vec(struct zf_sum) zf_sums;
/* Adds those of a file, none for most, in the order of their bytes.  Errors: ZF_E_NOMEM. */
bool zf_tree_sums(struct zf_tree *t, uint64_t ino, zf_sums *out, struct zf_err *err) ZF_CHECKED;

#endif
