/* SPDX-License-Identifier: Apache-2.0 */
/* The calls with which format readers build a model.  The seal then proves that each tensor is fully covered, without
 * overlap, and that everything lies inside its source.  One thread.  With `degraded`, bytes for which this cannot be
 * proved are lost (reading exactly those fails with EIO) instead of refused. */
#ifndef ZF_MODEL_BUILD_H
#define ZF_MODEL_BUILD_H

#include <string.h>

#include <zf/base/limits.h>
#include <zf/model/model.h>

struct zf_build;
struct zf_draft; /* a tensor being put together; owned by the build */

struct zf_build *zf_build_new(struct zf_store *st, const struct zf_limits *lim, bool degraded,
                              struct zf_err *err) ZF_CHECKED;
void zf_build_free(struct zf_build *b); /* NULL is fine; only for a build that was not sealed */
static inline void zf_auto_build(struct zf_build **b)
{
    zf_build_free(*b);
}
bool zf_build_degraded(const struct zf_build *b);
/* The store given to zf_build_new: borrowed, may be NULL. */
struct zf_store *zf_build_store(const struct zf_build *b);
/* From here on, lost elements of types that have a NaN read as NaN. */
void zf_build_fill_lost(struct zf_build *b);
/* From here on zf_build_copy records all copies, including those that were compared. */
void zf_build_record_copies(struct zf_build *b);
bool zf_build_records_copies(const struct zf_build *b);

/* The place of a tensor in the tree. */
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

/* From here on, paths of sets and files, in look-ups too, are relative to `prefix`, a tree path ("mp_rank_03"); "" =
 * the root again.  Copies it.  Errors: ZF_E_FORMAT it is no plain relative path. */
bool zf_build_prefix(struct zf_build *b, const char *prefix, struct zf_err *err) ZF_CHECKED;

/* Starts a tensor.  Copies its arguments.
 * Errors: ZF_E_FORMAT the set has a tensor of that name, size overflow; ZF_E_LIMIT
 * tensors, tensor_dims. */
struct zf_draft *zf_build_tensor(struct zf_build *b, struct zf_spot spot, struct zf_type type,
                                 struct zf_err *err) ZF_CHECKED;
/* The draft at that place, or NULL. */
struct zf_draft *zf_build_find(struct zf_build *b, struct zf_spot spot);

/* Starts a tensor that is not in the tree, from which others are made (zf_draft_part, zf_build_show); its name is only
 * used in messages.  Errors: as zf_build_tensor. */
struct zf_draft *zf_build_hidden(struct zf_build *b, const char *name, size_t name_len,
                                 struct zf_type type, struct zf_err *err) ZF_CHECKED;
/* Shows the bytes of `of` at a place, including pieces that are added to `of` later.  Returns the draft at that place.
 * Errors: ZF_E_FORMAT the place is taken; ZF_E_LIMIT tensors. */
struct zf_draft *zf_build_show(struct zf_build *b, struct zf_spot spot, struct zf_draft *of,
                               struct zf_err *err) ZF_CHECKED;

/* Shows the tensors of this set as raw bytes and in no other form: a record of what is on disk.  `set` is relative to
 * the prefix.  zf_build_undo does not undo it.  Errors: ZF_E_FORMAT no plain relative path. */
bool zf_build_raw_only(struct zf_build *b, const char *set, struct zf_err *err) ZF_CHECKED;
/* Marks d as a piece of another tensor of its set: d has a raw file of its own, but files that hold the whole set
 * contain only the other tensor. */
bool zf_draft_mark_piece(struct zf_draft *d, struct zf_err *err) ZF_CHECKED;

/* As zf_build_find, but relative to the tree path `dir` ("" = the root) instead of the prefix. */
struct zf_draft *zf_build_find_below(struct zf_build *b, const char *dir, struct zf_spot spot);

/* The number of tensors started so far. */
uint64_t zf_build_n_tensors(const struct zf_build *b);

