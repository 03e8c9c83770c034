/* SPDX-License-Identifier: Apache-2.0 */
/* Would loading a file with Python (torch.load, pickle.load) run code?  Every pickle of the file is walked
 * (zf/codec/pickle_code.h): of torch.save's archives, streams and tars, of archives in archives and one behind the other
 * (.distcp), members that are named twice included; of numpy's arrays of objects; and pickles alone. */
#ifndef ZF_CODEC_CODE_H
#define ZF_CODEC_CODE_H

#include <zf/codec/pickle_code.h>
#include <zf/source/source.h>

enum zf_code_class {
    ZF_CODE_KNOWN, /* of the writers themselves: makes values, runs nothing else (src/codec/code/known.def) */
    ZF_CODE_FOREIGN, /* anybody's */
    ZF_CODE_DANGER, /* of Python's own modules, or one that runs or loads code; or the name cannot be known */
    ZF_CODE_CLASSES
};
/* "known", "foreign", "dangerous" */
const char *zf_code_class_name(enum zf_code_class c);
enum zf_code_class zf_code_class(const struct zf_code_use *use);

/* A pickle of a file, valid during the call. */
struct zf_code_pickle {
    const char *member;   /* "archive/data.pkl", "inner.zip!a/data.pkl"; "" = the file itself */
    struct zf_source *in; /* what offsets are in: the file, or a compressed member */
    const struct zf_code_walk *walk;
};
typedef bool zf_code_fn(void *ctx, const struct zf_code_pickle *p, struct zf_err *err);

/* Calls fn for every pickle in src.  What cannot be looked at, though it has or may have one, is a walk that ended at
 * once, with the reason.  Errors: ZF_E_NOMEM; of reading; of fn. */
bool zf_code_file(struct zf_source *src, const struct zf_limits *lim, zf_code_fn *fn, void *ctx,
                  struct zf_err *err) ZF_CHECKED;

#endif
