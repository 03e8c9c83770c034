/* SPDX-License-Identifier: Apache-2.0 */
/* Verifies a checkpoint.  Reads each of its files once, in large steps, checks it against everything that is recorded
 * about it, and reports findings as they occur. */
#ifndef ZF_VERIFY_VERIFY_H
#define ZF_VERIFY_VERIFY_H

#include <stdatomic.h>

#include <zf/tree.h>
#include <zf/verify/finding.h>

/* Progress; any thread may read it. */
struct zf_verify_progress {
    atomic_uint_fast64_t bytes, all; /* read so far, and in total */
    atomic_uint_fast32_t files, n_files;
};

struct zf_verify_opts {
    const struct zf_verify_tensor *tensor; /* [n] */
    size_t n;
    bool part;  /* these are not all tensors: files that contain none of them are left out */
    bool quick; /* structure only */
    bool
        coverage; /* look for bytes that are shown nowhere; only if the checkpoint was opened with zf_open_opts.copies
                    * and nothing was left out since */
    uint32_t jobs; /* threads, at least 1 */
    const struct zf_limits *lim;
    const struct zf_err *refused; /* why it only opens as degraded; NULL: it also opens normally */
    const struct zf_err *
        unread; /* why its structure cannot be read: it was opened with zf_open_opts.bare; or NULL */
    /* A list of SHA-256 sums as sha256sum(1) writes it, or NULL: of files of the checkpoint, relative to the opened
     * directory or that of the shards, or of files of the tree. */
    const char *list;
    const char *list_name;                                /* for sentences */
    struct zf_tree *tree;                                 /* of the checkpoint */
    void (*found)(void *ctx, const struct zf_finding *f); /* from the thread that asks */
    void *ctx;
    struct zf_verify_progress *progress;
};

struct zf_verify_sum {
    uint64_t files, bad_files;     /* bad: with damage, or not read */
    uint64_t tensors, bad_tensors; /* likewise; missing ones too */
    uint64_t bytes;                /* read */
    uint64_t count[ZF_WEIGHTS];    /* findings */
};

/* c: must be opened as degraded, and from its files, not from a cached model.  False: it could not be verified, which
 * does not mean that it is damaged; damage is no failure.  Errors: ZF_E_USAGE o->list is not such a list;
 * ZF_E_NOMEM. */
bool zf_verify(const struct zf_checkpoint *c, const struct zf_verify_opts *o,
               struct zf_verify_sum *out, struct zf_err *err) ZF_CHECKED;

#endif
