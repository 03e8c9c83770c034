/* SPDX-License-Identifier: Apache-2.0 */
/* Format readers speak only these verbs; seal proves: full coverage, no overlap, everything inside
 * its source.  One thread.  With `degraded`, what cannot be proved is lost (EIO on exactly those
 * bytes) instead of refused. */
#ifndef ZF_MODEL_BUILD_H
#define ZF_MODEL_BUILD_H

#include <string.h>

#include <zf/base/limits.h>
#include <zf/model/model.h>

struct zf_build;
struct zf_draft; /* a tensor being put together; owned by the build */

struct zf_build *zf_build_new(struct zf_store *st, const struct zf_limits *lim, bool degraded,
                              struct zf_err *err) ZF_CHECKED;
void zf_build_free(struct zf_build *b); /* NULL is fine; for when it is not sealed */
static inline void zf_auto_build(struct zf_build **b)
{
    zf_build_free(*b);
}
bool zf_build_degraded(const struct zf_build *b);
/* The store given to zf_build_new: borrowed, may be NULL. */
struct zf_store *zf_build_store(const struct zf_build *b);
/* Lost elements of types that have a NaN read as one, from here on. */
void zf_build_fill_lost(struct zf_build *b);
/* From here on zf_build_copy records all copies, compared ones too. */
void zf_build_record_copies(struct zf_build *b);
bool zf_build_records_copies(const struct zf_build *b);

/* Where a tensor is shown. */
struct zf_spot {
    const char *set;  /* tree path, "" = root; components encoded with zf_name_encode */
    const char *name; /* raw, any bytes */
    size_t name_len;
};
static inline struct zf_spot zf_spot_of(const char *set, const char *name)
{
    return (struct zf_spot){set, name, strlen(name)};
}

struct zf_type {
    enum zf_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape; /* [ndim] elements; NULL for a scalar */
};
/* Are the types, or the shapes a[an] and b[bn], the same? */
bool zf_type_equal(struct zf_type a, struct zf_type b);
bool zf_shape_equal(uint32_t an, const uint64_t *a, uint32_t bn, const uint64_t *b);

/* From here on sets, files and what is found are those below `prefix`, a tree path ("mp_rank_03");
 * "" = the root again.  Copies it.  Errors: ZF_E_FORMAT it is no plain relative path. */
bool zf_build_prefix(struct zf_build *b, const char *prefix, struct zf_err *err) ZF_CHECKED;

/* Starts a tensor.  Borrows nothing (copies).
 * Errors: ZF_E_FORMAT two tensors of one name in one set, size overflow; ZF_E_LIMIT
 * tensors, tensor_dims. */
struct zf_draft *zf_build_tensor(struct zf_build *b, struct zf_spot spot, struct zf_type type,
                                 struct zf_err *err) ZF_CHECKED;
/* The draft at that place, or NULL. */
struct zf_draft *zf_build_find(struct zf_build *b, struct zf_spot spot);

/* Starts a tensor that is shown nowhere, for others to be parts of it or to show it; its name is for
 * messages.  Errors: as of zf_build_tensor. */
struct zf_draft *zf_build_hidden(struct zf_build *b, const char *name, size_t name_len,
                                 struct zf_type type, struct zf_err *err) ZF_CHECKED;
/* Shows `of`, the same bytes, at a place; what is put into `of` later is there too.  Gives the draft of
 * that place.  Errors: ZF_E_FORMAT the place is taken; ZF_E_LIMIT tensors. */
struct zf_draft *zf_build_show(struct zf_build *b, struct zf_spot spot, struct zf_draft *of,
                               struct zf_err *err) ZF_CHECKED;

/* The tensors of this set are shown as raw bytes and in no other form: a record of what is on disk.
 * Below the prefix, and not withdrawn by zf_build_undo.  Errors: ZF_E_FORMAT no plain relative path. */
bool zf_build_raw_only(struct zf_build *b, const char *set, struct zf_err *err) ZF_CHECKED;
/* The tensor is a piece of another one of its set: it has a file, but files that hold the whole set hold
 * the other alone. */
bool zf_draft_mark_piece(struct zf_draft *d, struct zf_err *err) ZF_CHECKED;

