/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a cached model:
 *
 *   "zfmodel" and KEEP_VERSION; length of the body, 8 bytes; checksum of the body, 16 bytes
 *   body:
 *     key, with a length of 4 bytes
 *     name of the store if the body contains it anywhere, else ""
 *     directory of the save in the store; format; how the format was recognised
 *     commit that pins the location, or ""
 *     facts: their number; each: kind, path, 16 bytes of fingerprint for directories and files, and for a file its note
 *       or ""
 *     files among the sources: their number; each: index of its fact, counting only facts about files
 *     sources: their number; each: 0 and the index of a file; or 1 + its kind's number, 0 or 1 + its parent's index,
 *       three numbers, and bytes
 *     the model
 *   optional note: its checksum, 16 bytes; its text
 *
 * Numbers without a stated size are variable-length (zf_out_var); texts have their length in front. */
#ifndef KEEP_KEEP_H
#define KEEP_KEEP_H

#include <zf/base/hash.h>
#include <zf/base/out.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/keep.h>

/* The cache directory, and whole files in it. */

/* Bytes of "0123…cdef.model" with its terminator, at most. */
#define DIR_NAME 40

/* Opens the directory; make: creates it and its parents if missing.  Returns the descriptor, or -1 and *err. */
int dir_open(const char *path, bool make, struct zf_err *err);

/* Reads a whole file, malloc'ed; *n_out is its size.  Marks it as just used.  Errors: ZF_E_NOENT;
 * ZF_E_USAGE it may belong to another user; ZF_E_LIMIT more than `most` bytes; ZF_E_IO. */
uint8_t *dir_read(int dir, const char *name, uint64_t most, uint64_t *n_out,
                  struct zf_err *err) ZF_CHECKED;

/* Writes the concatenated parts as a file, atomically. */
struct dir_part {
    const void *p;
    size_t n;
};
bool dir_write(int dir, const char *name, const struct dir_part *part, size_t n_parts,
               struct zf_err *err) ZF_CHECKED;

/* Removes the least recently used models until at most `most` bytes are left. */
void dir_trim(int dir, uint64_t most);

#define KEEP_MAGIC "zfmodel"
/* Increment it whenever the encoding of a model changes, here or in src/model/pack.h. */
#define KEEP_VERSION 7
#define KEEP_HEAD 32u
#define KEEP_KEY_AT 36 /* offset of the key */
#define KEEP_NOTE (1u << 20)

struct keep_source {
    UT_hash_handle hh; /* keyed by the source's address */
    uint64_t number;
};

struct zf_keep {
    int dir;
    char name[DIR_NAME];
    char *key;
    uint64_t most;
    struct timespec began; /* CLOCK_REALTIME, before anything of the checkpoint was read */
    struct zf_limits lim;
    /* The facts noted before the model was sealed, or the reason why it cannot be cached. */
    bool noted;
    struct zf_err why;
    struct zf_out about, sources, model;
    uint64_t n_sources;
    struct keep_source *known;        /* hash table: number of each packed source */
    zf_vec(struct zf_source *) files; /* the files among them; references */
};

/* The checksum of p[n]; the same in every process. */
void keep_sum(const void *p, size_t n, uint64_t out[2]);
/* Appends the header of the body p[n]. */
void keep_head(struct zf_out *out, const void *p, size_t n);

/* Loads the checkpoint of st from the bytes of a cached model.  Errors: as zf_keep_load. */
struct zf_checkpoint *keep_load_bytes(struct zf_keep *k, struct zf_store *st, const void *p,
                                      uint64_t n, struct zf_err *err) ZF_CHECKED;

#endif
