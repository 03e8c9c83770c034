/* SPDX-License-Identifier: Apache-2.0 */
/* Many small packed tensors ("items") in one file.  Each item's data offset is found by its first
 * read, and remembered, so that mounting a DCP checkpoint reads its metadata only.  Or many files,
 * each an item, as the chunks of a zarr array.
 *
 * An items source is one address space: zf_items_add gives each item an address, at which its `len`
 * bytes of packed C-order data are contiguous.  An item takes 16 bytes of memory. */
#ifndef ZF_SOURCE_ITEMS_H
#define ZF_SOURCE_ITEMS_H

#include <zf/source/recipe.h>

/* The location of an item's data. */
struct zf_item_at {
    uint64_t off; /* in the file, if src is NULL */
    struct zf_source
        *src; /* a new reference: the item's packed bytes, if they are not contiguous in
                              the file (compressed, strided) or there is no single file */
};

/* The item to locate. */
struct zf_item {
    uint64_t number;  /* 0 … in the order of zf_items_add */
    uint64_t rec_off; /* offset of its record in the file; with many files, the caller's number */
    uint64_t len;     /* expected bytes of data */
};

/* Locates the data of an item.  May be called from any thread, even twice for one item.  ctx: as
 * given to zf_items_new. */
typedef bool zf_item_locate_fn(void *ctx, struct zf_source *file, const struct zf_item *item,
                               struct zf_item_at *out, struct zf_err *err);

/* Takes its own reference on file (NULL: each item has a source of its own).  Owns ctx (not on
 * failure); ctx_free (may be NULL) frees it at the end. */
struct zf_source *zf_items_new(struct zf_source *file, zf_item_locate_fn *locate, void *ctx,
                               void (*ctx_free)(void *), struct zf_err *err) ZF_CHECKED;

/* Adds an item while the checkpoint is being built (one thread); *addr_out: its address in the
 * source.  Each rec_off may be added only once.  Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool zf_items_add(struct zf_source *items, uint64_t rec_off, uint64_t len, uint64_t *addr_out,
                  struct zf_err *err) ZF_CHECKED;

/* Frees spare memory; no item can be added afterwards. */
void zf_items_seal(struct zf_source *items);

/* For recipes: sets the kind, and writes what ctx can be made from. */
typedef bool zf_items_recipe_fn(void *ctx, struct zf_recipe *out);
void zf_items_recipe(struct zf_source *items, zf_items_recipe_fn *fn);
/* Adds the items, at most `most`, from the rest of the recipe; located items stay located.
 * Errors: ZF_E_FORMAT; of zf_items_add. */
bool zf_items_remake(struct zf_source *items, uint64_t most, struct zf_remake *r,
                     struct zf_err *err) ZF_CHECKED;

#endif
