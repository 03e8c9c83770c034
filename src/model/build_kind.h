/* SPDX-License-Identifier: Apache-2.0 */
/* A build has sets, sets have drafts (tensors in the making), drafts have pieces.  All of it is in
 * the build's own arena, which the seal frees, unless the checkpoint's arena is named. */
#ifndef MODEL_BUILD_KIND_H
#define MODEL_BUILD_KIND_H

#include <zf/base/thread.h>
#include <zf/base/hash.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/model/build.h>

#include "sources.h"

/* A range of the flattened tensor, or a box of it, in elements. */
struct piece {
    uint64_t off; /* offset in the source, in bytes */
    union {
        const uint64_t *stride; /* box: [ndim]; NULL = packed */
        struct zf_draft *of;    /* flat: the tensor it is copied from; NULL = from a source */
    };
    uint64_t src;   /* index in sources */
    uint64_t box[]; /* flat: first, n; box: start [ndim], size [ndim] */
};

/* Pieces are in blocks of doubling size, so that one piece and a million are both cheap. */
struct piece_block {
    struct piece_block *next;
    uint64_t n, cap; /* pieces */
    uint64_t words[];
};

enum draft_kind {
    ZF_DRAFT_EMPTY,
    ZF_DRAFT_FLAT,
    ZF_DRAFT_BOX,
    ZF_DRAFT_MEM,
    ZF_DRAFT_SLOTS, /* no pieces: a rule (map_slots.h) covers the whole tensor */
    ZF_DRAFT_WHOLE, /* a single packed piece, without a block */
    ZF_DRAFT_SAME   /* another name for the data of another draft */
};

/* There can be millions, so fields of one kind only are in a union. */
struct zf_draft {
    UT_hash_handle
        hh; /* key: the name, in the checkpoint's arena; in the table of its set, until the seal */
    struct zf_build *b;
    struct draft_set *set; /* NULL = hidden */
    const uint64_t *shape; /* checkpoint's arena */
    const char *where;     /* the file with its metadata, or NULL */
    const struct zf_map
        *map; /* made for a read of the pieces so far, or NULL; once sealed, of all */
    union {
        struct {
            struct piece_block *first, *last;
        } pieces; /* FLAT, BOX */
        struct {
            uint64_t off; /* bytes */
            uint32_t src; /* index in sources */
        } whole;
        const void *mem;           /* checkpoint's arena */
        const struct slots *slots; /* map_slots.h */
        struct {
            struct zf_draft *as;  /* the draft with the data */
            struct zf_draft *tie; /* the draft in the same set that it is tied to, or NULL */
        } same;
    };
    uint64_t elems;
    uint32_t n_pieces;
    uint32_t number; /* index in zf_build's drafts; once sorted, in its set */
    uint32_t mark;   /* number of the last mark for which it was saved */
    uint32_t name_len, ndim;
    unsigned dtype : 8, kind : 4; /* enum zf_dtype, enum draft_kind */
    bool lost : 1, unshaped : 1, noted : 1, apart : 1;
    bool parts : 1;  /* some piece is copied from another tensor */
    bool inside : 1; /* `where` is a file with the metadata under the tensor's name */
};

/* [name_len], terminated. */
static inline const char *draft_name(const struct zf_draft *d)
{
    return d->hh.key;
}

struct draft_set {
    UT_hash_handle hh;        /* key: the path */
    struct zf_draft *drafts;  /* uthash */
    const char *path;         /* checkpoint's arena */
    uint32_t number, rank, n; /* order of creation; order of paths; number of tensors */
    bool raw_only;
};

/* A format string of notes: notes are limited per form. */
struct note_form {
    const char *fmt;
    struct note_form *next;
    uint64_t n;
    struct note_key *keys;    /* keys of notes that are made once per key */
    uint32_t mark, keys_mark; /* as in a draft */
};
struct note_key {
    const char *text;
    struct note_key *next;
};
/* zf_build_note_names; in temp. */
struct note_named {
    const char *path, *msg; /* msg: "" = no failure */
};
/* Everything but tensors, in the order it was added.  Texts and maps are in the checkpoint's arena. */
struct build_lists {
    zf_vec(struct zf_blob) blobs;
    zf_vec(const char *) told; /* paths of blobs whose contents other files repeat */
    zf_vec(struct zf_note) notes;
    zf_vec(struct note_named) named;
    zf_vec(struct zf_missing) missing;
    zf_vec(struct zf_copy) copies; /* sources: those of the build */
};

/* The rest of a build's state, which a mark copies as a whole. */
struct build_rest {
    struct note_form *note_forms;
    uint64_t n_pieces;
    uint64_t n_ruled; /* pieces that rules stand for, without records */
    const char *tag, *prefix;
    int64_t step;
    bool has_step, fill_lost;
};

/* Bytes that were changed since a mark: their old contents. */
struct build_saved {
    struct build_saved *next; /* the one saved before */
    void *at;
    size_t n;
    unsigned char was[];
};

struct build_mark {
    struct build_mark *outer; /* or NULL */
    uint32_t number;          /* unique within the build */
    size_t n_drafts, n_sets, n_blobs, n_told, n_notes, n_named, n_missing, n_copies;
    uint32_t n_sources;
    struct build_rest rest;
    struct build_saved *saved; /* the list at the time of the mark */
};

