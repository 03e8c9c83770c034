/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint as the rest of the program sees it: named tensors in sets, opaque files, notes.  Immutable. */
#ifndef ZF_MODEL_MODEL_H
#define ZF_MODEL_MODEL_H

#include <time.h>

#include <zf/model/map.h>
#include <zf/source/store.h>

struct zf_tensor {
    const char *name; /* raw, any bytes; terminated */
    uint32_t name_len;
    uint32_t ndim;
    enum zf_dtype dtype;
    const uint64_t *shape;     /* [ndim] elements, C order */
    const struct zf_map *data; /* bytes, little-endian, packed C order */
    uint32_t alias_of;         /* index in the set of the tensor it is tied to, or its own index */
    bool lost;                 /* -o degraded: some bytes are lost: reading them fails with EIO, */
    bool filled;               /* or, if this is set, gives NaN */
    bool
        apart; /* it is a piece of another tensor of the set; files of the whole set contain that one instead */
};

/* A tensor set is a directory of the tree. */
struct zf_set {
    /* "" = the root, "optim/exp_avg", …: components already encoded as file names */
    const char *path;
    const struct zf_tensor *tensor;
    uint32_t n; /* sorted by zf_name_cmp on raw names; names are distinct */
    bool raw_only;
};

/* A file that is no tensor: state/args.json, extra/<key>, config.json. */
struct zf_blob {
    const char *path; /* in the tree, components already encoded */
    const struct zf_map *data;
    struct timespec mtime; /* 0 = the checkpoint's */
    bool told;             /* redundant: other files of the tree have all its contents */
};

/* The kind of a note, for programs that act on it; its text is for people. */
enum zf_note_kind {
    ZF_NOTE_OTHER,
    ZF_NOTE_UNSHOWN, /* whole files are not shown: they do not belong to the checkpoint, or repeat what is shown */
    ZF_NOTE_UNREADABLE, /* a whole file is not shown, because it could not be read */
    ZF_NOTE_LEFT_OUT,   /* some contents of files are not shown */
    ZF_NOTE_SAVES,      /* directories next to the shown files are separate saves */
    ZF_NOTE_UNCOMPARED, /* bytes were not compared that zerofs verify compares */
    ZF_NOTE_NO_WEIGHTS, /* the save has no weights */
    ZF_NOTE_GROUPS,     /* settings of the optimizer's groups, nothing unusual */
    ZF_NOTE_HF,         /* which model hf/ is, or why there is none */
    ZF_NOTE_BROKEN,     /* a file that no tensor needs is missing, empty or cut short */
    ZF_NOTE_KINDS,
};
/* The kind's name in info --json, such as "unshown". */
const char *zf_note_kind_name(enum zf_note_kind kind);

/* Something unusual that is no failure. */
struct zf_note {
    enum zf_note_kind kind;
    /* the files or directories that it is about, one per line, as far as they are known; "" = none in particular */
    const char *about;
    const char *text; /* one sentence */
};

/* -o degraded: a tensor that cannot be shown because only its name is known. */
struct zf_missing {
    const char *name;
    struct zf_lost how;
};

/* Two copies of the same bytes on different ranks.  The second is shown nowhere, and they were not compared completely
 * when the checkpoint was opened (with zf_build_record_copies, they may have been).  src[0] NULL: no copy, but padding
 * that the format itself cuts off; only with zf_build_record_copies. */
struct zf_copy {
    struct zf_source *src[2];
    uint64_t off[2], n;
};

struct zf_checkpoint {
    const char *format; /* row of the format table */
    const char *why;    /* how the format was recognized */
    const char *tag;    /* "" = none */
    bool has_step;
    int64_t step;
    const struct zf_set *set; /* sorted by path, "" first */
    uint32_t n_sets;
    const struct zf_blob *blob; /* sorted by path */
    uint32_t n_blobs;
    const struct zf_note *note;
    uint32_t n_notes;
    const struct zf_set
        *hf; /* the tensors that hf/ shows instead of the root's (zf/recipe/hf.h); or NULL */
    bool hf_refused; /* a recipe fits by its names, but is refused: hf/ shows no config.json */
    const struct zf_missing *missing;
    uint32_t n_missing;
    const struct zf_copy *copy; /* none if the model is cached */
    uint64_t n_copies;
    uint64_t n_pieces;     /* chunks and slices in all maps */
    struct timespec mtime; /* of the newest shard */
    bool kept;             /* loaded from the model cache (zf/keep.h): none of its files was read */
    const char *
        not_kept; /* why the cached model was not used, or the model not cached: a sentence; or NULL */
    uint64_t kept_as
        [2]; /* checksum of the cached model that it was loaded from or stored as; 0, 0 = none */
    const char *kept_note; /* the text that zf_keep_note stored with the cached model; or NULL */
    /* the options, "-o only=" and the like, with which zf_checkpoint_select left out or renamed tensors (NULL = it
     * changed nothing), and the sets before that */
    const char *selection;
    const struct zf_set *unselected;
    uint32_t n_unselected;
    struct zf_store *store;
    struct zf_arena *arena; /* everything above lives here */
};

