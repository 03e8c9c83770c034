/* SPDX-License-Identifier: Apache-2.0 */
/* The central directory, which libzip reads: what it says of each member, in as little memory as an archive of a
 * million members can do with. */
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
    uint64_t at;            /* of the member's own header in the archive; 0 without data */
    uint64_t comp_size;     /* bytes of its data there; of a stored one, all of them */
    uint32_t name;          /* where its name begins among the names */
    uint32_t lead : 30;     /* bytes from `at` to its data; 0 = the header was not looked at yet */
    uint32_t described : 1; /* its sizes stand behind the data, not in the header */
    uint32_t deflated : 1;
};

/* Further properties of a deflated member. */
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

/* Reads the first n entries of the directory that `end` names through r, all of them where n is end->entries, and
 * checks of each member what needs the directory alone: a name that no other one has, inside the archive, stored or
 * deflated, not encrypted, sizes that can be.  Errors: ZF_E_FORMAT, ZF_E_UNSUPPORTED, ZF_E_LIMIT, ZF_E_NOMEM, those of
 * reading. */
bool zip_dir_load(struct zip_reader *r, const struct zip_end *end, uint64_t n, struct zip_dir *out,
                  struct zf_err *err) ZF_CHECKED;
void zip_dir_fini(struct zip_dir *d);

struct zf_zip_member zip_dir_member(const struct zip_dir *d, uint64_t i);
#define ZIP_DIR_NONE UINT32_MAX
/* ZIP_DIR_NONE: there is none of that name. */
uint32_t zip_dir_find(const struct zip_dir *d, const char *name);

/* A member with bytes. */
struct zip_place {
    uint64_t at; /* of its header */
    uint32_t member;
};
/* All of them in the order of the archive, as a new array (freed with free).  Errors: ZF_E_NOMEM. */
bool zip_dir_order(const struct zip_dir *d, struct zip_place **out, uint64_t *n_out,
                   struct zf_err *err) ZF_CHECKED;

/* Where each member's data end at the latest, as a new array [d->n]: where the next member begins,
 * or the directory, at data_end.  Proves that no two can share bytes but by the extra field of a
 * header, whose length only the header says.  Errors: ZF_E_FORMAT members overlap, ZF_E_NOMEM. */
bool zip_dir_bound(const struct zip_dir *d, const struct zf_source *src, uint64_t data_end,
                   uint64_t **out, struct zf_err *err) ZF_CHECKED;

/* The `size` bytes as they are stored of the member whose header `local` describes (copied).
 * They end at `end` at the latest.  Takes its own reference on parent, the archive.  Reads fail
 * with ZF_E_FORMAT where header and directory disagree, or the data would reach beyond `end`. */
struct zf_source *zip_late_new(struct zf_source *parent, const struct zip_local *local,
                               uint64_t size, uint64_t end, struct zf_err *err) ZF_CHECKED;

/* Consecutive entries as they are in the file. */
struct libzip_run {
    const uint8_t *p; /* borrowed */
    uint64_t bytes;
    uint64_t off;   /* of the first one in the archive */
    uint64_t first; /* its number, for messages */
    uint32_t n;
};

struct libzip_entry {
    uint64_t size, comp_size;
    uint32_t crc;
    uint16_t method;
    bool encrypted;
};

/* Has libzip read the n entries of the run into out[n].  It is shown an archive that has these, zeros in front and an
 * end record of ours, so that it can read nothing else and find no other directory; and few entries at a time, because
 * its table of names has no key: 10^6 names made for it would take hours.  It is asked once, its facts are copied, and it is
 * closed.  Errors: ZF_E_FORMAT, ZF_E_NOMEM. */
bool libzip_load(const struct libzip_run *run, struct libzip_entry *out,
                 struct zf_err *err) ZF_CHECKED;

#endif
