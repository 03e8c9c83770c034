/* SPDX-License-Identifier: Apache-2.0 */
/* Questions that a store could not answer.  "It is not there" is an answer; that a file, a directory or
 * what an entry is cannot be read is none.  Those who look for something often take both for
 * "no", so each such failure is kept here, and asking the same again fails in the same way
 * without asking the storage once more. */
#ifndef SOURCE_DOUBTS_H
#define SOURCE_DOUBTS_H

#include <stdbool.h>
#include <stdint.h>

#include <zf/base/err.h>

struct zf_doubts;

/* NULL: ZF_E_NOMEM.  Counted: a store's table and its sources each hold a reference. */
struct zf_doubts *doubts_new(struct zf_err *err) ZF_CHECKED;
struct zf_doubts *doubts_ref(struct zf_doubts *d);
/* NULL is fine. */
void doubts_unref(struct zf_doubts *d);

/* Kind of the question. */
enum doubts_kind {
    DOUBTS_DIR = 'd',
    DOUBTS_FILE = 'f',
    DOUBTS_ENTRY = 'e', /* of a listing */
    DOUBTS_READ = 'r',
};

/* Keeps the failure, if it says nothing of the file (zf_err_unknown). */
void doubts_add(struct zf_doubts *d, enum doubts_kind kind, const char *path,
                const struct zf_err *err);
/* Was the same asked, and could it not be known?  Then *err is that failure, met once more. */
bool doubts_again(struct zf_doubts *d, enum doubts_kind kind, const char *path, struct zf_err *err);

/* As zf_store_doubts, zf_store_doubt, zf_store_doubts_since and zf_store_forget_doubts. */
uint64_t doubts_met(struct zf_doubts *d);
bool doubts_get(struct zf_doubts *d, uint64_t since, size_t i, struct zf_err *out);
size_t doubts_count(struct zf_doubts *d, uint64_t since);
void doubts_forget(struct zf_doubts *d, uint64_t since);

#endif
