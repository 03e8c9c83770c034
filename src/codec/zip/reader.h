/* SPDX-License-Identifier: Apache-2.0 */
/* Lets libzip read a zf_source, and watches where it reads. */
#ifndef CODEC_ZIP_READER_H
#define CODEC_ZIP_READER_H

#include <zip.h>

#include <zf/source/source.h>

/* libzip takes a central directory in pieces of a few bytes: those are served from a window.  It
 * starts small, for a local header needs no more, and grows while reads follow each other. */
#define ZF_ZIP_WINDOW_MIN 4096u
#define ZF_ZIP_WINDOW_MAX (128u << 10)
/* A file no longer than this is read whole when a few windows did not do: 700 members of an archive without
 * bytes in them are twenty.  The archive of one tensor needs two. */
#define ZF_ZIP_WHOLE (512u << 10)
#define ZF_ZIP_FEW 3u

struct zip_reader {
    struct zf_source *src; /* borrows */
    struct zf_err err;     /* the first failure of src; ZF_OK = none */
    zip_error_t zip_err;
    uint64_t pos;
    uint64_t first_seek, last_read; /* since zip_reader_watch; ZF_OFF_NONE = none */
    uint8_t *window;                /* bytes [win_off, win_off + win_len) of src */
    uint64_t win_off, win_len, win_cap, next_len;
    uint32_t fills; /* of the window, so far */
};

void zip_reader_init(struct zip_reader *r, struct zf_source *src);
void zip_reader_fini(struct zip_reader *r);

/* Begins to record seeks and reads anew. */
void zip_reader_watch(struct zip_reader *r);

/* Reads like zf_source_pread, through the window. */
bool zip_reader_pread(struct zip_reader *r, void *buf, uint64_t n, uint64_t off,
                      struct zf_err *err) ZF_CHECKED;

/* The callback for zip_source_function_create, with the reader as its user data. */
zip_int64_t zip_reader_call(void *reader, void *data, zip_uint64_t len, zip_source_cmd_t cmd);

#endif