/* Borrows the set at `path`, or NULL. */
const struct zf_set *zf_checkpoint_set(const struct zf_checkpoint *c, const char *path);
/* Borrows the file at `path`, or NULL (binary search). */
const struct zf_blob *zf_checkpoint_blob(const struct zf_checkpoint *c, const char *path);
/* Borrows the tensor of that raw name in the set, or NULL (binary search). */
const struct zf_tensor *zf_set_find(const struct zf_set *s, const char *name, size_t n);

/* A contiguous range [first, end) of lost bytes of a tensor, and why they are lost (struct zf_lost). */
struct zf_loss {
    uint64_t first, end;
    struct zf_lost how; /* texts are borrowed from the map */
};
/* Finds the first such range that ends after byte `off` of a tensor's data; false: there is none. */
bool zf_map_loss(const struct zf_map *m, uint64_t off, struct zf_loss *out);
/* Calls fn once for each piece of the map with lost bytes, in no particular order; faster than finding the ranges.
 * Stops when fn returns false, and then returns false. */
bool zf_map_each_loss(const struct zf_map *m, bool (*fn)(void *ctx, const struct zf_lost *how),
                      void *ctx);

/* Makes a checkpoint that shows everything in c and can be extended, with an arena of its own of at most `memory`
 * bytes.  Borrows c, which must outlive it.  Errors: ZF_E_NOMEM. */
struct zf_checkpoint *zf_checkpoint_over(const struct zf_checkpoint *c, uint64_t memory,
                                         struct zf_err *err) ZF_CHECKED;
/* As zf_map_strided, for the whole map of a tensor of c.  Where a read would take a few bytes each from many rows, as
 * for a transposed matrix, blocks of the result are cached (limit cache_bytes).  Must be called before threads share c.
 * Errors: as zf_map_strided; ZF_E_NOMEM. */
struct zf_map *zf_checkpoint_strided(struct zf_checkpoint *c, const struct zf_map *in,
                                     const struct zf_strided *how, const struct zf_limits *lim,
                                     struct zf_err *err) ZF_CHECKED;
/* NULL is fine; drops the sources. */
void zf_checkpoint_free(struct zf_checkpoint *c);
static inline void zf_auto_checkpoint(struct zf_checkpoint **c)
{
    zf_checkpoint_free(*c);
}

/* Which tensors to keep and how to rename them, in every set: `only` and `except` match the name in the checkpoint;
 * then strip_prefix is removed (names without it are unchanged); then each rename rule in turn replaces its first
 * match.  Patterns are globs (fnmatch: '*' matches dots, too).  A rule is a regex (zf/base/pattern.h), '=', and the
 * replacement, with \1 … \9 (and \0, the whole match); the last '=' without a backslash separates the two, and "\="
 * stands for an '=' in either.
 * Tied tensors stay tied: if the tensor that others are tied to is removed, the first of them takes its place. */
struct zf_select {
    const char *strip_prefix; /* or NULL */
    const char *const *only, *const *except;
    size_t n_only, n_except;
    const char *const *rename; /* "REGEX=REPLACEMENT" */
    size_t n_rename;
    /* Called after a successful selection for each pattern, prefix or rule that matched no tensor, with the option's
     * name and its value; or NULL. */
    void (*unused)(void *ctx, const char *option, const char *value);
    void *unused_ctx;
};
/* Returns c with the selected tensors under their new names; takes c (frees it on failure).  c->selection names the
 * options that had an effect.
 * Errors: ZF_E_USAGE a regex does not compile, two tensors get one name (the message has both), nothing is left. */
struct zf_checkpoint *zf_checkpoint_select(struct zf_checkpoint *c, const struct zf_select *how,
                                           struct zf_err *err) ZF_CHECKED;

#endif
