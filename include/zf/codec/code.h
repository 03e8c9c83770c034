/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out whether loading a file with Python (torch.load, pickle.load) would run code.  Walks every pickle of the
 * file (zf/codec/pickle_code.h): those in torch.save's archives, streams and tars, in nested and concatenated archives
 * (.distcp) including members with duplicate names, in numpy object arrays, and plain pickles. */
#ifndef ZF_CODEC_CODE_H
#define ZF_CODEC_CODE_H

#include <zf/codec/pickle_code.h>
#include <zf/source/source.h>

enum zf_code_class {
    ZF_CODE_KNOWN, /* of a known writer: makes values, runs nothing else (src/codec/code/known.def) */
    ZF_CODE_FOREIGN, /* any other */
    ZF_CODE_DANGER, /* of Python's own modules, or one that runs or loads code; or its name cannot be known */
    ZF_CODE_CLASSES
};
/* "known", "foreign", "dangerous" */
const char *zf_code_class_name(enum zf_code_class c);
enum zf_code_class zf_code_class(const struct zf_code_use *use);

/* A pickle in a file, valid during the call. */
struct zf_code_pickle {
    const char *member;   /* "archive/data.pkl", "inner.zip!a/data.pkl"; "" = the file itself */
    struct zf_source *in; /* the source to which offsets refer: the file, or a compressed member */
    const struct zf_code_walk *walk;
};
typedef bool zf_code_fn(void *ctx, const struct zf_code_pickle *p, struct zf_err *err);

/* Calls fn for every pickle in src.  Contents that have or may have a pickle but cannot be examined are reported as a
 * walk that ended at once, with the reason.  Errors: ZF_E_NOMEM; those of reading and of fn. */
bool zf_code_file(struct zf_source *src, const struct zf_limits *lim, zf_code_fn *fn, void *ctx,
                  struct zf_err *err) ZF_CHECKED;

#endif
