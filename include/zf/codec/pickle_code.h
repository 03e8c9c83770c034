/* SPDX-License-Identifier: Apache-2.0 */
/* The globals that Python's loader would import for a pickle, and which of them it would call.  The pickle is walked, not
 * read: what zf_pickle_load refuses is walked as far as Python would get, and where it is not certain that Python stops,
 * it goes on.  Source: CPython Lib/pickle.py and the C module beside it (3.8 … 3.13). */
#ifndef ZF_CODEC_PICKLE_CODE_H
#define ZF_CODEC_PICKLE_CODE_H

#include <zf/base/bytes.h>
#include <zf/base/limits.h>
#include <zf/base/vec.h>

/* A global of one pickle; offsets are those of opcodes in the source (zf_bytes.base); ZF_OFF_NONE: it is not. */
struct zf_code_use {
    char *module, *name; /* one allocation, module's; longer ones than ZF_CODE_NAME are cut */
    uint64_t at;         /* imported first */
    uint64_t
        called; /* called first: by REDUCE, NEWOBJ, NEWOBJ_EX, OBJ, INST; a method of it by BUILD and its kin */
    uint64_t given; /* put among the arguments of a call first, which may call it */
    bool
        attributes; /* builtins.getattr: gives attributes with plain names, of globals, which are never called */
    bool
        computed; /* the pickle makes the name up while it is loaded, or it is an extension's number: not known */
};
#define ZF_CODE_NAME 512u

struct zf_code_walk {
    zf_vec(struct zf_code_use) use; /* in the order of `at`, each once */
    bool cut;                       /* it ended where the bytes do */
    struct zf_err why; /* where and why it ended in front of STOP; code ZF_OK: it did not */
    uint64_t end;      /* behind the last opcode that was looked at */
};

/* Walks the pickle at in->at; *in is not moved.  False: ZF_E_NOMEM, and there is nothing to free. */
bool zf_code_walk(const struct zf_bytes *in, const struct zf_limits *lim, struct zf_code_walk *out,
                  struct zf_err *err) ZF_CHECKED;
void zf_code_walk_fini(struct zf_code_walk *w);

#endif
