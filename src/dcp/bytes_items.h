/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes items: everything in the state dict that is not a tensor. */
#ifndef DCP_BYTES_ITEMS_H
#define DCP_BYTES_ITEMS_H

#include "placing.h"

/* Checks that each bytes item among order [n] is one whole file, unless many were checked before: then
 * the first read does.  Errors: of dcp_whole, with the item's key. */
bool dcp_bytes_check(struct dcp_placing *p, const uint32_t *order, uint64_t n,
                     struct zf_err *err) ZF_CHECKED;

/* A source of the item's exact bytes; returns a reference.  Reads fail if the item is lost or not whole. */
struct zf_source *dcp_bytes_source(const struct zf_dcp *d, const struct dcp_chunk *c,
                                   struct zf_err *err) ZF_CHECKED;

/* Finds bytes items that have the same path as one of another state dict: the first keeps the path, the others get
 * their directory in front.  Errors: ZF_E_NOMEM. */
bool dcp_bytes_disambiguate(struct dcp_placing *p, struct zf_err *err) ZF_CHECKED;

/* Shows the bytes item of chunk c: its exact bytes as extra/<key>. */
bool dcp_bytes(struct dcp_placing *p, const struct dcp_chunk *c, struct zf_err *err) ZF_CHECKED;

/* Adds state/checkpoint.json: the value of every bytes item under its key, as long as that takes few
 * reads; the others are only in extra/.  An item that cannot be read is left out: reading it in
 * extra/ reports why.  Errors: of the build. */
bool dcp_state(struct dcp_placing *p, struct zf_err *err) ZF_CHECKED;

#endif
