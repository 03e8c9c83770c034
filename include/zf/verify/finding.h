/* SPDX-License-Identifier: Apache-2.0 */
/* A finding of verify. */
#ifndef ZF_VERIFY_FINDING_H
#define ZF_VERIFY_FINDING_H

#include <zf/model/model.h>

enum zf_finding_kind {
    ZF_FOUND_STRUCTURE, /* opening: files that are missing or short, notes */
    ZF_FOUND_ARCHIVE,   /* a zip archive's checksums, headers, compressed members */
    ZF_FOUND_SUM,       /* recorded SHA-256 sums */
    ZF_FOUND_COPY,      /* replicas of a tensor on several ranks; weights and their masters */
    ZF_FOUND_COVERAGE,  /* bytes that belong to a tensor but are nowhere in the tree */
    ZF_FOUND_VALUE,     /* NaN, infinities, and the like */
    ZF_FOUND_CODE,      /* what Python would import or call */
    ZF_FOUND_READ,      /* a file that could not be read, or changed meanwhile */
    ZF_FINDING_KINDS
};
/* "structure", "archive", … */
const char *zf_finding_kind_name(enum zf_finding_kind k);

/* By increasing severity: the exit code is that of the most severe. */
enum zf_finding_weight {
    ZF_WEIGHT_NOTE,
    ZF_WEIGHT_DANGER, /* loading it with Python would run a stranger's code */
    ZF_WEIGHT_DAMAGE,
    ZF_WEIGHT_UNREAD, /* not known, because it could not be read */
    ZF_WEIGHTS
};
/* "note", "danger", "damage", "unread". */
const char *zf_finding_weight_name(enum zf_finding_weight w);

/* All of it is valid during the call only. */
struct zf_finding {
    enum zf_finding_kind kind;
    enum zf_finding_weight weight;
    const char *file;    /* as the user would name it; "" = no particular file */
    uint64_t first, end; /* bytes of the file; equal: no particular bytes */
    /* Tensors that have bytes there, or that it is about: indices in zf_verify_opts.tensor, ascending. */
    const uint32_t *tensor;
    size_t n_tensors;
    const char *text; /* a sentence without the file's name, no newline, no full stop */
};

/* A tensor to verify; listed once even if it has several names. */
struct zf_verify_tensor {
    const char *path; /* in the tree */
    const struct zf_set *set;
    const struct zf_tensor *tensor;
};

#endif