/* The same below the tree path `dir` ("" = the root), whatever the prefix is. */
struct zf_draft *zf_build_find_below(struct zf_build *b, const char *dir, struct zf_spot spot);

/* How many tensors were started so far. */
uint64_t zf_build_n_tensors(const struct zf_build *b);

/* A box of a tensor, or elements [first, first + n) of it in its own C order. */
struct zf_where {
    const uint64_t *start; /* [ndim] elements; NULL = the tensor's corner */
    const uint64_t *size;  /* [ndim] elements; NULL = the tensor's shape */
    uint64_t first, n;
    bool whole; /* all of the box: first and n do not count */
};
struct zf_from {
    struct zf_source *src;  /* takes its own reference; NULL = zeros */
    uint64_t off;           /* bytes: first element of the piece in src */
    const uint64_t *stride; /* [ndim] elements, of a whole box; NULL = packed, C order */
    const struct zf_lost
        *lost; /* copied, but its fill; not NULL: known to be lost, only when degraded */
};
/* The elements of such a place as a source of their own, packed in C order: for readers that learn
 * where a tensor is when it is first read.  Pre: stride is not NULL, every element lies inside src,
 * and there is one.  Errors: ZF_E_NOMEM. */
struct zf_source *zf_strided_new(struct zf_type type, struct zf_from from,
                                 struct zf_err *err) ZF_CHECKED;
/* Adds a piece.  Pieces come in any order; empty ones are ignored, wherever they are.
 * Errors: ZF_E_FORMAT outside the tensor or the box, outside the source; strides of a part of a box. */
bool zf_draft_put(struct zf_draft *d, struct zf_where where, struct zf_from from,
                  struct zf_err *err) ZF_CHECKED;
/* Elements [first, first + n) of the flattened tensor. */
ZF_CHECKED static inline bool zf_draft_flat(struct zf_draft *d, uint64_t first, uint64_t n,
                                            struct zf_from from, struct zf_err *err)
{
    return zf_draft_put(d, (struct zf_where){.first = first, .n = n}, from, err);
}
/* A box. */
ZF_CHECKED static inline bool zf_draft_box(struct zf_draft *d, const uint64_t *start,
                                           const uint64_t *size, struct zf_from from,
                                           struct zf_err *err)
{
    return zf_draft_put(d, (struct zf_where){start, size, .whole = true}, from, err);
}
/* Elements [first, first + n) of the flattened tensor are those from of_first on of the flattened
 * `of`, which was started before d, perhaps in another set, and has d's element type: a layer out
 * of a stacked tensor, two halves joined.  What `of` lost there, d lost too.  d may have pieces
 * besides that are stretches of it.
 * Errors: ZF_E_FORMAT any of this is not so; outside of either tensor. */
bool zf_draft_part(struct zf_draft *d, uint64_t first, uint64_t n, struct zf_draft *of,
                   uint64_t of_first, struct zf_err *err) ZF_CHECKED;
/* The box [start, start + size) of d, in C order, is elements [of_first, …) of the flattened `of`, as
 * that is put so far, lost bytes included: the part of a parameter that a flat buffer holds.  Both have
 * one element type.  start NULL = from d's corner.
 * Errors: ZF_E_FORMAT any of this is not so; outside of either tensor; `of` has parts. */
bool zf_draft_unflatten(struct zf_draft *d, const uint64_t *start, const uint64_t *size,
                        struct zf_draft *of, uint64_t of_first, struct zf_err *err) ZF_CHECKED;
/* The box [start, start + size) of d is the box [of_start, of_start + size) of `of`, as that is put so far,
 * lost bytes included; both have one element type and as many dimensions.  A value is copied as a whole.
 * `of` may be withdrawn afterwards.  Errors: ZF_E_FORMAT any of this is not so; `of` has parts. */
bool zf_draft_copy(struct zf_draft *d, const uint64_t *start, struct zf_draft *of,
                   const uint64_t *of_start, const uint64_t *size, struct zf_err *err) ZF_CHECKED;
/* Stretches of `bytes` bytes each, the k-th at from[k]: what n ranks hold of a vector.  Takes references;
 * lives as long as b and its checkpoint.  Errors: ZF_E_FORMAT one is not inside its source, or has none. */
