/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the checks of this room: numbers and copies that are counted while files are read, and findings. */
#ifndef VERIFY_CHECKS_H
#define VERIFY_CHECKS_H

#include <zf/base/dtype.h>
#include <zf/base/vec.h>
#include <zf/model/model.h>
#include <zf/verify/verify.h>

#include "places.h"

/* ---- values ---------------------------------------------------------------------------------- */
/* Odd numbers of a tensor (NaN, Inf, negative, denormal), counted piece by piece in any order. */

struct values {
    uint64_t n, nans, infs, negative,
        denormal;      /* of halves, where numbers are complex; -0.0 is not negative */
    uint8_t first[16]; /* an element, … */
    bool differ;       /* … and whether another one has other bits */
    bool
        at_known; /* bytes [at, at + one element) are the first with a NaN, an infinity, or a negative one … */
    uint64_t at; /* … where those are wrong */
};

/* Types of which this knows anything. */
bool values_are_floats(enum zf_dtype t);

/* Adds n elements, which begin at byte `at` of their file.  negative: numbers below zero are wrong too. */
void values_add(struct values *v, enum zf_dtype t, const uint8_t *p, size_t n, bool negative,
                uint64_t at);

/* Adds those of `more` to v. */
void values_join(struct values *v, enum zf_dtype t, const struct values *more);

/* ---- twins ----------------------------------------------------------------------------------- */

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

/* ---- checks ---------------------------------------------------------------------------------- */
/* Shared by the checks of this room. */

struct verify_file; /* a file that is read, or that something was found of */

struct verify_value {
    struct values v;
    const struct zf_source *file; /* where v.at is; NULL: in none */
};

struct verify {
    const struct zf_checkpoint *c;
    const struct zf_verify_opts *o;
    struct zf_verify_sum *sum;
    struct places places;
    struct verify_value *value; /* [o->n] */
    bool *bad;                  /* [o->n] tensors */
    struct verify_file *files;
    struct sums *sums; /* that are recorded */
    struct twins twins;
    place_tensors hit; /* of the finding that is told */
};

/* Files that are read count, wherever they are named.  Errors: ZF_E_NOMEM. */
bool verify_count_file(struct verify *v, const char *file, struct zf_err *err) ZF_CHECKED;

/* Tells of a finding.  file: "" = none.  Its tensors are those of v->hit, which is empty afterwards.
 * Errors: ZF_E_NOMEM. */
struct verify_about {
    enum zf_finding_kind kind;
    enum zf_finding_weight weight;
    const char *file;
    uint64_t first, end;
};
bool verify_found(struct verify *v, const struct verify_about *about, struct zf_err *err,
                  const char *fmt, ...) __attribute__((format(printf, 4, 5))) ZF_CHECKED;

/* The same of bytes of a file, with the tensors that are there. */
bool verify_found_at(struct verify *v, const struct verify_about *about,
                     const struct zf_source *file, const char *text, struct zf_err *err) ZF_CHECKED;

/* The finding of a failure: the file is damaged, or could not be read. */
enum zf_finding_weight verify_weight(const struct zf_err *why);

/* Lost and missing tensors, and the notes of opening. */
bool verify_structure(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* Reads all files: archives, values. */
bool verify_pass(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* Second moments of Adam: means of squares, never below zero. */
bool verify_are_squares(const struct zf_verify_tensor *t);

/* Copies, those that the pass could not compare or found to differ through their sources. */
bool verify_copies(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* A sample of the weights of stored/ beside the masters they were rounded from: differences are notes. */
bool verify_stored(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* All that tensors of the files refer to is shown, or equal to what is.  It opens files that the save is not made of. */
bool verify_coverage(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* Imports and calls of Python's loader.  Last: it opens files that the save is not made of. */
bool verify_code(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* Findings about the numbers that the pass counted. */
bool verify_values(struct verify *v, struct zf_err *err) ZF_CHECKED;

#endif