/* A box of a tensor, or elements [first, first + n) of it in its own C order. */
struct zf_where {
    const uint64_t *start; /* [ndim] elements; NULL = all zero */
    const uint64_t *size;  /* [ndim] elements; NULL = the tensor's shape */
    uint64_t first, n;
    bool whole; /* the whole box: first and n are ignored */
};
struct zf_from {
    struct zf_source *src;  /* takes its own reference; NULL = zeros */
    uint64_t off;           /* bytes: offset in src of the piece's first element */
    const uint64_t *stride; /* [ndim] elements, only for a whole box; NULL = packed, C order */
    const struct zf_lost *
        lost; /* copied except its fill; not NULL: the piece is known to be lost (only when degraded) */
};
/* Makes a source of the elements at `from`, packed in C order: for readers that learn where a tensor is when it is
 * first read.  Pre: stride is not NULL, every element lies inside src, and there is at least one.  Errors:
 * ZF_E_NOMEM. */
struct zf_source *zf_strided_new(struct zf_type type, struct zf_from from,
                                 struct zf_err *err) ZF_CHECKED;
/* Adds a piece.  Pieces may come in any order; empty ones are ignored, wherever they are.
 * Errors: ZF_E_FORMAT outside the tensor or the box, outside the source; strides with a part of a box. */
bool zf_draft_put(struct zf_draft *d, struct zf_where where, struct zf_from from,
                  struct zf_err *err) ZF_CHECKED;
/* Adds elements [first, first + n) of the flattened tensor. */
ZF_CHECKED static inline bool zf_draft_flat(struct zf_draft *d, uint64_t first, uint64_t n,
                                            struct zf_from from, struct zf_err *err)
{
    return zf_draft_put(d, (struct zf_where){.first = first, .n = n}, from, err);
}
/* Adds a box. */
ZF_CHECKED static inline bool zf_draft_box(struct zf_draft *d, const uint64_t *start,
                                           const uint64_t *size, struct zf_from from,
                                           struct zf_err *err)
{
    return zf_draft_put(d, (struct zf_where){start, size, .whole = true}, from, err);
}
/* Makes elements [first, first + n) of the flattened tensor refer to those from of_first on of the flattened `of`: for
 * a layer of a stacked tensor, or two halves joined.  `of` must have been started before d (perhaps in another set) and
 * have d's element type.  Elements that `of` lost are lost in d, too.  d may also have pieces that are ranges of its
 * elements, but no boxes.  Errors: ZF_E_FORMAT any of this is not so; outside of either tensor. */
bool zf_draft_part(struct zf_draft *d, uint64_t first, uint64_t n, struct zf_draft *of,
                   uint64_t of_first, struct zf_err *err) ZF_CHECKED;
/* Makes the box [start, start + size) of d, in C order, a copy of the elements from of_first on of the flattened `of`,
 * with the pieces that `of` has so far, lost bytes included: for a part of a parameter that lies in a flat buffer.
 * Both must have the same element type.  start NULL = all zero.
 * Errors: ZF_E_FORMAT any of this is not so; outside of either tensor; `of` has parts (zf_draft_part). */
bool zf_draft_unflatten(struct zf_draft *d, const uint64_t *start, const uint64_t *size,
                        struct zf_draft *of, uint64_t of_first, struct zf_err *err) ZF_CHECKED;
/* Makes the box [start, start + size) of d a copy of the box [of_start, of_start + size) of `of`, with the pieces that
 * `of` has so far, lost bytes included.  Both must have the same element type and number of dimensions.  A scalar whose
 * value was given (zf_build_scalar) is copied as a whole.  `of` may be withdrawn afterwards.
 * Errors: ZF_E_FORMAT any of this is not so; `of` has parts. */
bool zf_draft_copy(struct zf_draft *d, const uint64_t *start, struct zf_draft *of,
                   const uint64_t *of_start, const uint64_t *size, struct zf_err *err) ZF_CHECKED;
/* Makes a list of n ranges of `bytes` bytes each, the k-th at from[k]: the shards of a vector on n ranks.  Takes
 * references; lives as long as b and its checkpoint.  Errors: ZF_E_FORMAT a range has no source or is not inside it. */
struct zf_stretches;
struct zf_stretches *zf_build_stretches(struct zf_build *b, const struct zf_from *from, uint32_t n,
                                        uint64_t bytes, struct zf_err *err) ZF_CHECKED;
/* Makes elements [k * slot, (k + 1) * slot) of the flattened tensor, cut at its end, those from element `at` on of
 * range k, packed: one rule instead of one piece per rank.  d must have no other pieces.
 * Errors: ZF_E_FORMAT d has other pieces; a slot is not inside its range. */
