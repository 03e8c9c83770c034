/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the checks of this room. */
#ifndef VERIFY_CHECKS_H
#define VERIFY_CHECKS_H

#include <zf/verify/verify.h>

#include "places.h"
#include "twins.h"
#include "values.h"

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

/* All that tensors of the files refer to is shown, or equal to what is.  It opens files that the save is not made of. */
bool verify_coverage(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* Imports and calls of Python's loader.  Last: it opens files that the save is not made of. */
bool verify_code(struct verify *v, struct zf_err *err) ZF_CHECKED;

/* Findings about the numbers that the pass counted. */
bool verify_values(struct verify *v, struct zf_err *err) ZF_CHECKED;

#endif
