/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the reader that turn keys and chunks into tensors and files of the tree:
 * files.c opens and checks the files; tensors.c, composed.c and bytes_items.c place their contents. */
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
    struct dcp_steps room;    /* for the current path */
    struct zf_source **file;  /* d->source */
    struct zf_source **items; /* [file.n]; NULL = the file has no tensors */
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

/* Size of a chunk's elements in bytes. */
uint64_t dcp_data_len(const struct zf_dcp *d, const struct dcp_chunk *c);
/* The item of a chunk, as the metadata describes it. */
struct dcp_record dcp_record_of(const struct zf_dcp *d, const struct dcp_chunk *c);

/* Handles a failure about the item of chunk c, and adds the file's name to it.  In a degraded build the
 * chunk is lost, so that reading it gives EIO, the failure is noted, and the result is true. */
bool dcp_mark_lost(struct dcp_placing *p, struct dcp_chunk *c, struct zf_err *err) ZF_CHECKED;

/* Compares the copies that storage_data.c recorded with the item that is shown, as long as that takes few
 * reads.
 * Errors: ZF_E_FORMAT naming both files and both values. */
bool dcp_copies_check(struct dcp_placing *p, struct zf_err *err) ZF_CHECKED;

/* Composed tensors, whose items consist of several tensors: quantised ones, sparse ones, subclasses such
 * as torchao's.  .metadata describes them like plain ones. */

/* How many bytes torch.save adds to a plain tensor, as observed so far. */
struct dcp_usual {
    uint64_t least, most;
    uint64_t n_looks; /* items that had to be opened */
};
/* 683 … 1,636 were observed (torch 1.13 … 2.14); 29 KB with storage_alignment 4096, which is learnt. */
#define ZF_DCP_USUAL ((struct dcp_usual){.least = 600, .most = 1800})

/* Opens those items of a file, order [n], whose length does not fit a plain tensor, and marks the keys of
 * composed ones.  Errors: of opening them; ZF_E_FORMAT a tensor without elements has data. */
bool dcp_composed_find(struct dcp_placing *p, const uint32_t *order, uint64_t n,
                       struct dcp_usual *usual, struct zf_err *err) ZF_CHECKED;

/* Adds the parts of all composed tensors, as <name>.<part>; all parts of one, or none.
 * order: room for chunk.n numbers.
 * Errors: ZF_E_UNSUPPORTED the chunks of one cannot be joined part by part. */
bool dcp_composed_put(struct dcp_placing *p, uint32_t *order, struct zf_err *err) ZF_CHECKED;

/* Opens the .distcp files and proves that their items do not overlap. */

/* Opens every file that contains a chunk (p->file).  Errors: ZF_E_FORMAT one is missing. */
bool dcp_files_open(struct dcp_placing *p, struct zf_err *err) ZF_CHECKED;

/* Fills order [chunk.n] with the numbers of the chunks that have an item, sorted by file and offset;
 * *n_out of them.  Errors: ZF_E_FORMAT a chunk has none. */
bool dcp_files_sort(struct dcp_placing *p, uint32_t *order, uint64_t *n_out,
                    struct zf_err *err) ZF_CHECKED;

/* How many of order [n > 0] are in the same file as the first. */
uint64_t dcp_files_run(const struct zf_dcp *d, const uint32_t *order, uint64_t n);

/* Checks that the items order [n] of one file are inside it and do not overlap.  Errors: ZF_E_FORMAT. */
bool dcp_files_check(struct dcp_placing *p, const uint32_t *order, uint64_t n,
                     struct zf_err *err) ZF_CHECKED;

/* Checks that every file ends with its last item: a shorter one is damaged, even if no chunk needs the truncated item,
 * and a longer one is not the file that the metadata describes.  Errors: ZF_E_FORMAT. */
bool dcp_files_check_ends(struct dcp_placing *p, struct zf_err *err) ZF_CHECKED;

/* Detects files that are not those the metadata describes. */

/* In a degraded build, compares the items order [n > 0] of one file with their frames.  An item with a broken frame is
 * lost; all are lost if it is another file.  Errors: of the notes. */
bool dcp_frames_check(struct dcp_placing *p, const uint32_t *order, uint64_t n,
                      struct zf_err *err) ZF_CHECKED;

#endif