struct zf_stretches;
struct zf_stretches *zf_build_stretches(struct zf_build *b, const struct zf_from *from, uint32_t n,
                                        uint64_t bytes, struct zf_err *err) ZF_CHECKED;
/* Elements [k * slot, (k + 1) * slot) of the flattened tensor, as far as it has them, are those from `at` on
 * of stretch k, packed: a rule in place of a piece a rank.  d has nothing else.
 * Errors: ZF_E_FORMAT it has; a slot is not inside its stretch. */
bool zf_draft_slots(struct zf_draft *d, const struct zf_stretches *of, uint64_t at, uint64_t slot,
                    struct zf_err *err) ZF_CHECKED;
/* From here on a source that is too short is no news: who read its head has noted it. */
bool zf_draft_noted(struct zf_draft *d, struct zf_err *err) ZF_CHECKED;
/* A tensor of which only the name is known, so that it cannot be shown; only when degraded. */
bool zf_build_missing(struct zf_build *b, const char *name, size_t name_len,
                      const struct zf_lost *how, struct zf_err *err) ZF_CHECKED;
/* The place of its metadata, for messages of seal: "file!key"; copied. */
bool zf_draft_where(struct zf_draft *d, const char *where, struct zf_err *err) ZF_CHECKED;
/* The same of metadata that are in `file` under the tensor's own name. */
bool zf_draft_inside(struct zf_draft *d, const char *file, struct zf_err *err) ZF_CHECKED;
/* Is d of this type, and one piece, all of it, that was put from there? */
bool zf_draft_is_from(const struct zf_draft *d, struct zf_type type, struct zf_from from);

/* Reads elements [first, first + n) of the flattened tensor into buf, as they are put so far: for readers
 * that compare what they have placed before they believe it.  The first read after a piece was put proves all
 * pieces, as the seal does, so put them first; a tensor with parts is proved at each read.  Several threads may
 * read at once while nothing is put.
 * Errors: ZF_E_FORMAT outside the tensor, or an element that no piece has so far, or more than one;
 * ZF_E_IO known to be lost, and of reading. */
bool zf_draft_read(struct zf_draft *d, uint64_t first, uint64_t n, void *buf,
                   struct zf_err *err) ZF_CHECKED;
/* Calls fn for the places of these elements, one behind the other, as they would be read; src: NULL = in none.  Stops when
 * fn returns false.  Errors: as zf_draft_read. */
typedef bool zf_draft_run_fn(void *ctx, struct zf_source *src, uint64_t off, uint64_t n);
bool zf_draft_runs(struct zf_draft *d, uint64_t first, uint64_t n, zf_draft_run_fn *fn, void *ctx,
                   struct zf_err *err) ZF_CHECKED;

/* Its set, with the prefix, or NULL if it is hidden, and its name; borrowed. */
struct zf_spot zf_draft_spot(const struct zf_draft *d);
/* Its shape is borrowed. */
struct zf_type zf_draft_type(const struct zf_draft *d);

/* A second name for `of` in the same set (tied weights): one inode, two names. */
bool zf_build_alias(struct zf_build *b, struct zf_draft *of, const char *name, size_t name_len,
                    struct zf_err *err) ZF_CHECKED;
/* A small tensor whose bytes are given here (Python scalars as tensors); copies them. */
bool zf_build_scalar(struct zf_build *b, struct zf_spot spot, enum zf_dtype t, const void *value,
                     struct zf_err *err) ZF_CHECKED;

/* A file that is no tensor.  From a source (takes a reference), or from memory (copies). */
bool zf_build_blob(struct zf_build *b, const char *path, struct zf_source *src, uint64_t off,
                   uint64_t n, struct zf_err *err) ZF_CHECKED;
bool zf_build_text(struct zf_build *b, const char *path, const char *p, uint64_t n,
                   struct zf_err *err) ZF_CHECKED;
/* The file at `path`, added before or after, says nothing that no other file says: it is found by name, and
 * not listed by default.  A path without a file does no harm.  Errors: ZF_E_NOMEM. */
