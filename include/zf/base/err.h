/* SPDX-License-Identifier: Apache-2.0 */
/* One failure, reported once, where it is known.  Lives on the caller's stack, so failing never
 * allocates.  `err` is never NULL and always the last parameter. */
#ifndef ZF_BASE_ERR_H
#define ZF_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum zf_code {
    ZF_OK,
    ZF_E_IO,          /* a system call failed or a file is shorter than promised */
    ZF_E_STALE,       /* a file changed since it was first seen */
    ZF_E_FORMAT,      /* damaged: the bytes contradict their format or each other */
    ZF_E_UNSUPPORTED, /* sound as far as one can see, but of a kind zerofs does not read */
    ZF_E_UNKNOWN,     /* not a checkpoint at all */
    ZF_E_LIMIT,       /* a limit of the limits table was reached */
    ZF_E_NOMEM,
    ZF_E_NOENT, /* the named thing is not there */
    ZF_E_BUSY, /* not now: only where it was said that a later attempt is made (zf/source/gate.h) */
    ZF_E_USAGE, /* the caller asked for something that makes no sense */
};

#define ZF_OFF_NONE UINT64_MAX

struct zf_err {
    enum zf_code code;
    int sys;      /* errno of the failing system call, 0 = none */
    uint64_t off; /* byte within the innermost path; ZF_OFF_NONE = no place */
    /* outermost first: "step9/rank0.pt!archive/data.pkl"; long ones are cut in the middle */
    char path[384];
    char msg[320]; /* found X, expected Y; lower case, no newline, no full stop */
    uint16_t hint; /* bytes of msg before the hint that it ends with; 0 = it has none */
    /* ZF_E_LIMIT: the enum zf_limit that was reached (zf_fail_limit); 0 = none that could be raised */
    uint8_t limit;
};

/* Fills *err and returns false, so that a failing place reads `return zf_fail(...)`.
 * Units: off bytes in the innermost path, or ZF_OFF_NONE.  Bytes of the message that a terminal
 * could take for a command (control bytes) are replaced by '?'. */
bool zf_fail(struct zf_err *err, enum zf_code code, uint64_t off, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* snprintf for messages: one too long for out[n] is cut between words, and ends in "…". */
void zf_say(char *out, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Appends "; " and this hint to the message: a remedy, or where else to look.  Replaces an earlier hint; if both are
 * too long, the message before the hint is cut. */
void zf_err_hint(struct zf_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Fills *err from errno, which it reads before anything else: "cannot <what>: <strerror>".
 * Returns false. */
bool zf_fail_sys(struct zf_err *err, const char *what);

/* For failing in a function that returns a pointer: `return zf_null(zf_fail(...))`. */
static inline void *zf_null(bool failed)
{
    (void)failed;
    return NULL;
}

/* Prepends a path component on the way up: "outer" joined by '/' or, before a '!' path, as it
 * is.  A component that ends in '!' is joined without a slash; a path that is absolute already
 * is left as it is.  Returns false. */
bool zf_err_in(struct zf_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Writes the one sentence "path: byte N: msg" (parts that are not known are left out); always
 * terminated.  Returns out. */
const char *zf_err_text(const struct zf_err *err, char *out, size_t n);

/* True if the failure leaves open whether the requested thing exists: an I/O error, missing permission, a failing
 * server, no memory.  False if it is known to be missing, of the wrong kind, or elsewhere. */
bool zf_err_unknown(const struct zf_err *err);

/* How often memory has run out in this process: if it changed, a failure may have been taken for a negative answer in
 * the meantime. */
uint64_t zf_err_nomem_count(void);

/* The only table from code to errno, with which read(2) fails.  Returns a positive errno. */
int zf_err_errno(const struct zf_err *err);

/* The only table from code to exit status (zerofs(1)): 0 ok, 1 negative answer, 2 usage, 3 not a
 * checkpoint, 4 damaged or unsupported, 5 I/O. */
int zf_err_exit(const struct zf_err *err);

/* Clears a failure that was handled. */
static inline void zf_err_clear(struct zf_err *err)
{
    err->code = ZF_OK;
    err->sys = err->hint = err->limit = 0;
    err->off = ZF_OFF_NONE;
    err->path[0] = err->msg[0] = '\0';
}

#define ZF_CHECKED __attribute__((warn_unused_result))

#endif
