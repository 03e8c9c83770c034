/* SPDX-License-Identifier: Apache-2.0 */
/* Small compressed streams that are decompressed in one piece: the chunks of arrays, of which each
 * is wanted whole or not at all. */
#ifndef ZF_SOURCE_DECODED_H
#define ZF_SOURCE_DECODED_H

#include <zf/source/source.h>

struct zf_decoder {
    const char *kind; /* "blosc"; what zf_trace.codec says */
    /* May the `have` packed bytes, of which `head` is the beginning (n_head of them), hold exactly
     * `size` ones?  Asked before memory is taken for any of them.  Errors: ZF_E_FORMAT. */
    bool (*check)(const void *head, size_t n_head, uint64_t have, uint64_t size,
                  struct zf_err *err);
    /* Makes exactly `size` bytes out of `have`; neither more nor fewer may come out.  From any
     * thread.  Errors: ZF_E_FORMAT, ZF_E_NOMEM. */
    bool (*decode)(const void *in, size_t have, void *out, size_t size, struct zf_err *err);
};

/* As many bytes of the head as `check` gets, where there are that many. */
#define ZF_DECODER_HEAD 32

/* The bytes that `how` (static) makes out of all of parent: `size`, in one piece that is kept
 * among the decompressed blocks of parent's store while there is room.  Reads parent's head.
 * Errors: ZF_E_LIMIT size is more than lim->chunk_bytes; of `check`. */
struct zf_source *zf_decoded_new(struct zf_source *parent, uint64_t size,
                                 const struct zf_decoder *how, const struct zf_limits *lim,
                                 struct zf_err *err) ZF_CHECKED;

#endif