bool zf_build_told(struct zf_build *b, const char *path, struct zf_err *err) ZF_CHECKED;
/* Is there a file of that path already? */
bool zf_build_has_file(const struct zf_build *b, const char *path);

/* Shown by `info`.  Notes beyond a few hundred of one kind are dropped and counted. */
bool zf_build_note(struct zf_build *b, struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))) ZF_CHECKED;
/* The same of a kind that is acted on, about files or directories; about: see struct zf_note, NULL = "". */
bool zf_build_note_on(struct zf_build *b, enum zf_note_kind kind, const char *about,
                      struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 5, 6))) ZF_CHECKED;
/* The same, once for each key (a name, not the sentence's words) of this sentence. */
bool zf_build_note_once(struct zf_build *b, const char *key, enum zf_note_kind kind,
                        const char *about, struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 6, 7))) ZF_CHECKED;
/* Adds a name to an `about` that is being written; beyond a few thousand bytes none, as each is compared with each file. */
struct zf_out;
void zf_note_about(struct zf_out *about, const char *name);
/* Is there a note of that kind? */
bool zf_build_has_note(const struct zf_build *b, enum zf_note_kind kind);
/* Does a note hold both texts? */
bool zf_build_noted(const struct zf_build *b, const char *text, const char *other);
/* These bytes should be equal and were not all compared (with zf_build_record_copies, compared ones too); takes its own references.
 * Errors: ZF_E_NOMEM. */
bool zf_build_copy(struct zf_build *b, const struct zf_copy *copy, struct zf_err *err) ZF_CHECKED;
/* With zf_build_record_copies: n bytes of src from off on are padding that the format's own rule cuts, set or not.
 * src: NULL is fine.  Errors: as zf_build_copy. */
static inline bool zf_build_padding(struct zf_build *b, struct zf_source *src, uint64_t off,
                                    uint64_t n, struct zf_err *err)
{
    const struct zf_copy pad = {.src = {NULL, src}, .off = {0, off}, .n = n};

    return !zf_build_records_copies(b) || !src || n == 0 || zf_build_copy(b, &pad, err);
}
/* The name of the i-th source that was given to b, in any order; borrowed.  NULL: there are no more. */
const char *zf_build_source(const struct zf_build *b, size_t i);
/* The first note, NULL = none; lives as long as b. */
const char *zf_build_first_note(const struct zf_build *b);
bool zf_build_tag(struct zf_build *b, const char *tag, struct zf_err *err) ZF_CHECKED;
void zf_build_step(struct zf_build *b, int64_t step);
/* The step that was set; false: none was, *out is left alone. */
bool zf_build_has_step(const struct zf_build *b, int64_t *out);

/* The drafts, but no hidden ones, of all sets below the tree path `dir` (whatever the prefix), in the order in which they were
 * started; begin with *at = 0.  out: its set behind `dir`, and its name; borrowed.  *tie: the draft of
 * which it is a second name, or NULL.  NULL: there are no more. */
struct zf_draft *zf_build_next(struct zf_build *b, const char *dir, uint64_t *at,
                               struct zf_spot *out, struct zf_draft **tie);
/* Takes out everything below the tree paths dir[n] for good: tensors and files that were made only to be
 * copied from.  Nothing outside may be a part of them.  Pre: no mark is open. */
void zf_build_withdraw(struct zf_build *b, const char *const *dir, uint32_t n);

/* All or nothing: everything that is drafted, added, noted or set after a mark is withdrawn by undo,
 * which releases its sources, or stays by keep; both end the innermost mark.  Drafts that were started
 * after the mark are gone then; those before it have the pieces they had. */
bool zf_build_mark(struct zf_build *b, struct zf_err *err) ZF_CHECKED;
void zf_build_undo(struct zf_build *b);
void zf_build_keep(struct zf_build *b);

/* Proves and freezes.  b is freed, also on failure.  format, why: copied into the checkpoint.
 * Errors: ZF_E_FORMAT "tensor X: elements A … B are covered by nothing / twice"; ZF_E_LIMIT. */
struct zf_checkpoint *zf_build_seal(struct zf_build *b, const char *format, const char *why,
                                    struct zf_err *err) ZF_CHECKED;

#endif
