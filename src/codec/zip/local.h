/* SPDX-License-Identifier: Apache-2.0 */
/* The header in front of a member's data, which must say what the directory says. */
#ifndef CODEC_ZIP_LOCAL_H
#define CODEC_ZIP_LOCAL_H

#include <zf/base/err.h>

/* Without name and extra field. */
#define LOCAL_BYTES 30u

/* A member as the directory describes it. */
struct zip_local {
    const char *name; /* borrowed */
    uint64_t at;      /* of the header in the archive */
    uint16_t method;
};

/* Bytes of the header up to the end of its name. */
uint64_t zip_local_bytes(const struct zip_local *l);

/* Compares p[zip_local_bytes(l)] with what the directory says: readers that follow the one or
 * the other must not see two archives in one.  Sizes may be left out here, the name may not.
 * *data_out is where the data begin. */
bool zip_local_agrees(const struct zip_local *l, const uint8_t *p, uint64_t *data_out);

/* The sentence for a header that does not agree. */
bool zip_local_bad(const struct zip_local *l, struct zf_err *err);

#endif
