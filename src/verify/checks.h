/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the checks of src/verify: statistics of values and sums of copies, made while reading files; findings. */
#ifndef VERIFY_CHECKS_H
#define VERIFY_CHECKS_H

#include <zf/base/dtype.h>
#include <zf/base/vec.h>
#include <zf/model/model.h>
#include <zf/verify/verify.h>

#include "files.h"
#include "places.h"

/* ---- values ---------------------------------------------------------------------------------- */
/* Counts of a tensor's unusual values (NaN, Inf, negative, denormal), made piece by piece in any order. */

struct values {
    uint64_t n, nans, infs, negative,
        denormal; /* n: elements; the others count numbers, two per complex element; -0.0 is not negative */
    uint8_t first[16]; /* one element, … */
    bool differ;       /* … and whether any other element has different bits */
    bool at_known;     /* at is set */
    uint64_t
        at; /* file offset of the first element that is NaN, infinite or, if that is an error, negative */
};

/* Can values of type t be checked? */
bool values_are_floats(enum zf_dtype t);

/* Adds n elements, which start at byte `at` of their file.  negative: numbers below zero are errors, too. */
void values_add(struct values *v, enum zf_dtype t, const uint8_t *p, size_t n, bool negative,
                uint64_t at);

/* Adds the counts of `more` to v. */
void values_join(struct values *v, enum zf_dtype t, const struct values *more);

/* ---- replicas -------------------------------------------------------------------------------- */

/* A polynomial of the 4-byte words w[0], w[1], … in each key, modulo 2^61 - 1: w[0] + w[1] * key + …; the last word is
 * padded with zeros. */
#define REPLICA_KEYS 2
struct replicas_sum {
    uint64_t of[REPLICA_KEYS];
};

/* A range of a file that is one side of a copy. */
struct replicas_range {
    const struct zf_source *file; /* borrowed */
    uint64_t off, n;
    uint64_t reach; /* largest end of this range and all earlier ones in the file */
    uint64_t words; /* words summed so far */
    struct replicas_sum sum;
};

struct replicas {
    zf_vec(struct replicas_range) range; /* sorted by file, then by off */
    zf_vec(uint32_t) of; /* [2 * copies] index of a side's range, or REPLICAS_NONE */
    uint64_t key[REPLICA_KEYS];
};
#define REPLICAS_NONE UINT32_MAX

/* Lists the sides of copies that a file holds unchanged (not compressed, swapped).  Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool replicas_init(struct replicas *t, const struct zf_copy *copy, uint64_t n,
                   struct zf_err *err) ZF_CHECKED;
void replicas_fini(struct replicas *t);

/* The words of a range that start in [off, end) of its file. */
struct replicas_part {
    size_t range;
    uint64_t words;
    struct replicas_sum sum;
};
typedef zf_vec(struct replicas_part) replicas_parts;

/* Appends the parts of all ranges; p has the bytes from off to end, and the next 4 if the file has them. */
bool replicas_add(const struct replicas *t, const struct zf_source *file, const uint8_t *p,
                  uint64_t off, uint64_t end, replicas_parts *out, struct zf_err *err) ZF_CHECKED;
void replicas_join(struct replicas *t, const replicas_parts *parts);

/* Were both sides of copy i read, and are they equal? */
bool replicas_equal(const struct replicas *t, uint64_t i);

/* ---- checks ---------------------------------------------------------------------------------- */

struct verify_file; /* a file that is read or has a finding */

struct verify_value {
    struct values v;
    const struct zf_source *file; /* the file v.at refers to, or NULL */
};

struct verify {
    const struct zf_checkpoint *c;
    const struct zf_verify_opts *o;
    struct zf_verify_sum *sum;
    struct places places;
    struct verify_value *value; /* [o->n] */
    bool *bad;                  /* [o->n] tensors */
    struct verify_file *files;
    struct files listed; /* the files of the save as it was opened; none with o->part */
    struct sums *sums;   /* recorded checksums */
    struct replicas replicas;
    place_tensors hit; /* tensors of the finding being reported */
};

/* Counts a file that is read; it counts once, however it is named.  Errors: ZF_E_NOMEM. */
bool verify_count_file(struct verify *v, const char *file, struct zf_err *err) ZF_CHECKED;

/* Reports a finding.  file: "" = none.  Its tensors are in v->hit, which is empty afterwards.
 * Errors: ZF_E_NOMEM. */
struct verify_about {
    enum zf_finding_kind kind;
    enum zf_finding_weight weight;
    const char *file;
    uint64_t first, end;
};
bool verify_found(struct verify *v, const struct verify_about *about, struct zf_err *err,
                  const char *fmt, ...) __attribute__((format(printf, 4, 5))) ZF_CHECKED;

/* Reports a finding about bytes of a file, with the tensors that have data there. */
bool verify_found_at(struct verify *v, const struct verify_about *about,
                     const struct zf_source *file, const char *text, struct zf_err *err) ZF_CHECKED;

/* The weight of the finding for a failure: the file is damaged, or could not be read. */
enum zf_finding_weight verify_weight(const struct zf_err *why);

/* Reports lost and missing tensors, and the notes made when the checkpoint was opened. */
bool verify_structure(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* Reads all files, checks archives and counts values. */
bool verify_pass(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* Is it Adam's second moment (mean of squares), which is never below zero? */
bool verify_are_squares(const struct zf_verify_tensor *t);

/* Compares, through their sources, the copies that verify_pass could not compare or found to differ. */
bool verify_copies(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* Compares a sample of the weights in stored/ with the master weights they were rounded from; differences are notes. */
bool verify_stored(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* Checks that all data the files' tensors refer to is shown, or equals shown data.  Opens files outside the save. */
bool verify_coverage(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* Notes parameters of which the optimizer counted other steps than of most. */
bool verify_steps(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* Checks the settings, and other files of no tensor, of the save and its directories.  Opens files outside the save. */
bool verify_side_files(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* Reports imports and calls that unpickling in Python would make.  Runs last: it opens files outside the save. */
bool verify_code(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* Reports findings about the values that verify_pass counted. */
bool verify_values(struct verify *v, struct zf_err *err) ZF_CHECKED;

#endif