bool zf_draft_slots(struct zf_draft *d, const struct zf_stretches *of, uint64_t at, uint64_t slot,
                    struct zf_err *err) ZF_CHECKED;
/* From here on, no note is added when a source of d is too short: the reader of the file's header has added one. */
bool zf_draft_noted(struct zf_draft *d, struct zf_err *err) ZF_CHECKED;
/* Records a tensor that cannot be shown because only its name is known; only when degraded. */
bool zf_build_missing(struct zf_build *b, const char *name, size_t name_len,
                      const struct zf_lost *how, struct zf_err *err) ZF_CHECKED;
/* Sets the location of d's metadata, for error messages of the seal: "file!key"; copied. */
bool zf_draft_where(struct zf_draft *d, const char *where, struct zf_err *err) ZF_CHECKED;
/* The same for metadata that are in `file` under the tensor's own name. */
bool zf_draft_inside(struct zf_draft *d, const char *file, struct zf_err *err) ZF_CHECKED;
/* True if d has this type and is a single whole piece that was added with this `from`. */
bool zf_draft_is_from(const struct zf_draft *d, struct zf_type type, struct zf_from from);

/* Reads elements [first, first + n) of the flattened tensor from its pieces so far into buf: for readers that verify a
 * placement by comparing elements.  The first read after a piece was added proves all pieces, as the seal does, so add
 * all pieces first; a tensor with parts is proved at each read.  Several threads may read at once while nothing is
 * added.
 * Errors: ZF_E_FORMAT outside the tensor, or an element in no piece so far, or in several; ZF_E_IO known to be lost;
 * those of reading. */
bool zf_draft_read(struct zf_draft *d, uint64_t first, uint64_t n, void *buf,
                   struct zf_err *err) ZF_CHECKED;
/* Calls fn for the byte ranges of these elements, in order, as zf_draft_read would read them; src NULL: the bytes are
 * in no source.  Stops when fn returns false.  Errors: as zf_draft_read. */
typedef bool zf_draft_run_fn(void *ctx, struct zf_source *src, uint64_t off, uint64_t n);
bool zf_draft_runs(struct zf_draft *d, uint64_t first, uint64_t n, zf_draft_run_fn *fn, void *ctx,
                   struct zf_err *err) ZF_CHECKED;

/* Its set, with the prefix (NULL if it is hidden), and its name; borrowed. */
struct zf_spot zf_draft_spot(const struct zf_draft *d);
/* Its shape is borrowed. */
struct zf_type zf_draft_type(const struct zf_draft *d);

/* Adds a second name for `of` in the same set (tied weights): one inode, two names. */
bool zf_build_alias(struct zf_build *b, struct zf_draft *of, const char *name, size_t name_len,
                    struct zf_err *err) ZF_CHECKED;
/* Adds a small tensor with the given bytes (a Python scalar as a tensor); copies them. */
bool zf_build_scalar(struct zf_build *b, struct zf_spot spot, enum zf_dtype t, const void *value,
                     struct zf_err *err) ZF_CHECKED;

/* Adds a file that is no tensor: from a source (takes a reference), or from memory (copies). */
bool zf_build_blob(struct zf_build *b, const char *path, struct zf_source *src, uint64_t off,
                   uint64_t n, struct zf_err *err) ZF_CHECKED;
bool zf_build_text(struct zf_build *b, const char *path, const char *p, uint64_t n,
                   struct zf_err *err) ZF_CHECKED;
/* Marks the file at `path`, which may be added later, as redundant: other files have all its contents, so it is found
 * by name, but not listed by default.  A path without a file is ignored.  Errors: ZF_E_NOMEM. */
bool zf_build_told(struct zf_build *b, const char *path, struct zf_err *err) ZF_CHECKED;
/* True if a file was added at that path. */
bool zf_build_has_file(const struct zf_build *b, const char *path);

/* Adds a note, which `info` shows.  Notes beyond a few hundred of one kind are only counted. */
bool zf_build_note(struct zf_build *b, struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))) ZF_CHECKED;
/* The same for a note of a kind that programs act on; about: files or directories, as in struct zf_note; NULL = "". */
bool zf_build_note_on(struct zf_build *b, enum zf_note_kind kind, const char *about,
                      struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 5, 6))) ZF_CHECKED;
