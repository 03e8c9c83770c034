/* SPDX-License-Identifier: Apache-2.0 */
/* A bulk file holds many tensors of a set in one format (model.safetensors, pytorch_model.bin, an hf/
 * shard or its index).  Its size is computed at the first stat, its map is built at the first read; an
 * unused file costs nothing. */
#ifndef VIEW_BULK_H
#define VIEW_BULK_H

#include <stdatomic.h>

#include <zf/base/vec.h>
#include <zf/base/thread.h>
#include <zf/view.h>

#include "shelf.h"

struct bulk;

/* A damaged tensor in the file: the offset of its bytes, and its element size there. */
struct bulk_hurt {
    uint64_t first;
    uint32_t tensor, width;
};
typedef zf_vec(struct bulk_hurt) bulk_hurts;

/* A plan of the file: its bytes as pieces in memory and tensors' data, in order; or only their size. */
struct bulk_plan {
    struct zf_arena *arena;
    zf_vec(const struct zf_map *) part;
    uint64_t size;  /* bytes so far */
    bool only_size; /* pieces are not kept */
    bool lost;      /* some of its bytes cannot be read */
    bulk_hurts hurt;
    zf_sums *sums; /* NULL: not wanted */
};
/* Adds a copy of the bytes.  Errors: ZF_E_LIMIT the file would be larger than files can be. */
bool bulk_add_mem(struct bulk_plan *p, const void *bytes, uint64_t n,
                  struct zf_err *err) ZF_CHECKED;
/* Adds tensor i of the set, as type `cast`. */
bool bulk_add_tensor(struct bulk_plan *p, const struct shelf_set *ss, uint32_t i,
                     enum zf_dtype cast, struct zf_err *err) ZF_CHECKED;

/* Adds the bytes of a map that lives as long as the tree. */
bool bulk_add_map(struct bulk_plan *p, const struct zf_map *map, struct zf_err *err) ZF_CHECKED;

/* n rounded up to the end of a page: the kernel reads a page of a mapping completely or not at all. */
uint64_t bulk_page_end(uint64_t n);

/* One format.  The meaning of `shard` depends on the kind. */
struct bulk_kind {
    const char *name;
    bool (*plan)(const struct bulk *b, struct bulk_plan *p, struct zf_err *err);
};

struct bulk {
    const struct bulk_kind *kind;
    const struct shelf_set *of;
    enum zf_dtype cast;
    const void *shard; /* its meaning depends on the kind; or NULL */
    /* Computed once, under the lock; read without it. */
    pthread_mutex_t lock;
    _Atomic uint64_t size; /* UINT64_MAX = not known yet */
    bool lost;             /* valid once the size is known */
    _Atomic(struct zf_map *) map;
    bulk_hurts hurt; /* valid once the map is made; in file order */
    struct zf_arena *arena;
};

void bulk_init(struct bulk *b, const struct bulk_kind *kind, const struct shelf_set *of,
               enum zf_dtype cast, const void *shard);
void bulk_fini(struct bulk *b);
/* The size of the file in bytes. */
bool bulk_size(struct bulk *b, uint64_t *out, struct zf_err *err) ZF_CHECKED;
/* Adds the checksums that are 0 in the file to *out. */
bool bulk_sums(struct bulk *b, zf_sums *out, struct zf_err *err) ZF_CHECKED;
/* The file's map; borrowed, lives as long as the bulk. */
const struct zf_map *bulk_map(struct bulk *b, struct zf_err *err) ZF_CHECKED;
/* The file's map if it was made already, else NULL. */
const struct zf_map *bulk_map_if_made(struct bulk *b);

extern const struct bulk_kind bulk_safetensors;
extern const struct bulk_kind bulk_torch;

#endif
