/* SPDX-License-Identifier: Apache-2.0 */
/* Compares copies of a tensor that no file of the tree shows and that verify_pass did not find equal (replicas.c): those
 * that differ, to find their first different byte, and those that files do not hold unchanged. */
#include <inttypes.h>

#include <zf/base/ahead.h>

#include "checks.h"

#define CHUNK ((size_t)256 << 10)

/* Result of comparing two copies. */
struct copies_seen {
    uint64_t same;     /* equal bytes at the start */
    struct zf_err err; /* why reading failed; code ZF_OK: it did not */
};

/* The index of the first byte that differs between a[n] and b[n]. */
static size_t copies_equal(const uint8_t *a, const uint8_t *b, size_t n)
{
    size_t i = 0;

    if (memcmp(a, b, n) == 0)
        return n;
    while (a[i] == b[i])
        i++;
    return i;
}

static bool copies_compare(const struct zf_copy *c, uint8_t *buf, struct copies_seen *out,
                           struct zf_err *err)
{
    while (c->src[0] && out->same < c->n) {
        const size_t n = c->n - out->same < CHUNK ? (size_t)(c->n - out->same) : CHUNK;

        if (!zf_source_pread(c->src[0], buf, n, c->off[0] + out->same, err) ||
            !zf_source_pread(c->src[1], buf + CHUNK, n, c->off[1] + out->same, err))
            return false;
        const size_t equal = copies_equal(buf, buf + CHUNK, n);

        out->same += equal;
        if (equal < n)
            return true;
    }
    return true;
}

static void *copies_make(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct verify *v = ctx;
    struct copies_seen *out = calloc(1, sizeof *out);
    zf_auto(mem) uint8_t *buf = malloc(2 * CHUNK);

    if (!out || !buf) {
        free(out);
        (void)zf_fail_sys(err, "compare copies");
        return NULL;
    }
    zf_err_clear(&out->err);
    if (replicas_equal(&v->replicas, i))
        out->same = v->c->copy[i].n;
    (void)copies_compare(&v->c->copy[i], buf, out, &out->err);
    return out;
}

static bool copies_report(struct verify *v, const struct zf_copy *c, const struct copies_seen *seen,
                          struct zf_err *err)
{
    struct verify_about about = {.kind = ZF_FOUND_COPY, .weight = ZF_WEIGHT_DAMAGE};

    if (seen->err.code != ZF_OK) {
        about.file = seen->err.path;
        about.weight = verify_weight(&seen->err);
        return verify_found(v, &about, err, "%s", seen->err.msg);
    }
    if (!c->src[0] || seen->same == c->n)
        return true;
    const struct zf_trace first = zf_source_trace(c->src[0], c->off[0] + seen->same, 1),
                          second = zf_source_trace(c->src[1], c->off[1] + seen->same, 1);

    about.file = second.src->name;
    about.first = second.off;
    about.end = second.off + 1;
    return places_tensors(&v->places, first.src, first.off, first.off + 1, &v->hit, err) &&
           verify_found(v, &about, err,
                        "this copy of a tensor differs here from the one in %s, byte %" PRIu64,
                        first.src->name, first.off);
}

bool verify_copies(struct verify *v, struct zf_err *err)
{
    const uint64_t n = v->o->part ? 0 : v->c->n_copies;
    const struct zf_ahead_work work = {
        .make = copies_make, .drop = free, .ctx = v, .few = v->o->jobs, .most = v->o->jobs};
    zf_auto(ahead) struct zf_ahead *ahead = zf_ahead_new(work, n, err);

    for (uint64_t i = 0; ahead && i < n; i++) {
        zf_auto(mem) struct copies_seen *seen = zf_ahead_take(ahead, err);

        if (!seen || !copies_report(v, &v->c->copy[i], seen, err))
            return false;
    }
    return ahead != NULL;
}
