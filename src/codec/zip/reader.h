/* SPDX-License-Identifier: Apache-2.0 */
/* Reads small pieces of an archive through a window. */
#ifndef CODEC_ZIP_READER_H
#define CODEC_ZIP_READER_H

#include <zf/source/source.h>

/* Directory and headers are read in pieces of a few bytes from a window.  It starts small, which is
 * enough for a local header, and grows while reads are sequential. */
#define ZF_ZIP_WINDOW_MIN 4096u
#define ZF_ZIP_WINDOW_MAX (128u << 10)
/* A file of up to this many bytes is read as a whole after ZF_ZIP_FEW windows: an archive of 700 empty members would
 * need twenty windows; the archive of one tensor needs two. */
#define ZF_ZIP_WHOLE (512u << 10)
#define ZF_ZIP_FEW 3u

struct zip_reader {
    struct zf_source *src; /* borrows */
    uint8_t *window;       /* bytes [win_off, win_off + win_len) of src */
    uint64_t win_off, win_len, win_cap, next_len;
    uint32_t fills; /* how often the window was filled */
};

void zip_reader_init(struct zip_reader *r, struct zf_source *src);
void zip_reader_fini(struct zip_reader *r);

/* Reads like zf_source_pread, through the window. */
bool zip_reader_pread(struct zip_reader *r, void *buf, uint64_t n, uint64_t off,
                      struct zf_err *err) ZF_CHECKED;

#endif
