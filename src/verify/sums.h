/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded SHA-256 sums of files: from Megatron's integrity.json, and from the user's list. */
#ifndef VERIFY_SUMS_H
#define VERIFY_SUMS_H

#include <zf/base/vec.h>

#include "checks.h"

struct sums_line {
    size_t at;      /* index among the lines as read */
    char *name;     /* owned; as listed, without "./" */
    const char *by; /* who recorded it, such as "integrity.json" */
    char want[ZF_SHA256_HEX];
    struct zf_source *src;  /* a reference to the file; NULL: not a file of the checkpoint */
    char is[ZF_SHA256_HEX]; /* actual sum; "" = not known */
};

struct sums {
    zf_vec(struct sums_line) line;
};

/* Loads integrity.json and the user's list, if any.  Errors: ZF_E_USAGE invalid list; ZF_E_NOMEM. */
bool sums_init(struct sums *s, struct verify *v, struct zf_err *err) ZF_CHECKED;
void sums_fini(struct sums *s);

/* Is a sum recorded for the file?  Any thread. */
bool sums_want(const struct sums *s, const struct zf_source *file);
/* Sets the actual sum of the file. */
void sums_set(struct sums *s, const struct zf_source *file, const char is[ZF_SHA256_HEX]);

/* Reports mismatches, after all files were read; listed files of the tree are read here. */
bool sums_report(struct sums *s, struct verify *v, struct zf_err *err) ZF_CHECKED;

#endif
