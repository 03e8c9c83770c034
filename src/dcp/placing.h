/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the reader while keys and chunks become tensors and files of the tree:
 * files.c opens and checks, tensors.c, composed.c and bytes_items.c put what is in them in place. */
#ifndef DCP_PLACING_H
#define DCP_PLACING_H

#include <zf/assemble/names.h>

#include "items.h"
#include "metadata.h"
#include "paths.h"

struct dcp_placing {
    struct zf_dcp *d;
    struct zf_store *st;
    const struct zf_limits *lim;
    struct zf_build *b;
    bool hidden; /* drafts have no places, bytes items no files */
    struct zf_names *names;
    struct dcp_steps room;    /* for the path at hand */
    struct zf_source **file;  /* d->source */
    struct zf_source **items; /* [file.n]; NULL = no tensors in it */
    uint32_t n_whole;         /* bytes items that were checked while mounting */
    uint64_t n_frames;        /* items that were compared with their frames (frames.c) */
};

/* Makes names, file and items; d, st, lim and b are set.  Errors: ZF_E_NOMEM. */
bool dcp_placing_init(struct dcp_placing *p, struct zf_err *err) ZF_CHECKED;
void dcp_placing_fini(struct dcp_placing *p);
static inline void zf_auto_dcp_placing(struct dcp_placing *p)
{
    dcp_placing_fini(p);
}

/* Bytes of the elements of a chunk. */
uint64_t dcp_data_len(const struct zf_dcp *d, const struct dcp_chunk *c);
/* The item of a chunk, as the metadata describe it. */
struct dcp_record dcp_record_of(const struct zf_dcp *d, const struct dcp_chunk *c);

/* After a failure about the item of chunk c, in whose file it is put: in a degraded build the chunk is
 * lost, so that its bytes answer EIO, the failure is noted, and the answer is true. */
bool dcp_lose(struct dcp_placing *p, struct dcp_chunk *c, struct zf_err *err) ZF_CHECKED;

/* Compares the copies that storage_data.c recorded with the item that is shown, as far as that takes few
 * reads.
 * Errors: ZF_E_FORMAT naming both files and both values. */
bool dcp_copies_check(struct dcp_placing *p, struct zf_err *err) ZF_CHECKED;

#endif
