/* SPDX-License-Identifier: Apache-2.0 */
/* A stretch of a file, or bytes that are made, read and counted by one thread. */
#ifndef VERIFY_STRETCH_H
#define VERIFY_STRETCH_H

#include "shard.h"
#include "checks.h"

/* Bytes that are read at once. */
#define STRETCH_CHUNK ((size_t)1 << 20)
/* An element that begins in a chunk may end behind it. */
#define STRETCH_BEHIND 16u

struct stretch_crc {
    size_t part; /* of the archive */
    uint32_t crc;
    uint64_t n; /* bytes */
};

struct stretch_value {
    uint32_t tensor;
    struct values v;
};

struct stretch {
    zf_vec(struct stretch_crc) crc;
    zf_vec(struct stretch_value) value;
    twins_parts twins;
    zf_vec(struct zf_err) bad;  /* members that cannot be decompressed, … */
    zf_vec(size_t) bad_part;    /* … and which they are */
    char sha256[ZF_SHA256_HEX]; /* of the whole file; "" = it was not asked for */
    uint64_t bytes;             /* read */
    struct zf_err err;          /* reading failed; code ZF_OK: it did not */
};

void stretch_free(void *stretch);
static inline void zf_auto_stretch(struct stretch **s)
{
    stretch_free(*s);
}

/* Reads bytes [off, end) of a file through buf[STRETCH_CHUNK + STRETCH_BEHIND].  Errors: ZF_E_NOMEM; of reading. */
bool stretch_read(const struct verify *v, struct shard *s, uint64_t off, uint64_t end,
                  struct stretch *out, uint8_t *buf, struct zf_err *err) ZF_CHECKED;
/* Bytes that are made, through their source. */
bool stretch_read_made(const struct verify *v, const struct place_made *m, struct stretch *out,
                       uint8_t *buf, struct zf_err *err) ZF_CHECKED;

#endif
