/* SPDX-License-Identifier: Apache-2.0 */
/* Where the directory says that members are, which libzip does not report. */
#ifndef CODEC_ZIP_DIR_H
#define CODEC_ZIP_DIR_H

#include <zf/codec/zip.h>

#include "end.h"

/* A member's header begins at `at`; its data end at `end` at the latest, where the next one
 * begins, or the directory. */
struct zip_span {
    uint64_t at, end;
};

/* The spans of the n members that libzip found, as a new array (freed with free), after proving
 * that no two can share bytes but by the extra field of a header, whose length only the header
 * says.  *out is NULL where the directory is not quite what libzip makes of it: then each header
 * is to be asked.
 * Errors: ZF_E_FORMAT members overlap, ZF_E_NOMEM, those of reading. */
bool zip_dir_load(struct zf_source *src, const struct zip_end *end,
                  const struct zf_zip_member *member, uint64_t n, struct zip_span **out,
                  struct zf_err *err) ZF_CHECKED;

#endif
