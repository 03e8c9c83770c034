/* SPDX-License-Identifier: Apache-2.0 */
/* The core: a virtual byte range [0, size), and where each of its bytes comes from.  Immutable after sealing, so any
 * number of threads can read at once without a lock. */
#ifndef ZF_MODEL_MAP_H
#define ZF_MODEL_MAP_H

#include <zf/base/arena.h>
#include <zf/base/dtype.h>
#include <zf/source/clone.h>
#include <zf/source/source.h>

struct zf_map;

uint64_t zf_map_size(const struct zf_map *m);

/* The place of byte off (< size), and the length of the contiguous run that begins there.  Cannot fail, allocate or
 * lock: one binary search per level of maps. */
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

/* Reads n bytes at off; the range must be inside the map.  A strided piece is gathered with one vectored read per
 * chunk.
 * Errors: those of the sources. */
bool zf_map_read(const struct zf_map *m, void *buf, size_t n, uint64_t off,
                 struct zf_err *err) ZF_CHECKED;

/* The same with the elements of m (of type `from`) cast to `to`; n and off count bytes of the result. */
bool zf_map_read_cast(const struct zf_map *m, enum zf_dtype from, enum zf_dtype to, void *buf,
                      size_t n, uint64_t off, struct zf_err *err) ZF_CHECKED;
/* The same by way of a third type: cast from `from` to `by`, and the result to `to`. */
struct zf_cast_by {
    enum zf_dtype from, by, to;
};
bool zf_map_read_cast_by(const struct zf_map *m, struct zf_cast_by how, void *buf, size_t n,
                         uint64_t off, struct zf_err *err) ZF_CHECKED;

/* Calls zf_source_clone for the map's run at byte off (< size) and the bytes that follow it; sets c->off and c->n.
 * Errors: as for reading them. */
bool zf_map_clone(const struct zf_map *m, uint64_t off, struct zf_clone *c,
                  struct zf_err *err) ZF_CHECKED;

/* Calls fn for every source that the map uses, once per piece (provenance, verify), or once per row of a piece that a
 * slice cuts.  off, len: bytes of the source.  Maps that cast, which no tensor has, are left out.  Stops when fn
 * returns false, and then returns false. */
bool zf_map_each_source(const struct zf_map *m,
                        bool (*fn)(void *ctx, struct zf_source *s, uint64_t off, uint64_t len),
                        void *ctx);

/* Calls fn for the ranges of sources that a read of [off, off + n), cut at the end of the map, needs, roughly in the
 * order in which they are read; adjacent ranges are merged.  For prefetching.  A range of a piece with scattered bytes
 * includes the bytes between them; a piece with too many of these is left out.  Stops when fn returns false, and then
 * returns false. */
bool zf_map_each_range(const struct zf_map *m, uint64_t off, uint64_t n,
                       bool (*fn)(void *ctx, struct zf_source *s, uint64_t off, uint64_t len),
                       void *ctx);

/* Tells the sources which of their bytes a read of [off, off + n) will need soon (zf_source_want). */
void zf_map_want(const struct zf_map *m, uint64_t off, uint64_t n, enum zf_prefetch how);

/* Finds the largest box inside the box size[nd] that begins at position `at` in C order, is whole in its inner
 * dimensions and has at most n positions; start[nd] and extent[nd] are set to it.  Returns its number of positions.  At
 * most 2 * nd - 1 such boxes make up any range of positions. */
uint64_t zf_box_sub(uint32_t nd, const uint64_t *size, uint64_t at, uint64_t n, uint64_t *start,
                    uint64_t *extent);

/* A piece of a tensor's map and where its bytes come from.  It is a box in the map's own dimensions: those of the
 * tensor, some of which may be merged into one; the last one counts bytes. */
struct zf_extent {
    struct zf_source *src; /* borrowed; NULL = mem */
    const void *mem;       /* NULL = zeros */
    uint64_t off;          /* offset of its first byte in src */
    uint32_t nd;
    const uint64_t *shape, *start, *size; /* [nd] */
    const uint64_t *stride;               /* [nd] bytes of src; NULL = packed, C order */
};
/* Calls fn for every piece, including zeros, in no particular order.  Pieces of slices and parts are one-dimensional
 * runs; maps that cast are left out.  Stops when fn returns false, and then returns false. */
typedef bool zf_map_extent_fn(void *ctx, const struct zf_extent *e);
bool zf_map_each_extent(const struct zf_map *m, zf_map_extent_fn *fn, void *ctx);

/* Maps for files that are made of several things (views).  They live in the arena; sub-maps are borrowed and must live
 * as long. */
struct zf_map *zf_map_of_mem(struct zf_arena *a, const void *p, uint64_t n,
                             struct zf_err *err) ZF_CHECKED; /* borrows p */
/* Takes no reference on src: the owner of the arena must keep it alive. */
struct zf_map *zf_map_of_source(struct zf_arena *a, struct zf_source *src, uint64_t off, uint64_t n,
                                struct zf_err *err) ZF_CHECKED;
/* Bytes [off, off + n) of m, which must be inside it. */
struct zf_map *zf_map_slice(struct zf_arena *a, const struct zf_map *m, uint64_t off, uint64_t n,
                            struct zf_err *err) ZF_CHECKED;
/* A map with elements of another map in another order: element (i0, i1, …) is element first + Σ i * stride of `in`. */
#define ZF_STRIDED_DIMS 32
struct zf_strided {
    uint32_t elem; /* bytes of an element */
    uint32_t nd;   /* at most ZF_STRIDED_DIMS */
    uint64_t first;
    uint64_t size[ZF_STRIDED_DIMS], stride[ZF_STRIDED_DIMS];
};
/* Its memory does not depend on the size of the tensor.  Pre: no element of `in` occurs twice.
 * Errors: ZF_E_FORMAT an element is outside of `in`. */
struct zf_map *zf_map_strided(struct zf_arena *a, const struct zf_map *in,
                              const struct zf_strided *how, struct zf_err *err) ZF_CHECKED;
/* Row i is row i of the first part, then row i of the second one, and so on; every part must have `rows` rows (at least
 * one).  Errors: ZF_E_FORMAT a part does not have that many. */
struct zf_map *zf_map_columns(struct zf_arena *a, uint64_t rows, const struct zf_map *const *part,
                              uint64_t n_parts, struct zf_err *err) ZF_CHECKED;
/* The parts one after the other. */
ZF_CHECKED static inline struct zf_map *zf_map_of_parts(struct zf_arena *a,
                                                        const struct zf_map *const *part,
                                                        uint64_t n_parts, struct zf_err *err)
{
    return zf_map_columns(a, 1, part, n_parts, err);
}
/* The elements of `in` (of type `from`), each cast to `to` as zf/model/cast.h describes. */
struct zf_map *zf_map_of_cast(struct zf_arena *a, const struct zf_map *in, enum zf_dtype from,
                              enum zf_dtype to, struct zf_err *err) ZF_CHECKED;

#endif
