/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is read through, and what is recorded of its bytes. */
#ifndef VERIFY_SHARD_H
#define VERIFY_SHARD_H

#include <pthread.h>

#include "places.h"

/* A part of an archive (zf/codec/zip_parts.h). */
struct shard_part {
    uint64_t first, end, data, data_end;
    uint64_t base; /* where its archive begins */
    uint32_t crc;  /* recorded; 0 = it is not */
    uint32_t is;   /* of the bytes that were joined so far */
    bool packed;   /* compressed */
    const char *differs;
    char *name; /* owned; NULL: bytes of no member */
};

/* Bytes that should be an archive, and are none. */
struct shard_bad {
    uint64_t first, end;
    struct zf_err why;
};

struct shard {
    struct zf_source *src;           /* a reference */
    const struct place_file *places; /* or NULL */
    bool summed;                     /* its SHA-256 is recorded: it is read in one stretch */
    uint64_t first_stretch;          /* its number, counted through all files */
    pthread_mutex_t lock;            /* of loading the parts */
    bool loaded, failed;             /* failed: reading it, which was told */
    bool archive;                    /* holds one, or several as .distcp does */
    zf_vec(struct shard_bad) bad;
    zf_vec(struct shard_part) part; /* of archives, in the order of bytes */
};

bool shard_init(struct shard *s, struct zf_source *src, const struct places *places,
                struct zf_err *err) ZF_CHECKED;
void shard_fini(struct shard *s);

/* Reads the directories of its archives, once, from any thread.  Damage goes to s->bad.  Errors: ZF_E_NOMEM; of reading. */
bool shard_load(struct shard *s, const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
/* Gives back what was loaded. */
void shard_unload(struct shard *s);

/* The first part that ends behind `off`. */
size_t shard_part_at(const struct shard *s, uint64_t off);

/* Decompresses a member: its length and checksum.  Errors: ZF_E_FORMAT; of reading. */
bool shard_unpack(const struct shard *s, const struct shard_part *p, const struct zf_limits *lim,
                  void *buf, size_t room, struct zf_err *err) ZF_CHECKED;

#endif
