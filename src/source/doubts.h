/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of a store that say nothing about the path: a read error, not "no such file".  Code that
 * searches for files often treats both as "no", so each failure is recorded here, and a second
 * request for the same path fails in the same way without another request to the storage. */
#ifndef SOURCE_DOUBTS_H
#define SOURCE_DOUBTS_H

#include <stdbool.h>
#include <stdint.h>

#include <zf/base/err.h>

struct zf_doubts;

/* NULL: ZF_E_NOMEM.  Reference counted: a store's table and its sources each hold a reference. */
struct zf_doubts *doubts_new(struct zf_err *err) ZF_CHECKED;
struct zf_doubts *doubts_ref(struct zf_doubts *d);
/* NULL is fine. */
void doubts_unref(struct zf_doubts *d);

/* The operation that failed. */
enum doubts_kind {
    DOUBTS_DIR = 'd',   /* listing a directory */
    DOUBTS_FILE = 'f',  /* opening a file */
    DOUBTS_ENTRY = 'e', /* the type of an entry of a listing */
    DOUBTS_READ = 'r',
};

/* Records the failure, if it says nothing about the file itself (zf_err_unknown). */
void doubts_add(struct zf_doubts *d, enum doubts_kind kind, const char *path,
                const struct zf_err *err);
/* Did the same operation on `path` fail before?  Then *err is that failure, and it counts once more. */
bool doubts_again(struct zf_doubts *d, enum doubts_kind kind, const char *path, struct zf_err *err);

/* As zf_store_doubts, zf_store_doubt, zf_store_doubts_since and zf_store_forget_doubts. */
uint64_t doubts_met(struct zf_doubts *d);
bool doubts_get(struct zf_doubts *d, uint64_t since, size_t i, struct zf_err *out);
size_t doubts_count(struct zf_doubts *d, uint64_t since);
void doubts_forget(struct zf_doubts *d, uint64_t since);

#endif
