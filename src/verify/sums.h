/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 sums that are recorded of files: by Megatron's integrity.json, and by a list of the user's. */
#ifndef VERIFY_SUMS_H
#define VERIFY_SUMS_H

#include <zf/base/vec.h>

#include "checks.h"

struct sums_line {
    size_t at;      /* among the lines, as they were read */
    char *name;     /* owned; as it is listed, without "./" */
    const char *by; /* "integrity.json" */
    char want[ZF_SHA256_HEX];
    struct zf_source *src;  /* a reference to the file; NULL: it is none of the checkpoint's */
    char is[ZF_SHA256_HEX]; /* "" = not known */
};

struct sums {
    zf_vec(struct sums_line) line;
};

/* Both, where there are.  Errors: ZF_E_USAGE the list is none; ZF_E_NOMEM. */
bool sums_init(struct sums *s, struct verify *v, struct zf_err *err) ZF_CHECKED;
void sums_fini(struct sums *s);

/* Is a sum recorded of the file?  Any thread. */
bool sums_want(const struct sums *s, const struct zf_source *file);
/* That is the file's sum. */
void sums_set(struct sums *s, const struct zf_source *file, const char is[ZF_SHA256_HEX]);

/* Tells which are others, when all files were read; those of the tree are read for it. */
bool sums_report(struct sums *s, struct verify *v, struct zf_err *err) ZF_CHECKED;

#endif
