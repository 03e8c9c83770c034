/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that are compared while each file is read once: of both sides of each a sum is made with keys that are drawn anew by
 * each process.  Sums of bytes that differ are equal in one of 2^58 cases, whatever is in the files. */
#ifndef VERIFY_TWINS_H
#define VERIFY_TWINS_H

#include <zf/base/vec.h>
#include <zf/model/model.h>

/* A polynomial of the 4-byte words w[0], w[1], … in each key, modulo 2^61 - 1: w[0] + w[1] * key + …; the last word is
 * filled up with zeros. */
#define TWINS_KEYS 2
struct twins_sum {
    uint64_t of[TWINS_KEYS];
};

/* Bytes of a file that some copy has. */
struct twins_range {
    const struct zf_source *file; /* borrowed */
    uint64_t off, n;
    uint64_t reach; /* the largest end of this range and of all before it in the file */
    uint64_t words; /* that were summed up so far */
    struct twins_sum sum;
};

struct twins {
    zf_vec(struct twins_range) range; /* by file, then by off */
    zf_vec(uint32_t) of;              /* [2 * copies] number of the range; TWINS_NONE */
    uint64_t key[TWINS_KEYS];
};
#define TWINS_NONE UINT32_MAX

/* Of the sides that lie in a file as they are.  Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool twins_init(struct twins *t, const struct zf_copy *copy, uint64_t n,
                struct zf_err *err) ZF_CHECKED;
void twins_fini(struct twins *t);

/* Words of a range that begin in [off, end) of its file. */
struct twins_part {
    size_t range;
    uint64_t words;
    struct twins_sum sum;
};
typedef zf_vec(struct twins_part) twins_parts;

/* Appends those of all ranges; p has the bytes from off on, and 4 behind `end` where the file has them. */
bool twins_add(const struct twins *t, const struct zf_source *file, const uint8_t *p, uint64_t off,
               uint64_t end, twins_parts *out, struct zf_err *err) ZF_CHECKED;
void twins_join(struct twins *t, const twins_parts *parts);

/* Were both sides of copy i read, and are they equal? */
bool twins_equal(const struct twins *t, uint64_t i);

#endif
