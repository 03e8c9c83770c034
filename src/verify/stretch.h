/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are read completely, one stretch at a time. */
#ifndef VERIFY_STRETCH_H
#define VERIFY_STRETCH_H

#include <pthread.h>

#include "checks.h"
#include "places.h"

/* ---- shard ----------------------------------------------------------------------------------- */

/* A part of an archive (zf/codec/zip_parts.h). */
struct shard_part {
    uint64_t first, end, data, data_end;
    uint64_t base; /* offset of its archive */
    uint32_t crc;  /* recorded checksum; 0 = none */
    uint32_t is;   /* checksum of the bytes joined so far */
    bool packed;   /* compressed */
    const char *differs;
    char *name; /* owned; NULL: bytes outside of members */
};

/* Bytes that should be an archive, but are not. */
struct shard_bad {
    uint64_t first, end;
    struct zf_err why;
};

struct shard {
    struct zf_source *src;           /* a reference */
    const struct place_file *places; /* or NULL */
    bool summed;                     /* its SHA-256 is recorded: the file is read in one stretch */
    uint64_t first_stretch;          /* number of its first stretch, counted over all files */
    pthread_mutex_t lock;            /* held while loading the parts */
    bool loaded, failed;             /* failed: a read failed, which was reported */
    bool archive;                    /* holds a zip archive, or several as .distcp does */
    zf_vec(struct shard_bad) bad;
    zf_vec(struct shard_part) part; /* parts of archives, by offset */
};

bool shard_init(struct shard *s, struct zf_source *src, const struct places *places,
                struct zf_err *err) ZF_CHECKED;
void shard_fini(struct shard *s);

/* Reads the directories of its archives, once; any thread.  Damage goes to s->bad.  Errors: ZF_E_NOMEM; of reading. */
bool shard_load(struct shard *s, const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
/* Frees what was loaded. */
void shard_unload(struct shard *s);

/* Index of the first part that ends after `off`. */
size_t shard_part_at(const struct shard *s, uint64_t off);

/* Decompresses a member to check its length and checksum.  Errors: ZF_E_FORMAT; of reading. */
bool shard_unpack(const struct shard *s, const struct shard_part *p, const struct zf_limits *lim,
                  void *buf, size_t room, struct zf_err *err) ZF_CHECKED;

/* ---- stretch --------------------------------------------------------------------------------- */
/* A stretch of a file, or bytes that are made (decompressed, swapped), read and counted by one thread. */

/* Bytes per read: they stay in the L2 cache while they are checked. */
#define STRETCH_CHUNK ((size_t)512 << 10)
/* Extra bytes for an element that starts in a chunk and ends after it. */
#define STRETCH_BEHIND 16u

struct stretch_crc {
    size_t part; /* index in s->part */
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
    replicas_parts replicas;
    zf_vec(struct zf_err) bad;  /* members that cannot be decompressed, … */
    zf_vec(size_t) bad_part;    /* … and which they are */
    char sha256[ZF_SHA256_HEX]; /* of the whole file; "" = not wanted */
    uint64_t bytes;             /* number of bytes read */
    struct zf_err err;          /* why reading failed; code ZF_OK: it did not */
};

void stretch_free(void *stretch);
static inline void zf_auto_stretch(struct stretch **s)
{
    stretch_free(*s);
}

/* Reads bytes [off, end) of a file through buf[STRETCH_CHUNK + STRETCH_BEHIND].  Errors: ZF_E_NOMEM; of reading. */
bool stretch_read(const struct verify *v, struct shard *s, uint64_t off, uint64_t end,
                  struct stretch *out, uint8_t *buf, struct zf_err *err) ZF_CHECKED;
/* Reads bytes that are made, through their source. */
bool stretch_read_made(const struct verify *v, const struct place_made *m, struct stretch *out,
                       uint8_t *buf, struct zf_err *err) ZF_CHECKED;

#endif
