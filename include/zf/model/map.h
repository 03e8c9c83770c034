/* SPDX-License-Identifier: Apache-2.0 */
/* The heart: a virtual byte range [0, size) and the place of each byte.  Immutable after sealing,
 * so any number of threads read at once without a lock. */
#ifndef ZF_MODEL_MAP_H
#define ZF_MODEL_MAP_H

#include <zf/base/arena.h>
#include <zf/base/dtype.h>
#include <zf/source/clone.h>
#include <zf/source/source.h>

struct zf_map;

uint64_t zf_map_size(const struct zf_map *m);

/* The place of byte off (< size), and the number of bytes that follow it contiguously.  Cannot fail,
 * allocate or lock: a binary search a level. */
enum zf_run_kind {
    ZF_RUN_MEM,
    ZF_RUN_ZERO,
    ZF_RUN_SRC,
    ZF_RUN_MADE /* computed: only readable through zf_map_read */
};
struct zf_run {
    enum zf_run_kind kind;
    uint64_t len;
    const void *mem;       /* MEM */
    struct zf_source *src; /* SRC, borrowed */
    uint64_t off;          /* SRC, bytes */
};
struct zf_run zf_map_at(const struct zf_map *m, uint64_t off);

/* Reads n bytes at off (inside the map: the caller cuts at the end).  A strided piece is gathered
 * with one scattering read a chunk.  Errors: of the sources. */
bool zf_map_read(const struct zf_map *m, void *buf, size_t n, uint64_t off,
                 struct zf_err *err) ZF_CHECKED;

/* The same of the elements of m (of type from) cast to `to`: n and off count bytes of
 * the result. */
bool zf_map_read_cast(const struct zf_map *m, enum zf_dtype from, enum zf_dtype to, void *buf,
                      size_t n, uint64_t off, struct zf_err *err) ZF_CHECKED;
/* The same by way of a third type: cast twice, as somebody does who casts what is cast already. */
struct zf_cast_by {
    enum zf_dtype from, by, to;
};
bool zf_map_read_cast_by(const struct zf_map *m, struct zf_cast_by how, void *buf, size_t n,
                         uint64_t off, struct zf_err *err) ZF_CHECKED;

/* zf_source_clone of what the map has at byte off (< size) and of what follows that; c->off and
 * c->n are set here.  Errors: as reading it. */
bool zf_map_clone(const struct zf_map *m, uint64_t off, struct zf_clone *c,
                  struct zf_err *err) ZF_CHECKED;

/* Calls fn for every source the map touches, once per piece (provenance, verify), or once per
 * row of a piece where a slice cuts it.  off, len: bytes of the source.  Of a map that casts, which
 * no tensor has, nothing is said.  Stops when fn returns false, and then returns false. */
bool zf_map_each_source(const struct zf_map *m,
                        bool (*fn)(void *ctx, struct zf_source *s, uint64_t off, uint64_t len),
                        void *ctx);

/* Calls fn for the bytes of sources that a read of [off, off + n) needs (what lies behind the end of
 * the map does not count), about in the order in which reading comes by them; neighbours are one.
 * Of bytes that lie scattered among others, those in between count too unless they are many, and
 * then nothing is said of such a piece.  For who wants them fetched beforehand.  Stops when fn
 * returns false, and then returns false. */
bool zf_map_each_range(const struct zf_map *m, uint64_t off, uint64_t n,
                       bool (*fn)(void *ctx, struct zf_source *s, uint64_t off, uint64_t len),
                       void *ctx);

/* Tells these sources that those bytes will be read soon (zf_source_want). */
void zf_map_want(const struct zf_map *m, uint64_t off, uint64_t n, enum zf_soon how);

/* The largest box in the box size [nd] that begins at position `at` of its C order and is whole in
 * its inner dimensions, with at most n positions: where it begins and what it has in each dimension
 * into start and extent [nd].  Returns its positions.  At most 2 * nd - 1 such make any stretch. */
uint64_t zf_box_sub(uint32_t nd, const uint64_t *size, uint64_t at, uint64_t n, uint64_t *start,
                    uint64_t *extent);

/* A piece of a tensor's map and where its bytes come from: a box in dimensions of the map's own, the
 * last of which counts bytes.  The tensor's dimensions are these, or several of them are one here. */
struct zf_extent {
    struct zf_source *src; /* borrowed; NULL = mem */
    const void *mem;       /* NULL = zeros */
    uint64_t off;          /* of its first byte in src */
    uint32_t nd;
    const uint64_t *shape, *start, *size; /* [nd] */
    const uint64_t *stride;               /* [nd] bytes of src; NULL = packed, C order */
};
/* Calls fn for every piece, zeros too, in no particular order.  Those of slices and parts are runs,
 * in one dimension; of a map that casts nothing is said.  Stops when fn returns false, and then
 * returns false. */
typedef bool zf_map_extent_fn(void *ctx, const struct zf_extent *e);
bool zf_map_each_extent(const struct zf_map *m, zf_map_extent_fn *fn, void *ctx);

/* Pieces for files made of several things (views).  Maps of one arena; sub-maps are borrowed and
 * must live as long. */
struct zf_map *zf_map_of_mem(struct zf_arena *a, const void *p, uint64_t n,
                             struct zf_err *err) ZF_CHECKED; /* borrows p */
/* Takes no reference on src: whoever owns the arena keeps it alive. */
struct zf_map *zf_map_of_source(struct zf_arena *a, struct zf_source *src, uint64_t off, uint64_t n,
                                struct zf_err *err) ZF_CHECKED;
/* Bytes [off, off + n) of m, inside it. */
struct zf_map *zf_map_slice(struct zf_arena *a, const struct zf_map *m, uint64_t off, uint64_t n,
                            struct zf_err *err) ZF_CHECKED;
/* Elements of another map in another order: element (i0, i1, …) is number first + Σ i * stride of `in`. */
#define ZF_STRIDED_DIMS 32
struct zf_strided {
    uint32_t elem; /* bytes of an element */
    uint32_t nd;   /* at most ZF_STRIDED_DIMS */
    uint64_t first;
    uint64_t size[ZF_STRIDED_DIMS], stride[ZF_STRIDED_DIMS];
};
/* Memory for it does not grow with the tensor.  Pre: no element is there twice.
 * Errors: ZF_E_FORMAT an element outside of `in`. */
struct zf_map *zf_map_strided(struct zf_arena *a, const struct zf_map *in,
                              const struct zf_strided *how, struct zf_err *err) ZF_CHECKED;
/* Row i is row i of each part, one after the other; every part has that many rows (at least one).
 * Errors: ZF_E_FORMAT one has not. */
struct zf_map *zf_map_columns(struct zf_arena *a, uint64_t rows, const struct zf_map *const *part,
                              uint64_t n_parts, struct zf_err *err) ZF_CHECKED;
/* One after the other. */
ZF_CHECKED static inline struct zf_map *zf_map_of_parts(struct zf_arena *a,
                                                        const struct zf_map *const *part,
                                                        uint64_t n_parts, struct zf_err *err)
{
    return zf_map_columns(a, 1, part, n_parts, err);
}
/* The elements of `in` (of type from) cast one by one; see zf/model/cast.h for what is exact. */
struct zf_map *zf_map_of_cast(struct zf_arena *a, const struct zf_map *in, enum zf_dtype from,
                              enum zf_dtype to, struct zf_err *err) ZF_CHECKED;

#endif