/* The same, but only once per key (an identifier of this note, not its text). */
bool zf_build_note_once(struct zf_build *b, const char *key, enum zf_note_kind kind,
                        const char *about, struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 6, 7))) ZF_CHECKED;
/* Adds a name to an `about` that is being written; none beyond a few thousand bytes, since each is compared with each
 * file. */
struct zf_out;
void zf_note_about(struct zf_out *about, const char *name);
/* True if there is a note of that kind. */
bool zf_build_has_note(const struct zf_build *b, enum zf_note_kind kind);
/* Records that a note names the file or directory at `path`, besides those of its `about`, and, unless that is "",
 * repeats `msg`, the message of a failure to read it.  More than a few thousand are not recorded.  Errors: of memory. */
bool zf_build_note_names(struct zf_build *b, const char *path, const char *msg,
                         struct zf_err *err) ZF_CHECKED;
/* True if a note names (in its `about`, or by zf_build_note_names) the file or directory `name`, or something in it; if
 * `name` ends in a slash, only the latter. */
bool zf_build_noted(const struct zf_build *b, const char *name);
/* True if the text of a note contains both.  Only for not saying the same twice: texts change. */
bool zf_build_note_says(const struct zf_build *b, const char *text, const char *other);
/* True if a note repeats this failure (zf_build_note_names). */
bool zf_build_noted_failure(const struct zf_build *b, const struct zf_err *why);
/* Records two ranges of bytes that should be equal but were not compared completely (with zf_build_record_copies, also
 * if they were); takes its own references.  Errors: ZF_E_NOMEM. */
bool zf_build_copy(struct zf_build *b, const struct zf_copy *copy, struct zf_err *err) ZF_CHECKED;
/* With zf_build_record_copies: records that n bytes of src from `off` on are padding that the format itself cuts off,
 * whatever their value.  src: NULL is fine.  Errors: as zf_build_copy. */
static inline bool zf_build_padding(struct zf_build *b, struct zf_source *src, uint64_t off,
                                    uint64_t n, struct zf_err *err)
{
    const struct zf_copy pad = {.src = {NULL, src}, .off = {0, off}, .n = n};

    return !zf_build_records_copies(b) || !src || n == 0 || zf_build_copy(b, &pad, err);
}
/* The name of the i-th source of b, in no particular order; borrowed.  NULL: there are no more. */
const char *zf_build_source(const struct zf_build *b, size_t i);
/* The first note, NULL = none; lives as long as b. */
const char *zf_build_first_note(const struct zf_build *b);
bool zf_build_tag(struct zf_build *b, const char *tag, struct zf_err *err) ZF_CHECKED;
void zf_build_step(struct zf_build *b, int64_t step);
/* The step that was set; false: none was set, *out is unchanged. */
bool zf_build_has_step(const struct zf_build *b, int64_t *out);

/* Returns the next draft, hidden ones excepted, in the sets below the tree path `dir` (not relative to the prefix), in
 * the order in which they were started; begin with *at = 0.  out: the draft's set relative to `dir`, and its name;
 * borrowed.  *tie: the draft of which it is a second name, or NULL.  Returns NULL if there are no more. */
struct zf_draft *zf_build_next(struct zf_build *b, const char *dir, uint64_t *at,
                               struct zf_spot *out, struct zf_draft **tie);
/* Removes everything below the tree paths dir[n]: tensors and files that were made only to be copied from.  No tensor
 * outside may have parts of them.  Pre: no mark is open. */
void zf_build_withdraw(struct zf_build *b, const char *const *dir, uint32_t n);

/* Transactions.  zf_build_undo withdraws everything that was added, noted or set after the innermost mark and releases
 * its sources; zf_build_keep keeps it; both end that mark.  After undo, drafts that were started after the mark no
 * longer exist, and earlier ones have the pieces that they had at the mark. */
bool zf_build_mark(struct zf_build *b, struct zf_err *err) ZF_CHECKED;
void zf_build_undo(struct zf_build *b);
void zf_build_keep(struct zf_build *b);

/* Proves all tensors and makes the checkpoint.  Frees b, also on failure.  format, why: copied into the checkpoint.
 * Errors: ZF_E_FORMAT "tensor X: elements A … B are covered by nothing / twice"; ZF_E_LIMIT. */
struct zf_checkpoint *zf_build_seal(struct zf_build *b, const char *format, const char *why,
                                    struct zf_err *err) ZF_CHECKED;

#endif
