/* SPDX-License-Identifier: Apache-2.0 */
/* Small compressed streams that are decompressed as a whole: chunks of arrays. */
#ifndef ZF_SOURCE_DECODED_H
#define ZF_SOURCE_DECODED_H

#include <zf/source/source.h>

struct zf_decoder {
    const char *kind; /* "blosc"; for zf_trace.codec */
    /* Checks that the `have` packed bytes, which begin with head[n_head], can decompress to exactly
     * `size` bytes.  Called before memory is allocated for either.  Errors: ZF_E_FORMAT. */
    bool (*check)(const void *head, size_t n_head, uint64_t have, uint64_t size,
                  struct zf_err *err);
    /* Decompresses `have` bytes to exactly `size` bytes, neither more nor fewer.  From any thread.
     * Errors: ZF_E_FORMAT, ZF_E_NOMEM. */
    bool (*decode)(const void *in, size_t have, void *out, size_t size, struct zf_err *err);
};

/* The number of leading bytes that `check` gets, unless the stream is shorter. */
#define ZF_DECODER_HEAD 32

/* A source of the `size` bytes that `how` (static) decompresses from all of parent, as one block in
 * the cache of parent's store.  Reads parent's head.
 * Errors: ZF_E_LIMIT size is more than lim->chunk_bytes; of `check`. */
struct zf_source *zf_decoded_new(struct zf_source *parent, uint64_t size,
                                 const struct zf_decoder *how, const struct zf_limits *lim,
                                 struct zf_err *err) ZF_CHECKED;

#endif
