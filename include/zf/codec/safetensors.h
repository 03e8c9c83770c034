/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes the header of a safetensors file.  Source: safetensors 0.6, tensor.rs. */
#ifndef ZF_CODEC_SAFETENSORS_H
#define ZF_CODEC_SAFETENSORS_H

#include <zf/base/arena.h>
#include <zf/base/dtype.h>
#include <zf/base/limits.h>
#include <zf/source/source.h>

struct zf_st_entry {
    const char *name; /* arena */
    uint32_t name_len;
    enum zf_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape; /* F4: bytes in the last extent, as in torch */
    uint64_t begin, end;   /* offsets in the file (not in its data part) */
};
struct zf_st_header {
    const struct zf_st_entry *entry; /* in order of begin */
    uint64_t n;
    uint64_t data_off, end_off; /* in the file: where data begins, and where the last tensor ends */
    const char *const *meta_key, *const *meta_val; /* __metadata__ */
    uint64_t n_meta;
};

/* Reads and checks the header of src as the reference does: length, JSON, offsets tile the data
 * without hole or overlap up to the last byte, sizes agree with dtype and shape.  Errors:
 * ZF_E_FORMAT, ZF_E_LIMIT json_bytes, ZF_E_UNSUPPORTED unknown dtype. */
bool zf_st_load(struct zf_source *src, struct zf_arena *arena, const struct zf_limits *lim,
                struct zf_st_header *out, struct zf_err *err) ZF_CHECKED;

/* The text of that key in __metadata__, or NULL. */
const char *zf_st_meta(const struct zf_st_header *h, const char *key);

/* Checks that the tensors end at the end of src, the last of these checks.  Errors: ZF_E_FORMAT. */
bool zf_st_check_size(const struct zf_st_header *h, const struct zf_source *src,
                      struct zf_err *err) ZF_CHECKED;

/* zf_st_load without that check: the file may be shorter (or longer) than out->end_off. */
bool zf_st_load_head(struct zf_source *src, struct zf_arena *arena, const struct zf_limits *lim,
                     struct zf_st_header *out, struct zf_err *err) ZF_CHECKED;

/* Reads the bytes that zf_st_load_head will read, in as few requests as possible, and discards them: for network file
 * systems, which then have them cached.  A failure is ignored, since it will occur again later. */
void zf_st_begin(struct zf_source *src);

/* True if src looks like a safetensors file: the header's length fits the size, and it begins with '{'. */
bool zf_st_sniff(struct zf_source *src);

/* Writes the length word and the header for entries with name, dtype and shape (begin and end are computed here, in the
 * given order), padded with spaces to 8 bytes; bytes of a name that are not UTF-8 become %XX.  meta_json: a JSON object
 * for __metadata__, or NULL.  *out is malloc'ed.  All dtypes must have a safetensors name. */
bool zf_st_emit(struct zf_st_entry *entry, uint64_t n, const char *meta_json, char **out,
                uint64_t *len_out, struct zf_err *err) ZF_CHECKED;

#endif
