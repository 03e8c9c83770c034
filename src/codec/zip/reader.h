/* SPDX-License-Identifier: Apache-2.0 */
/* Small pieces of an archive, read through a window. */
#ifndef CODEC_ZIP_READER_H
#define CODEC_ZIP_READER_H

#include <zf/source/source.h>

/* Directory and headers are taken in pieces of a few bytes: those are served from a window.  It
 * starts small, for a local header needs no more, and grows while reads follow each other. */
#define ZF_ZIP_WINDOW_MIN 4096u
#define ZF_ZIP_WINDOW_MAX (128u << 10)
/* A file no longer than this is read whole when a few windows did not do: 700 members of an archive without
 * bytes in them are twenty.  The archive of one tensor needs two. */
#define ZF_ZIP_WHOLE (512u << 10)
#define ZF_ZIP_FEW 3u

struct zip_reader {
    struct zf_source *src; /* borrows */
    uint8_t *window;       /* bytes [win_off, win_off + win_len) of src */
    uint64_t win_off, win_len, win_cap, next_len;
    uint32_t fills; /* of the window, so far */
};

void zip_reader_init(struct zip_reader *r, struct zf_source *src);
void zip_reader_fini(struct zip_reader *r);

/* Reads like zf_source_pread, through the window. */
bool zip_reader_pread(struct zip_reader *r, void *buf, uint64_t n, uint64_t off,
                      struct zf_err *err) ZF_CHECKED;

#endif
