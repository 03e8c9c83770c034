/* SPDX-License-Identifier: Apache-2.0 */
/* The items of one .distcp file as a source; the offset of the tensor in an item is found at its first
 * read. */
#ifndef DCP_ITEMS_H
#define DCP_ITEMS_H

#include <zf/base/dtype.h>
#include <zf/codec/torch.h>
#include <zf/source/items.h>

#include "metadata.h"

/* One item as the metadata describes it; packed, because there are millions. */
struct dcp_record {
    uint64_t len : 40, dtype : 6, wrap : 2, shape : 16 /* dcp_shape_print */;
};
#define ZF_DCP_ITEM_MAX ((1ull << 40) - 1)

/* A hash of a shape, which detects items of another shape. */
uint16_t dcp_shape_print(uint32_t ndim, const uint64_t *size);

/* An items source over file: takes ownership of records (malloc'ed, in the order in which the items are
 * added; freed on failure, too).
 * Errors of its reads: ZF_E_FORMAT the item's dtype, shape or size contradicts the metadata;
 * ZF_E_UNSUPPORTED its encoding. */
struct zf_source *dcp_items_new(struct zf_source *file, struct dcp_record *records, uint64_t n,
                                const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

extern const struct zf_source_kind dcp_items_kind;

/* Does the failure mean that an item contradicts the metadata?  Otherwise it could not be read. */
bool dcp_item_refuted(const struct zf_err *err);
/* Opens the item (rec_off, len) of the file: does it match the metadata?  *sound: it is a tensor, this one or another.
 * Errors: as for reads. */
bool dcp_item_agrees(struct zf_source *file, const struct dcp_record *r, const struct zf_item *item,
                     const struct zf_limits *lim, bool *sound, struct zf_err *err) ZF_CHECKED;

/* An opened item. */
struct dcp_look {
    struct zf_source *body; /* the item's bytes, decompressed */
    struct zf_torch *torch; /* NULL: not a torch.save file */
};
/* The item's bytes, decompressed to max_bytes at most; returns a reference.
 * Errors: ZF_E_UNSUPPORTED, ZF_E_FORMAT, ZF_E_LIMIT. */
struct zf_source *dcp_body(struct zf_source *file, struct dcp_item item, uint64_t max_bytes,
                           const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
/* Opens an item.  Errors: of zf_torch_open; ZF_E_UNSUPPORTED; ZF_E_LIMIT. */
bool dcp_look_init(struct dcp_look *look, struct zf_source *file, struct dcp_item item,
                   uint64_t max_bytes, const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void dcp_look_fini(struct dcp_look *look);
static inline void zf_auto_dcp_look(struct dcp_look *look)
{
    dcp_look_fini(look);
}

/* The tensor in an opened item: the item's value itself, or the only
 * tensor inside a subclass.
 * Errors: ZF_E_UNSUPPORTED it has several parts; of zf_torch_tensor. */
bool dcp_look_tensor(struct dcp_look *look, struct zf_torch_tensor *out,
                     struct zf_err *err) ZF_CHECKED;

/* Where the elements of a tensor of an opened item are; out->src and out->stride are borrowed; stride is NULL if the
 * tensor is contiguous.  Errors: ZF_E_FORMAT it has no data. */
bool dcp_from(const struct zf_torch_tensor *t, struct zf_from *out, struct zf_err *err) ZF_CHECKED;

#endif
