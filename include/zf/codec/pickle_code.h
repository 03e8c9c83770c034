/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the globals that Python's loader would import for a pickle, and which of them it would call.  The pickle is
 * walked, not loaded: also pickles that zf_pickle_load refuses are walked as far as Python would get, and further where
 * it is not certain that Python stops.  Source: CPython Lib/pickle.py and its C module (3.8 … 3.13). */
#ifndef ZF_CODEC_PICKLE_CODE_H
#define ZF_CODEC_PICKLE_CODE_H

#include <zf/base/bytes.h>
#include <zf/base/limits.h>
#include <zf/base/vec.h>

/* A global of one pickle.  Offsets are those of opcodes in the source (zf_bytes.base); ZF_OFF_NONE: never. */
struct zf_code_use {
    char *module, *name; /* one allocation, at `module`; cut to ZF_CODE_NAME */
    uint64_t at;         /* where it is first imported */
    uint64_t
        called; /* where it is first called: by REDUCE, NEWOBJ, NEWOBJ_EX, OBJ, INST; or its method, by BUILD etc. */
    uint64_t given; /* where it is first among the arguments of a call, which may call it */
    bool
        attributes; /* builtins.getattr, used only for attributes of globals, with plain names, that are never called */
    bool computed; /* the name is not known: computed while loading, or an extension code */
};
#define ZF_CODE_NAME 512u

struct zf_code_walk {
    zf_vec(struct zf_code_use) use; /* in the order of `at`, each once */
    bool cut;                       /* the walk ended at the end of the bytes */
    struct zf_err why; /* where and why the walk ended before STOP; code ZF_OK: it reached STOP */
    uint64_t end;      /* offset after the last opcode of the walk */
};

/* Walks the pickle at in->at; *in is not moved.  False: ZF_E_NOMEM, and there is nothing to free. */
bool zf_code_walk(const struct zf_bytes *in, const struct zf_limits *lim, struct zf_code_walk *out,
                  struct zf_err *err) ZF_CHECKED;
void zf_code_walk_fini(struct zf_code_walk *w);

#endif