/* The results of the last lookups: readers ask whether a name is free before they use it. */
struct build_asked {
    struct draft_set *in;        /* the last set looked up by path, or NULL */
    const struct draft_set *set; /* the set of the last lookup by name; NULL = no longer valid */
    struct zf_draft *found;      /* its result, or NULL */
    unsigned hash;
    size_t n;
    char name[160];
};

struct zf_build {
    struct zf_limits lim;
    struct zf_store *store;
    bool degraded, record_copies;
    struct zf_arena *keep; /* becomes the checkpoint's arena */
    struct zf_arena *temp; /* freed at seal */
    struct zf_arena
        *maps; /* of drafts that are read (zf_draft_read), by any thread; freed at seal */
    pthread_mutex_t reading; /* protects these maps and their arena */
    struct sources *sources;
    zf_vec(struct zf_draft *) drafts; /* in order of creation */
    zf_vec(struct draft_set *) sets;
    struct draft_set *by_path; /* uthash */
    struct build_asked asked;
    struct build_lists lists;
    struct build_rest rest;
    struct build_mark *mark; /* the innermost, or NULL */
    struct build_saved *saved;
    uint32_t n_marks;
    const char *where; /* the last zf_draft `where`, in temp */
    uint32_t namesake; /* number of the draft to try first for a repeated name (build_namesake) */
};

/* Drops the tables by path and name: lookups find nothing afterwards. */
void build_forget_names(struct zf_build *b);

/* Invalidates the last lookups, after drafts or sets were removed. */
static inline void build_forget_asked(struct zf_build *b)
{
    b->asked.in = NULL;
    b->asked.set = NULL;
}

/* Saves n bytes at `at`, which exists since before the innermost mark, before they are changed.  *mark
 * is the last mark for which they were saved.  Does nothing without a mark. */
bool build_save(struct zf_build *b, void *at, size_t n, uint32_t *mark,
                struct zf_err *err) ZF_CHECKED;
/* The same for a draft, unless it is newer than the mark; drops its map made for reading. */
bool draft_change(struct zf_draft *d, struct zf_err *err) ZF_CHECKED;

/* Checks that there are fewer than `most`, the value of `limit`, already.  what: "files".  Errors: ZF_E_LIMIT. */
bool build_may_add(uint64_t n, uint64_t most, const char *what, enum zf_limit limit,
                   struct zf_err *err) ZF_CHECKED;

/* Adds a note that does not count towards the limit per form. */
bool build_keep_note(struct zf_build *b, struct zf_note note, struct zf_err *err) ZF_CHECKED;
/* The seal's note on notes that were dropped. */
#define NOTES_MORE "%llu more notes of the same kinds are not shown"

/* The draft with the pieces of d: d itself, or the one it is another name for. */
static inline struct zf_draft *draft_data(struct zf_draft *d)
{
    return d->kind == ZF_DRAFT_SAME ? d->same.as : d;
}
/* The draft that d is tied to, or NULL. */
static inline struct zf_draft *draft_tie(const struct zf_draft *d)
{
    return d->kind == ZF_DRAFT_SAME ? d->same.tie : NULL;
}
/* The size in bytes; it does not overflow (checked by zf_build_tensor). */
static inline uint64_t draft_bytes(const struct zf_draft *d)
{
    return d->elems * zf_dtype_info(d->dtype)->bytes;
}
/* The first block of pieces; NULL for a rule. */
static inline struct piece_block *draft_blocks(const struct zf_draft *d)
{
    return d->kind == ZF_DRAFT_FLAT || d->kind == ZF_DRAFT_BOX ? d->pieces.first : NULL;
}
/* Bytes of one piece record. */
static inline uint64_t piece_words(const struct zf_draft *d)
{
    return sizeof(struct piece) / 8 +
           2 * (uint64_t)(d->ndim && d->kind == ZF_DRAFT_BOX ? d->ndim : 1);
}

/* A walk over the pieces of a draft, in the order they were added; those of a rule in the tensor's order. */
struct piece_walk {
    const struct zf_draft *d;
    const struct piece_block *block;
    uint64_t i, words;
    bool rule; /* pieces are made by the rule, not in blocks */
    uint64_t made[sizeof(struct piece) / 8 + 2];
};
static inline struct piece_walk piece_walk(const struct zf_draft *d)
{
    struct piece_block *first = draft_blocks(d);

    return (struct piece_walk){.d = d, .block = first, .words = piece_words(d), .rule = !first};
}
/* The next piece, or NULL. */
const struct piece *piece_next(struct piece_walk *w);

/* Proves that the pieces cover the tensor exactly once, and makes d->map (pieces.c). */
bool draft_prove(struct zf_draft *d, struct zf_err *err) ZF_CHECKED;
/* The map of the pieces that d has so far.  Bytes without a piece are in source SOURCES_NONE or MADE, bytes with several
 * in SOURCES_SEVERAL.  a: for the maps of the tensors that parts are copied from. */
const struct zf_map *draft_map_so_far(struct zf_draft *d, struct zf_arena *a,
                                      struct zf_err *err) ZF_CHECKED;

#endif
