/* SPDX-License-Identifier: Apache-2.0 */
/* A build: sets of drafts, drafts of pieces.  Everything here lives in the build's
 * own arena and goes away at seal; what stays is copied into the checkpoint's arena. */
#ifndef MODEL_BUILD_KIND_H
#define MODEL_BUILD_KIND_H

#include <zf/base/thread.h>
#include <zf/base/hash.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/model/build.h>

#include "sources.h"

/* A stretch of the flattened tensor, or a box of it, in elements. */
struct piece {
    uint64_t off; /* bytes */
    union {
        const uint64_t *stride; /* box: [ndim]; NULL = packed */
        struct zf_draft *of;    /* flat: the tensor that it is a part of; NULL = of a source */
    };
    uint64_t src;   /* number in sources */
    uint64_t box[]; /* flat: first, n; box: start [ndim], size [ndim] */
};

/* Pieces come in blocks that double, so that one piece and a million are both cheap. */
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
    ZF_DRAFT_SLOTS, /* no pieces: a rule that covers all of it */
    ZF_DRAFT_WHOLE, /* one piece that is all of it, packed: it has no block */
    ZF_DRAFT_SAME   /* has the data of another */
};

/* There can be millions, so what only one kind has shares its room with what the others have. */
struct zf_draft {
    UT_hash_handle
        hh; /* key: the name, in the checkpoint's arena; in the table of its set, until the seal */
    struct zf_build *b;
    struct draft_set *set;    /* NULL = hidden */
    const uint64_t *shape;    /* checkpoint's arena */
    const char *where;        /* of its metadata, or NULL */
    const struct zf_map *map; /* of the pieces so far, for reading, or NULL; once sealed, of all */
    union {
        struct {
            struct piece_block *first, *last;
        } pieces; /* FLAT, BOX */
        struct {
            uint64_t off; /* bytes */
            uint32_t src; /* number in sources */
        } whole;
        const void *mem;           /* checkpoint's arena */
        const struct slots *slots; /* map_slots.h */
        struct {
            struct zf_draft *as;  /* the one that has them */
            struct zf_draft *tie; /* another name of this one in the same set, or NULL */
        } same;
    };
    uint64_t elems;
    uint32_t n_pieces;
    uint32_t number; /* in order of creation: of zf_build's drafts; once sorted, in its set */
    uint32_t mark;   /* the last one since which it was saved */
    uint32_t name_len, ndim;
    unsigned dtype : 8, kind : 4; /* enum zf_dtype, enum draft_kind */
    bool lost : 1, unshaped : 1, noted : 1, apart : 1;
    bool parts : 1;  /* some piece is a part of another tensor */
    bool inside : 1; /* `where` is a file that has the metadata under the tensor's name */
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
    uint32_t number, rank, n; /* in order of creation; in the order of paths; tensors in it */
    bool raw_only;
};

/* The format string that notes are made from. */
struct note_form {
    const char *fmt;
    struct note_form *next;
    uint64_t n;
    struct note_key *keys;    /* of notes that are made once for each */
    uint32_t mark, keys_mark; /* as of a draft */
};
struct note_key {
    const char *text;
    struct note_key *next;
};
/* What is listed beside tensors, in the order in which it came.  Texts and maps are in the checkpoint's arena. */
struct build_lists {
    zf_vec(struct zf_blob) blobs;
    zf_vec(const char *) told; /* paths of blobs that others repeat */
    zf_vec(struct zf_note) notes;
    zf_vec(struct zf_missing) missing;
    zf_vec(struct zf_copy) copies; /* their sources are the build's */
};

/* State of a build besides drafts, sources and lists, of which a mark keeps a copy. */
struct build_rest {
    struct note_form *note_forms;
    uint64_t n_pieces;
    uint64_t n_ruled; /* pieces that follow a rule and are nowhere */
    const char *tag, *prefix;
    int64_t step;
    bool has_step, fill_lost;
};

/* Bytes that were changed since a mark, as they were before. */
struct build_saved {
    struct build_saved *next; /* saved before it */
    void *at;
    size_t n;
    unsigned char was[];
};

