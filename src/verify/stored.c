/* SPDX-License-Identifier: Apache-2.0 */
/* Compares weights in stored/ with the master weights they were rounded from.  A trainer may round differently, or may
 * not have copied the masters since its last step: a difference is a note.  Reading everything again would double the
 * I/O, so only blocks spread over each tensor are compared; weights of another step differ everywhere. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/ahead.h>
#include <zf/model/build.h>
#include <zf/model/cast.h>

#include "checks.h"

/* Compares one element in SHARE of each tensor, in at most BLOCKS blocks of LEAST to MOST elements. */
#define STORED_SHARE 200u
#define STORED_BLOCKS 16u
#define STORED_LEAST 256u
#define STORED_MOST (16u << 10)
#define STORED_BYTES ((size_t)STORED_MOST * 4)

struct stored_pair {
    size_t number; /* number of the tensor being verified */
    const struct zf_tensor *weight, *master;
};

struct stored {
    struct verify *v;
    zf_vec(struct stored_pair) pair;
};

/* Result for one pair. */
struct stored_seen {
    bool differ;
    uint64_t at; /* an element that differs, … */
    float weight, rounded;
    uint64_t bytes; /* number of bytes read */
    struct zf_err err;
};

/* ---- which pairs ----------------------------------------------------------------------------- */

static bool stored_is_pair(const struct zf_tensor *weight, const struct zf_tensor *master)
{
    return master && !weight->lost && !master->lost &&
           zf_dtype_info(master->dtype)->bytes > zf_dtype_info(weight->dtype)->bytes &&
           zf_can_cast(master->dtype, weight->dtype) &&
           zf_shape_equal(weight->ndim, weight->shape, master->ndim, master->shape);
}

/* The set with the master weights: the root for "stored", RANK for "RANK/stored". */
static const struct zf_set *stored_masters(const struct zf_checkpoint *c, const struct zf_set *s)
{
    static const char name[] = "stored";
    const size_t n = strlen(s->path), k = sizeof name - 1;
    zf_auto(mem) char *path = NULL;

    if (n < k || strcmp(s->path + n - k, name) != 0 || (n > k && s->path[n - k - 1] != '/'))
        return NULL;
    path = strndup(s->path, n > k ? n - k - 1 : 0);
    return path ? zf_checkpoint_set(c, path) : NULL;
}

