/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints made in memory, and trees over them. */
#ifndef TESTS_UNIT_VIEW_MADE_H
#define TESTS_UNIT_VIEW_MADE_H

#include <stdlib.h>

#include <zf/model/build.h>
#include <zf/view.h>

static struct zf_err err;

static inline struct zf_build *made_build(bool degraded)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_build *b = zf_build_new(NULL, &lim, degraded, &err);

    assert_ok(b, &err);
    return b;
}

/* A tensor whose bytes come from its name, so that no two hold the same. */
static inline struct zf_draft *made_tensor(struct zf_build *b, const char *set, const char *name,
                                           enum zf_dtype t, uint32_t ndim, const uint64_t *shape)
{
    uint64_t n, elems = 1, seed = 0xcbf29ce484222325;

    assert_true(zf_dtype_size(t, ndim, shape, &n));
    unsigned char *p = malloc(n + 1);
    assert_non_null(p);
    for (const char *c = name; *c; c++)
        seed = (seed ^ (unsigned char)*c) * 0x100000001b3;
    for (uint64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005 + 1442695040888963407;
        p[i] = (unsigned char)(seed >> (t == ZF_DT_BOOL ? 63 : 56));
    }
    for (uint32_t d = 0; d < ndim; d++)
        elems *= shape[d];
    struct zf_source *s = zf_mem_new("made", p, n + 1, true, &err);
    assert_ok(s, &err);
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){set, name, strlen(name)},
                                         (struct zf_type){t, ndim, shape}, &err);
    assert_ok(d, &err);
    assert_ok(zf_draft_flat(d, 0, elems, (struct zf_from){.src = s}, &err), &err);
    zf_source_unref(&s);
    return d;
}

/* A vector of n elements. */
static inline struct zf_draft *made_vector(struct zf_build *b, const char *name, enum zf_dtype t,
                                           uint64_t n)
{
    return made_tensor(b, "", name, t, 1, &n);
}

/* Takes b.  keep: one glob or NULL.  NULL with err when the tree is refused. */
static inline struct zf_tree *made_tree(struct zf_build *b, uint64_t shard_size, const char *keep)
{
    static struct zf_limits lim;
    struct zf_checkpoint *c = zf_build_seal(b, "made", "by a test", &err);

    assert_ok(c, &err);
    lim = zf_limits_default();
    return zf_tree_new(
        c,
        &(struct zf_view_opts){
            .shard_size = shard_size, .keep = &keep, .n_keep = keep != NULL, .lim = &lim},
        &err);
}

#endif
