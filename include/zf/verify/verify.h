/* SPDX-License-Identifier: Apache-2.0 */
/* Is a checkpoint whole and right?  Every file that it is made of is read once, in large steps, and checked against all
 * that is recorded of it; what is found is told as it is found. */
#ifndef ZF_VERIFY_VERIFY_H
#define ZF_VERIFY_VERIFY_H

#include <stdatomic.h>

#include <zf/tree.h>
#include <zf/verify/finding.h>

/* How far it is; any thread may look. */
struct zf_verify_progress {
    atomic_uint_fast64_t bytes, all; /* read, and to be read */
    atomic_uint_fast32_t files, n_files;
};

struct zf_verify_opts {
    const struct zf_verify_tensor *tensor; /* [n] */
    size_t n;
    bool part;  /* these are not all: files without any of them are left out */
    bool quick; /* structure only */
    bool
        coverage; /* are bytes shown nowhere looked for?  Only of a checkpoint that was opened with zf_open_opts.copies, and
                    * of which nothing was left out since */
    uint32_t jobs; /* threads, at least 1 */
    const struct zf_limits *lim;
    const struct zf_err *refused; /* why it opens as degraded only; NULL: it opens otherwise, too */
    /* A list of SHA-256 sums as sha256sum(1) writes it, or NULL: of files of the checkpoint, named from the directory that
     * was opened or from that of the shards, or of files of the tree. */
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

/* c: opened as degraded, and from its files, not from a model that was kept.  False: it could not be done, which says
 * nothing of the checkpoint; damage is no failure.  Errors: ZF_E_USAGE o->list is none, ZF_E_NOMEM. */
bool zf_verify(const struct zf_checkpoint *c, const struct zf_verify_opts *o,
               struct zf_verify_sum *out, struct zf_err *err) ZF_CHECKED;

#endif
