/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a kept model:
 *
 *   "zfmodel" and KEEP_VERSION; 8 bytes: how many follow the checksum, up to the note; 16 bytes: their checksum
 *   the key, its length in 4 bytes in front
 *   what the store is called, if that is a part of anything below, or nothing
 *   the directory of the save in the store, the format, and what proved it
 *   what pins the whole place, a commit, or ""
 *   facts: how many; of each: kind, path, 16 bytes of print for directories and files, and for files
 *     what was noted, or ""
 *   files among the sources: how many; of each the number of its fact, among those of files
 *   sources: how many; of each: 0 and the number of a file; or 1 + the number of its kind, 0 or 1 +
 *     the number of its parent, three numbers, and bytes
 *   the model
 *   if there is a note, 16 bytes: its checksum; and its text
 *
 * Numbers are zf_out_var's, texts have their length in front. */
#ifndef KEEP_KEEP_H
#define KEEP_KEEP_H

#include <zf/base/hash.h>
#include <zf/base/out.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/keep.h>

/* The directory of kept models, and whole files in it. */

/* "0123…cdef.model" and its end. */
#define DIR_NAME 40

/* Its descriptor; make: with those above it.  -1: err. */
int dir_open(const char *path, bool make, struct zf_err *err);

/* All of a file, malloc'ed; *n_out its bytes.  It counts as used now.  Errors: ZF_E_NOENT;
 * ZF_E_USAGE it may be somebody else's; ZF_E_LIMIT more than `most`; ZF_E_IO. */
uint8_t *dir_read(int dir, const char *name, uint64_t most, uint64_t *n_out,
                  struct zf_err *err) ZF_CHECKED;

/* Bytes one behind the other as a file, whole or not at all. */
struct dir_part {
    const void *p;
    size_t n;
};
bool dir_write(int dir, const char *name, const struct dir_part *part, size_t n_parts,
               struct zf_err *err) ZF_CHECKED;

/* Removes those that were not used for longest until `most` bytes are left. */
void dir_trim(int dir, uint64_t most);

#define KEEP_MAGIC "zfmodel"
/* Goes up whenever the bytes of a model mean something else, here or in src/model/pack.h. */
#define KEEP_VERSION 7
#define KEEP_HEAD 32u
#define KEEP_KEY_AT 36 /* where the key begins */
#define KEEP_NOTE (1u << 20)

struct keep_source {
    UT_hash_handle hh; /* of its address */
    uint64_t number;
};

struct zf_keep {
    int dir;
    char name[DIR_NAME];
    char *key;
    uint64_t most;
    struct timespec began; /* CLOCK_REALTIME: before anything of the checkpoint was read */
    struct zf_limits lim;
    /* The facts noted before the model was sealed, or the reason why it cannot be cached. */
    bool noted;
    struct zf_err why;
    struct zf_out about, sources, model;
    uint64_t n_sources;
    struct keep_source *known;        /* of struct keep_source */
    zf_vec(struct zf_source *) files; /* among them; references */
};

/* The checksum of p[n]; the same in every process. */
void keep_sum(const void *p, size_t n, uint64_t out[2]);
/* The bytes in front of a body of p[n], which begins with the key. */
void keep_head(struct zf_out *out, const void *p, size_t n);

/* The checkpoint that such bytes make of st; errors as of zf_keep_load. */
struct zf_checkpoint *keep_load_bytes(struct zf_keep *k, struct zf_store *st, const void *p,
                                      uint64_t n, struct zf_err *err) ZF_CHECKED;

#endif
