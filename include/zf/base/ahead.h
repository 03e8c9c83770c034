/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that a few threads make ahead and the caller takes in order: the files of 1,000 ranks are opened and parsed
 * while the first ones are read.  The caller gets the same objects and failures, in the same order, as if it made each
 * one itself when it needs it. */
#ifndef ZF_BASE_AHEAD_H
#define ZF_BASE_AHEAD_H

#include <stdint.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>

struct zf_ahead;

struct zf_ahead_work {
    /* Makes object i; NULL is a failure.  From any thread, each i once. */
    void *(*make)(void *ctx, uint64_t i, struct zf_err *err);
    void (*drop)(void *made); /* frees an object that was not taken; NULL = it owns nothing */
    void *ctx;                /* for make; it must outlive the struct zf_ahead */
    /* Memory of an object until it is taken, bytes; NULL = negligible. */
    uint64_t (*weigh)(const void *made);
    /* The most objects that may be made or in the making and not yet taken; 0 = ZF_AHEAD_FEW.  There are more than a
     * few only while making one is mostly waiting, and those not yet taken are small. */
    uint32_t most;
    /* Making one is known to be mostly waiting: as many as `most` from the start, though no more than a few that are
     * heavy. */
    bool slow;
    /* Expected bytes of the first ones; 0 = not known.  If two would exceed ZF_AHEAD_HEAVY, none is begun before it is
     * asked for, as long as they are that large: the last one that was taken may still be in memory. */
    uint64_t likely;
    /* The number to make at once, however large; 0 = ZF_AHEAD_FEW, at most ZF_AHEAD_HEAVY together, and two until one
     * was weighed. */
    uint32_t few;
};

#define ZF_AHEAD_FEW 4
#define ZF_AHEAD_FAR 32            /* `few` for remote work */
#define ZF_AHEAD_ROOM (16u << 20)  /* bytes of objects beyond the first few */
#define ZF_AHEAD_HEAVY (64u << 20) /* bytes of the first few together, if more than one */
/* Starts the work for objects 0 … n-1.  Without threads (n < 2, or none can be created) each is made when
 * it is taken.  Errors: ZF_E_NOMEM. */
struct zf_ahead *zf_ahead_new(struct zf_ahead_work work, uint64_t n, struct zf_err *err) ZF_CHECKED;

/* Returns the next object, which the caller then owns, or NULL and its failure; after a failure, the following ones can
 * still be taken.  Called by one thread, at most n times. */
void *zf_ahead_take(struct zf_ahead *a, struct zf_err *err) ZF_CHECKED;

/* Runs all n pieces of work, which make no objects: `make` returns any pointer but NULL for success.
 * Errors: ZF_E_NOMEM; that of the first that fails, after which no more are begun. */
bool zf_ahead_all(struct zf_ahead_work work, uint64_t n, struct zf_err *err) ZF_CHECKED;

/* Waits for objects in the making, then frees a.  NULL is fine. */
void zf_ahead_free(struct zf_ahead *a);
static inline void zf_auto_ahead(struct zf_ahead **a)
{
    zf_ahead_free(*a);
}

#endif
