/* SPDX-License-Identifier: Apache-2.0 */
/* The end records of a zip archive, which give the place of its directory. */
#ifndef CODEC_ZIP_END_H
#define CODEC_ZIP_END_H

#include <zf/base/out.h>
#include <zf/source/source.h>

struct zip_end {
    uint64_t entries;
    uint64_t dir_off, dir_bytes; /* the central directory */
};

/* Finds the end record that reaches to the last byte of src or, if bytes follow the archive, the last one, and
 * checks that its directory ends where the record starts: then neither a second archive, nor bytes before the
 * archive, nor a record hidden in a comment can make two readers see different archives.  Errors:
 * ZF_E_FORMAT, ZF_E_UNSUPPORTED, ZF_E_IO. Source: PKWARE APPNOTE 4.3.14-4.3.16. */
bool zip_end_load(struct zf_source *src, struct zip_end *out, struct zf_err *err) ZF_CHECKED;

/* Appends the end records of such an archive, which will be at its byte `at` (write.c). */
void zip_end_emit(struct zf_out *o, const struct zip_end *end, uint64_t at);

#endif
