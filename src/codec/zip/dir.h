/* SPDX-License-Identifier: Apache-2.0 */
/* The central directory, read by libzip: the members, in little memory, because an archive may have a million of
 * them. */
#ifndef CODEC_ZIP_DIR_H
#define CODEC_ZIP_DIR_H

#include <zf/base/err.h>
#include <zf/base/vec.h>
#include <zf/codec/zip.h>
#include <zf/source/source.h>

#include "end.h"
#include "local.h"
#include "reader.h"

#define ZIP_DEFLATED 8u /* the method; 0 is stored */

struct zip_entry {
    uint64_t at;        /* offset of the local header in the archive; 0 without data */
    uint64_t comp_size; /* bytes of its data in the archive; of a stored member, also its size */
    uint32_t name;      /* offset of its name in the names */
    uint32_t lead : 30; /* bytes from `at` to its data; 0 = the header was not read yet */
    uint32_t described : 1; /* its sizes follow the data, instead of being in the header */
    uint32_t deflated : 1;
};

/* Additional fields of a deflated member. */
struct zip_deflated {
    uint64_t size;
    uint32_t member, crc;
};

struct zip_dir {
    uint64_t n;
    struct zip_entry *entry;              /* [n] in the order of the directory */
    zf_vec(char) names;                   /* each ends with a NUL */
    zf_vec(struct zip_deflated) deflated; /* by member */
    uint32_t *by_name;                    /* [n] members, sorted by name */
};

/* Reads the first n entries (all, if n is end->entries) of the directory described by `end` through r, and checks
 * what the directory alone can show: each member has a unique name, is inside the archive, stored or deflated, not
 * encrypted, and has possible sizes.  Errors: ZF_E_FORMAT, ZF_E_UNSUPPORTED, ZF_E_LIMIT, ZF_E_NOMEM, those of
 * reading. */
bool zip_dir_load(struct zip_reader *r, const struct zip_end *end, uint64_t n, struct zip_dir *out,
                  struct zf_err *err) ZF_CHECKED;
void zip_dir_fini(struct zip_dir *d);

struct zf_zip_member zip_dir_member(const struct zip_dir *d, uint64_t i);
#define ZIP_DIR_NONE UINT32_MAX
/* The member with this name; ZIP_DIR_NONE = none. */
uint32_t zip_dir_find(const struct zip_dir *d, const char *name);

/* A member that is not empty. */
struct zip_place {
    uint64_t at; /* offset of its local header */
    uint32_t member;
};
/* Lists all members that are not empty, in the order of the archive, in a new array (for free()).  Errors:
 * ZF_E_NOMEM. */
bool zip_dir_order(const struct zip_dir *d, struct zip_place **out, uint64_t *n_out,
                   struct zf_err *err) ZF_CHECKED;

/* Computes an upper bound for the end of each member's data, in a new array [d->n]: the start of the
 * next member, or of the directory, data_end.  Proves that no two members overlap, except by the extra
 * field of a header, whose length is only in the header.  Errors: ZF_E_FORMAT members overlap,
 * ZF_E_NOMEM. */
bool zip_dir_bound(const struct zip_dir *d, const struct zf_source *src, uint64_t data_end,
                   uint64_t **out, struct zf_err *err) ZF_CHECKED;

/* Returns a source of the member's `size` bytes as stored; `local` (copied) describes its header, which
 * the first read checks.  The data must end at or before `end`.  Takes its own reference on parent, the
 * archive.  Reads fail with ZF_E_FORMAT if header and directory disagree, or the data would reach
 * beyond `end`. */
struct zf_source *zip_lazy_new(struct zf_source *parent, const struct zip_local *local,
                               uint64_t size, uint64_t end, struct zf_err *err) ZF_CHECKED;

/* Consecutive entries of the directory, as in the file. */
struct libzip_run {
    const uint8_t *p; /* borrowed */
    uint64_t bytes;
    uint64_t off;   /* offset of the first entry in the archive */
    uint64_t first; /* number of the first entry, for messages */
    uint32_t n;
};

struct libzip_entry {
    uint64_t size, comp_size;
    uint32_t crc;
    uint16_t method;
    bool encrypted;
};

/* Lets libzip read the n entries of the run into out[n].  libzip gets a virtual archive of these entries, zeros
 * before them, and an end record made here, so that it can read nothing else and find no other directory; and only
 * a few entries at a time, because the hash of its name table has no secret key: 10^6 crafted names would take
 * hours.  Everything is copied, and libzip's archive is closed.  Errors: ZF_E_FORMAT, ZF_E_NOMEM. */
bool libzip_load(const struct libzip_run *run, struct libzip_entry *out,
                 struct zf_err *err) ZF_CHECKED;

#endif