static bool stored_list(struct stored *s, struct zf_err *err)
{
    const struct zf_verify_opts *o = s->v->o;

    for (size_t i = 0; i < o->n; i++) {
        const struct zf_tensor *weight = o->tensor[i].tensor;
        const struct zf_set *set = stored_masters(s->v->c, o->tensor[i].set);
        const struct zf_tensor *master =
            set ? zf_set_find(set, weight->name, weight->name_len) : NULL;

        if (!stored_is_pair(weight, master))
            continue;
        struct stored_pair *to = zf_vec_push(&s->pair, err);
        if (!to)
            return false;
        *to = (struct stored_pair){.number = i, .weight = weight, .master = master};
    }
    return true;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* The element as a float, exactly: its type has at most 32 bits. */
static float stored_number(const uint8_t *p, enum zf_dtype type)
{
    float f;

    zf_cast(&f, ZF_DT_F32, p, type, 1);
    return f;
}

/* Finds the first of n elements that differs; all NaNs are equal, whatever their bits. */
static void stored_find(const uint8_t *weight, const uint8_t *rounded, enum zf_dtype type, size_t n,
                        uint64_t first, struct stored_seen *out)
{
    const uint32_t each = zf_dtype_info(type)->bytes;

    for (size_t i = 0; i < n && !out->differ; i++) {
        if (memcmp(weight + i * each, rounded + i * each, each) == 0)
            continue;
        out->weight = stored_number(weight + i * each, type);
        out->rounded = stored_number(rounded + i * each, type);
        out->differ = out->weight == out->weight || out->rounded == out->rounded;
        out->at = first + i;
    }
}

static uint64_t stored_clamp(uint64_t n, uint64_t least, uint64_t most)
{
    return n < least ? least : n < most ? n : most;
}

static bool stored_compare(const struct stored_pair *p, uint8_t *buf, struct stored_seen *out,
                           struct zf_err *err)
{
    const enum zf_dtype type = p->weight->dtype;
    const uint32_t each = zf_dtype_info(type)->bytes;
    const uint64_t n = zf_map_size(p->weight->data) / each, share = n / STORED_SHARE;
    const uint64_t most = stored_clamp(share / STORED_BLOCKS, STORED_LEAST, STORED_MOST),
                   block = most < n ? most : n,
                   blocks = n ? stored_clamp(share / block, 1, STORED_BLOCKS) : 0;

    for (uint64_t i = 0; i < blocks && !out->differ; i++) {
        /* the last block ends at the tensor's end; the start was compared when opening */
        const uint64_t first = i + 1 < blocks ? (n - block) / (blocks - 1) * i : n - block;
        const size_t bytes = (size_t)block * each;

        if (!zf_map_read(p->weight->data, buf, bytes, first * each, err) ||
            !zf_map_read_cast(p->master->data, p->master->dtype, type, buf + STORED_BYTES, bytes,
                              first * each, err))
            return false;
        out->bytes += block * (each + zf_dtype_info(p->master->dtype)->bytes);
        stored_find(buf, buf + STORED_BYTES, type, (size_t)block, first, out);
    }
    return true;
}

static void *stored_make(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct stored *s = ctx;
    struct stored_seen *out = calloc(1, sizeof *out);
    zf_auto(mem) uint8_t *buf = malloc(2 * STORED_BYTES);

    if (!out || !buf) {
        free(out);
        (void)zf_fail_sys(err, "compare weights with their masters");
        return NULL;
    }
    zf_err_clear(&out->err);
    (void)stored_compare(&s->pair.at[i], buf, out, &out->err);
    return out;
}

/* ---- reports --------------------------------------------------------------------------------- */

/* Compares and reports the pairs; verify_pass has already reported what cannot be read. */
static bool stored_run(struct stored *s, struct zf_err *err)
{
    const uint32_t jobs = s->v->o->jobs;
    const struct zf_ahead_work work = {
        .make = stored_make, .drop = free, .ctx = s, .few = jobs, .most = jobs};
    zf_auto(ahead) struct zf_ahead *ahead = zf_ahead_new(work, s->pair.n, err);
    const struct verify_about about = {.kind = ZF_FOUND_COPY, .file = ""};
    struct stored_seen first = {.differ = false};

    for (size_t i = 0; ahead && i < s->pair.n; i++) {
        zf_auto(mem) struct stored_seen *seen = zf_ahead_take(ahead, err);

        if (!seen || seen->err.code == ZF_E_NOMEM) {
            *err = seen ? seen->err : *err;
            return false;
        }
        s->v->sum->bytes += seen->bytes;
        if (seen->err.code != ZF_OK || !seen->differ)
            continue;
        first = first.differ ? first : *seen;
        uint32_t *hit = zf_vec_push(&s->v->hit, err);
        if (!hit)
            return false;
        *hit = (uint32_t)s->pair.at[i].number;
    }
    return ahead &&
           (!first.differ ||
            verify_found(s->v, &about, err,
                         "%zu of %zu weights differ from their rounded masters where they "
                         "were compared: element %" PRIu64
                         " of %s is %.9g, and its master rounds to %.9g",
                         s->v->hit.n, s->pair.n, first.at, s->v->o->tensor[s->v->hit.at[0]].path,
                         (double)first.weight, (double)first.rounded));
}

bool verify_stored(struct verify *v, struct zf_err *err)
{
    struct stored s = {.v = v};

    v->hit.n = 0;
    const bool ok = stored_list(&s, err) && stored_run(&s, err);
    zf_vec_fini(&s.pair);
    return ok;
}
