/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint as the rest of the program sees it: named tensors in sets, opaque files,
 * notes.  Frozen. */
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
    bool lost;                 /* -o degraded: some bytes answer EIO, or, when filled, */
    bool filled;               /* read as NaN */
    bool apart; /* a piece of another tensor of the set, which whole files hold instead */
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
    bool told;             /* another file of the tree says all of it */
};

/* What a note says, for whoever acts on it: its words are for people. */
enum zf_note_kind {
    ZF_NOTE_OTHER,
    ZF_NOTE_UNSHOWN, /* whole files are not shown: they are no part of it, or repeat what is shown */
    ZF_NOTE_UNREADABLE, /* a whole file is not shown, because it could not be read */
    ZF_NOTE_LEFT_OUT,   /* something that files hold is not shown */
    ZF_NOTE_SAVES,      /* directories beside the files that are shown are saves of their own */
    ZF_NOTE_UNCOMPARED, /* bytes were not compared that zerofs verify compares */
    ZF_NOTE_NO_WEIGHTS, /* the save has none */
    ZF_NOTE_GROUPS,     /* settings of the optimizer's groups, no oddity */
    ZF_NOTE_HF,         /* which model hf/ is, or why none */
    ZF_NOTE_KINDS,
};
/* "unshown", as info --json has it. */
const char *zf_note_kind_name(enum zf_note_kind kind);

/* An oddity that is no failure. */
struct zf_note {
    enum zf_note_kind kind;
    /* the files or directories that it is about, one a line, as far as they are known; "" = no certain ones */
    const char *about;
    const char *text; /* one sentence */
};

/* -o degraded: a tensor that cannot be shown, because nothing but its name is known. */
struct zf_missing {
    const char *name;
    struct zf_lost how;
};

/* Bytes that ranks hold twice, of which the second ones are shown nowhere, and that were not all compared when the
 * checkpoint was opened (with zf_build_record_copies: those that were, too).  src[0] NULL: no copy, but padding that the
 * format's own rule cuts; only with zf_build_record_copies. */
struct zf_copy {
    struct zf_source *src[2];
    uint64_t off[2], n;
};

struct zf_checkpoint {
    const char *format; /* row of the format table */
    const char *why;    /* what proved it */
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
        *hf; /* what hf/ shows in place of the root's tensors (zf/recipe/hf.h); or NULL */
    const struct zf_missing *missing;
    uint32_t n_missing;
    const struct zf_copy *copy; /* none of a model that was kept */
    uint64_t n_copies;
    uint64_t n_pieces;     /* chunks and slices in all maps */
    struct timespec mtime; /* of the newest shard */
    bool kept;            /* made from a model that was kept (zf/keep.h), no file was read for it */
    const char *not_kept; /* why that one is not used, or none was made: a sentence; or NULL */
    uint64_t
        kept_as[2]; /* the checksum of the model that it was made from or kept as; 0, 0 = none */
    const char *kept_note; /* the text that zf_keep_note kept with it; or NULL */
    /* "-o only=" and the like, where zf_checkpoint_select left tensors out or renamed some, and the sets without that;
     * NULL = it changed nothing */
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

/* Lost bytes [first, end) of a tensor that lie side by side, and why; see struct zf_lost. */
struct zf_loss {
    uint64_t first, end;
    struct zf_lost how; /* texts are borrowed from the map */
};
/* The first such bytes that end behind byte `off` of a tensor's data; false: there are none. */
bool zf_map_loss(const struct zf_map *m, uint64_t off, struct zf_loss *out);
/* Calls fn once for each piece of the map that lost bytes, in no particular order; quicker than
 * looking for their places.  Stops when fn returns false, and then returns false. */
bool zf_map_each_loss(const struct zf_map *m, bool (*fn)(void *ctx, const struct zf_lost *how),
                      void *ctx);

/* One that shows all that c does, which it borrows and which outlives it; memory for more is its own, at most `memory`
 * bytes.  Errors: ZF_E_NOMEM. */
struct zf_checkpoint *zf_checkpoint_over(const struct zf_checkpoint *c, uint64_t memory,
                                         struct zf_err *err) ZF_CHECKED;
/* zf_map_strided of a map of c that is whole; where a read would take a few bytes each from many rows, as of a transposed
 * matrix, blocks of it are kept (limit cache_bytes).  Before c is shared.  Errors: as zf_map_strided; ZF_E_NOMEM. */
struct zf_map *zf_checkpoint_strided(struct zf_checkpoint *c, const struct zf_map *in,
                                     const struct zf_strided *how, const struct zf_limits *lim,
                                     struct zf_err *err) ZF_CHECKED;
/* NULL is fine; drops the sources. */
void zf_checkpoint_free(struct zf_checkpoint *c);
static inline void zf_auto_checkpoint(struct zf_checkpoint **c)
{
    zf_checkpoint_free(*c);
}

/* Which names to keep and how to call them, applied to every set, the same way each time: `only`
 * and `except` look at the name in the checkpoint, then strip_prefix is taken off (names without it
 * stay), then each rename rule in turn replaces its first match.
 * Patterns are globs (fnmatch: '*' crosses dots).  A rule is a regex (zf/base/pattern.h), the last '='
 * without a backslash in front, and its replacement with \1 … \9 (and \0, the whole match); "\=" is
 * an '=' of either.
 * Ties are kept: when the tensor that others are tied to goes, the first of them takes its place. */
struct zf_select {
    const char *strip_prefix; /* or NULL */
    const char *const *only, *const *except;
    size_t n_only, n_except;
    const char *const *rename; /* "REGEX=REPLACEMENT" */
    size_t n_rename;
    /* Called after a selection that succeeded for each of the above that fitted no tensor, with the
     * option's name and its value; NULL = nobody wants to know. */
    void (*unused)(void *ctx, const char *option, const char *value);
    void *unused_ctx;
};
/* Gives the checkpoint with other names; c is taken (freed on failure too).  c->selection says which options of zerofs
 * mattered.
 * Errors: ZF_E_USAGE regex does not compile, two names collide (both are named), nothing is left. */
struct zf_checkpoint *zf_checkpoint_select(struct zf_checkpoint *c, const struct zf_select *how,
                                           struct zf_err *err) ZF_CHECKED;

#endif
