/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of a store that say nothing about the path: a read error, not "no such file".  Code that
 * searches for files often treats both as "no", so each failure is recorded here, and a second
 * request for the same path fails in the same way without another request to the storage. */
#ifndef SOURCE_FAILURES_H
#define SOURCE_FAILURES_H

#include <stdbool.h>
#include <stdint.h>

#include <zf/base/err.h>

struct zf_failures;

/* NULL: ZF_E_NOMEM.  Reference counted: a store's table and its sources each hold a reference. */
struct zf_failures *failures_new(struct zf_err *err) ZF_CHECKED;
struct zf_failures *failures_ref(struct zf_failures *d);
/* NULL is fine. */
void failures_unref(struct zf_failures *d);

/* The operation that failed. */
enum failures_kind {
    FAILURES_DIR = 'd',   /* listing a directory */
    FAILURES_FILE = 'f',  /* opening a file */
    FAILURES_ENTRY = 'e', /* the type of an entry of a listing */
    FAILURES_READ = 'r',
};

/* Records the failure, if it says nothing about the file itself (zf_err_unknown). */
void failures_add(struct zf_failures *d, enum failures_kind kind, const char *path,
                  const struct zf_err *err);
/* Did the same operation on `path` fail before?  Then *err is that failure, and it counts once more. */
bool failures_again(struct zf_failures *d, enum failures_kind kind, const char *path,
                    struct zf_err *err);

/* As zf_store_failures, zf_store_failure, zf_store_failures_since and zf_store_forget_failures. */
uint64_t failures_met(struct zf_failures *d);
bool failures_get(struct zf_failures *d, uint64_t since, size_t i, struct zf_err *out);
size_t failures_count(struct zf_failures *d, uint64_t since);
void failures_forget(struct zf_failures *d, uint64_t since);

#endif
