/* SPDX-License-Identifier: Apache-2.0 */
/* Many small packed tensors ("items") inside one file whose data offsets are found out at the first
 * read of each, and remembered: what makes mounting a DCP checkpoint read its metadata only.  Or
 * many files, each an item, as the chunks of a zarr array.
 *
 * An items source is one address space: item i is at its address (given when it is added, in
 * one piece, `len` bytes of packed C-order data).  16 bytes of memory an item. */
#ifndef ZF_SOURCE_ITEMS_H
#define ZF_SOURCE_ITEMS_H

#include <zf/source/recipe.h>

/* Where the data of an item really is. */
struct zf_item_at {
    uint64_t off;          /* in the file, when src is NULL */
    struct zf_source *src; /* gives a reference: the item's packed bytes, when they are not in the
                              file in one piece (compressed, strided) or there is no one file */
};

/* An item that is asked for. */
struct zf_item {
    uint64_t number;  /* 0 … in the order of zf_items_add */
    uint64_t rec_off; /* where its record starts in the file; of many files the caller's number */
    uint64_t len;     /* bytes of data that are expected */
};

/* Finds the data of an item.  May be called from any thread, even twice for one item.  ctx as given
 * to zf_items_new. */
typedef bool zf_item_locate_fn(void *ctx, struct zf_source *file, const struct zf_item *item,
                               struct zf_item_at *out, struct zf_err *err);

/* Takes its own reference on file (NULL: each item has a source of its own); takes ctx (not on
 * failure), freed by ctx_free (may be NULL) at the end. */
struct zf_source *zf_items_new(struct zf_source *file, zf_item_locate_fn *locate, void *ctx,
                               void (*ctx_free)(void *), struct zf_err *err) ZF_CHECKED;

/* Adds an item while the checkpoint is being built (one thread); *addr_out = its address in the
 * source.  Items of one rec_off may be added once only.  Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool zf_items_add(struct zf_source *items, uint64_t rec_off, uint64_t len, uint64_t *addr_out,
                  struct zf_err *err) ZF_CHECKED;

/* Gives back spare memory; no item is added afterwards. */
void zf_items_seal(struct zf_source *items);

/* For recipes: says the kind, and writes what ctx is made from. */
typedef bool zf_items_recipe_fn(void *ctx, struct zf_recipe *out);
void zf_items_recipe(struct zf_source *items, zf_items_recipe_fn *fn);
/* Adds what the recipe has behind that: the items, `most` of them at most.  Those that were found stay
 * found.  Errors: ZF_E_FORMAT; of zf_items_add. */
bool zf_items_remake(struct zf_source *items, uint64_t most, struct zf_remake *r,
                     struct zf_err *err) ZF_CHECKED;

#endif