struct build_mark {
    struct build_mark *outer; /* or NULL */
    uint32_t number;          /* no two marks of a build have the same */
    size_t n_drafts, n_sets, n_blobs, n_told, n_notes, n_missing, n_copies;
    uint32_t n_sources;
    struct build_rest rest;
    struct build_saved *saved; /* before the mark */
};

/* The last answers: readers ask whether a name is free before they take it. */
struct build_asked {
    struct draft_set *in;        /* of a path, or NULL */
    const struct draft_set *set; /* of the name; NULL = none, or a draft came or went since */
    struct zf_draft *found;      /* or NULL */
    unsigned hash;
    size_t n;
    char name[160];
};

struct zf_build {
    struct zf_limits lim;
    struct zf_store *store;
    bool degraded, record_copies;
    struct zf_arena *keep;   /* becomes the checkpoint's */
    struct zf_arena *temp;   /* freed at seal */
    pthread_mutex_t reading; /* of the maps that reads make of drafts */
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
    const char *where; /* that was told last; temp's */
    uint32_t namesake; /* the draft behind the one whose name was wanted once more */
};

/* Nothing is found by path or name any more. */
void build_forget_names(struct zf_build *b);

/* Drafts or sets were taken out. */
static inline void build_forget_asked(struct zf_build *b)
{
    b->asked.in = NULL;
    b->asked.set = NULL;
}

/* Before `at` is changed, which was there before the innermost mark; *mark (its own) says since when
 * it was saved already.  Without a mark it does nothing. */
bool build_save(struct zf_build *b, void *at, size_t n, uint32_t *mark,
                struct zf_err *err) ZF_CHECKED;
/* The same of a draft, unless it is newer than the mark; its map for reading is forgotten. */
bool draft_change(struct zf_draft *d, struct zf_err *err) ZF_CHECKED;

/* May there be one more than n of them?  what: "files"; limit: the name of `most`.  Errors: ZF_E_LIMIT. */
bool build_may_add(uint64_t n, uint64_t most, const char *what, const char *limit,
                   struct zf_err *err) ZF_CHECKED;

/* Adds a note of no form: it is never one too many. */
bool build_keep_note(struct zf_build *b, struct zf_note note, struct zf_err *err) ZF_CHECKED;
/* The seal's note about dropped notes. */
#define NOTES_MORE "%llu more notes of the same kinds are not shown"

/* The draft whose pieces are d's. */
static inline struct zf_draft *draft_data(struct zf_draft *d)
{
    return d->kind == ZF_DRAFT_SAME ? d->same.as : d;
}
/* The one that d is another name of, or NULL. */
static inline struct zf_draft *draft_tie(const struct zf_draft *d)
{
    return d->kind == ZF_DRAFT_SAME ? d->same.tie : NULL;
}
/* Its size, which fits (zf_build_tensor). */
static inline uint64_t draft_bytes(const struct zf_draft *d)
{
    return d->elems * zf_dtype_info(d->dtype)->bytes;
}
/* Its first block of pieces, or NULL: a rule has none. */
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

/* A walk over the pieces of a draft, in the order in which they came; of a rule's, in the tensor's order. */
struct piece_walk {
    const struct zf_draft *d;
    const struct piece_block *block;
    uint64_t i, words;
    bool rule; /* there are no blocks */
    uint64_t made[sizeof(struct piece) / 8 + 2];
};
static inline struct piece_walk piece_walk(const struct zf_draft *d)
{
    struct piece_block *first = draft_blocks(d);

    return (struct piece_walk){.d = d, .block = first, .words = piece_words(d), .rule = !first};
}
/* The next one, or NULL. */
const struct piece *piece_next(struct piece_walk *w);

/* Makes d->map out of its pieces: the proof (pieces.c). */
bool draft_prove(struct zf_draft *d, struct zf_err *err) ZF_CHECKED;
/* The map of the pieces that d has so far.  Bytes that no piece covers are those of source SOURCES_NONE or MADE,
 * bytes that several cover those of SOURCES_SEVERAL.  a: of the maps of a draft with parts, which live as long. */
const struct zf_map *draft_map_so_far(struct zf_draft *d, struct zf_arena *a,
                                      struct zf_err *err) ZF_CHECKED;

#endif
