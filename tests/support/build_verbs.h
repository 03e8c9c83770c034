/* SPDX-License-Identifier: Apache-2.0 */
/* A script of the builder's verbs, read from any bytes: each byte says what comes next.  Names come
 * from a small pool, so that tensors get several pieces and meet in aliases and parts. */
#ifndef TESTS_SUPPORT_BUILD_VERBS_H
#define TESTS_SUPPORT_BUILD_VERBS_H

#include <stdlib.h>
#include <string.h>

#include <zf/model/build.h>

#define VERBS_SOURCES 4

struct verbs {
    const uint8_t *p; /* the script */
    size_t n;
    struct zf_build *b;
    struct zf_source *src[VERBS_SOURCES]; /* the last is NULL */
    uint32_t depth;                       /* open marks */
};

/* The next byte, less than `below`; 0 at the end. */
static inline uint32_t verbs_next(struct verbs *v, uint32_t below)
{
    if (v->n == 0)
        return 0;
    v->n--;
    return *v->p++ % below;
}

static const char *const verbs_set[] = {"", "optim/exp_avg", "stored"};
static const char *const verbs_name[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

static inline struct zf_spot verbs_spot(struct verbs *v)
{
    return (struct zf_spot){verbs_set[verbs_next(v, 3)], verbs_name[verbs_next(v, 8)], 1};
}

static inline struct zf_from verbs_from(struct verbs *v)
{
    return (struct zf_from){.src = v->src[verbs_next(v, VERBS_SOURCES)], .off = verbs_next(v, 200)};
}

/* A draft that is there, or a new one. */
static inline struct zf_draft *verbs_draft(struct verbs *v, struct zf_err *err)
{
    static const enum zf_dtype dtype[] = {ZF_DT_U8, ZF_DT_F16, ZF_DT_F32};
    struct zf_spot spot = verbs_spot(v);
    struct zf_draft *d = zf_build_find(v->b, spot);
    uint64_t shape[3];

    if (d)
        return d;
    struct zf_type type = {dtype[verbs_next(v, 3)], verbs_next(v, 4), shape};
    for (uint32_t i = 0; i < type.ndim; i++)
        shape[i] = verbs_next(v, 8);
    d = zf_build_tensor(v->b, spot, type, err);
    if (d && verbs_next(v, 2)) {
        uint64_t n = 1;

        for (uint32_t i = 0; i < type.ndim; i++)
            n *= shape[i];
        (void)!zf_draft_flat(d, 0, n, verbs_from(v), err);
    }
    return d;
}

/* All of a draft, in slots of a few stretches. */
static inline void verbs_slots(struct verbs *v, struct zf_draft *d, struct zf_err *err)
{
    struct zf_from from[4];
    uint32_t n = 1 + verbs_next(v, 4);

    for (uint32_t i = 0; i < n; i++)
        from[i] = verbs_from(v);
    struct zf_stretches *s = zf_build_stretches(v->b, from, n, verbs_next(v, 128), err);
    if (s)
        (void)!zf_draft_slots(d, s, verbs_next(v, 16), verbs_next(v, 32), err);
}

/* A piece for a draft: flat, run, box, part or stretch of another, known to be lost or not. */
static inline void verbs_piece(struct verbs *v, struct zf_draft *d, struct zf_err *err)
{
    static const struct zf_lost how = {.file = "rank3.pt", .why = "is missing"};
    uint64_t start[3], size[3], stride[3], first = verbs_next(v, 64), n = verbs_next(v, 64);
    uint32_t verb = verbs_next(v, 10);
    struct zf_from from = verbs_from(v);

    for (uint32_t i = 0; i < 3; i++) {
        start[i] = verbs_next(v, 8);
        size[i] = verbs_next(v, 8);
        stride[i] = verbs_next(v, 40);
    }
    switch (verb) {
    case 0:
    case 1:
        (void)!zf_draft_flat(d, first, n, from, err);
        break;
    case 2:
        (void)!zf_draft_put(d, (struct zf_where){start, size, first, n, false}, from, err);
        break;
    case 3:
        from.stride = stride;
        (void)!zf_draft_box(d, start, size, from, err);
        break;
    case 4:
        (void)!zf_draft_box(d, start, size, from, err);
        break;
    case 5: {
        struct zf_draft *of = zf_build_find(v->b, verbs_spot(v));

        if (of)
            (void)!zf_draft_part(d, first, n, of, start[0], err);
        break;
    }
    case 7: {
        struct zf_draft *of = zf_build_find(v->b, verbs_spot(v));

        if (of)
            (void)!zf_draft_unflatten(d, start, size, of, first, err);
        break;
    }
    case 8:
        verbs_slots(v, d, err);
        break;
    case 6:
        if (zf_build_degraded(v->b)) {
            (void)!zf_draft_put(d, (struct zf_where){start, size, first, n, false},
                                (struct zf_from){.lost = &how}, err);
        }
        break;
    default:
        if (zf_build_degraded(v->b))
            (void)!zf_draft_box(d, start, size, (struct zf_from){.lost = &how}, err);
    }
}

/* What is no tensor. */
static inline void verbs_other(struct verbs *v, struct zf_err *err)
{
    static const char *const path[] = {"config.json", "state/args.json", "extra/x", "extra/y"};
    static const char *const prefix[] = {"", "mp_rank_00", "mp_rank_01/below", "../x"};
    static const struct zf_lost how = {.why = "says nothing"};
    struct zf_source *src = v->src[verbs_next(v, VERBS_SOURCES)];
    const char *at = path[verbs_next(v, 4)];

    switch (verbs_next(v, 9)) {
    case 0:
        if (src)
            (void)!zf_build_blob(v->b, at, src, verbs_next(v, 64), verbs_next(v, 64), err);
        break;
    case 1:
        if (!zf_build_has_file(v->b, at))
            (void)!zf_build_text(v->b, at, "{}", verbs_next(v, 3), err);
        break;
    case 2:
        (void)!zf_build_prefix(v->b, prefix[verbs_next(v, 4)], err);
        break;
    case 3:
        (void)!zf_build_note(v->b, err, "a note: %u", verbs_next(v, 200));
        break;
    case 4:
        for (uint32_t i = 0; i < 200; i++)
            (void)!zf_build_note(v->b, err, "one of many: %u", i);
        break;
    case 5:
        (void)!zf_build_tag(v->b, at, err);
        zf_build_step(v->b, verbs_next(v, 200));
        break;
    case 6:
        (void)!zf_build_missing(v->b, at, strlen(at), &how, err);
        break;
    case 7:
        (void)!zf_build_scalar(v->b, verbs_spot(v), ZF_DT_F32, "\x01\x02\x03\x04", err);
        break;
    default: {
        struct zf_draft *d = zf_build_find(v->b, verbs_spot(v));
        struct zf_spot spot = verbs_spot(v);

        if (d)
            (void)!zf_build_alias(v->b, d, spot.name, spot.name_len, err);
    }
    }
}

/* Runs the script to its end.  Verbs may be refused; marks that stay open are kept. */
static inline void verbs_run(struct verbs *v, bool marks)
{
    struct zf_err err = {.code = ZF_OK};

    while (v->n > 0) {
        uint32_t what = verbs_next(v, 16);
        struct zf_draft *d = what < 10 ? verbs_draft(v, &err) : NULL;

        if (d && what == 0) {
            (void)!zf_draft_where(d, "meta!w", &err);
            (void)!zf_draft_noted(d, &err);
        } else if (d) {
            verbs_piece(v, d, &err);
        } else if (marks && what == 14 && v->depth < 8) {
            v->depth += zf_build_mark(v->b, &err);
        } else if (marks && what == 15 && v->depth > 0) {
            v->depth--;
            (verbs_next(v, 2) ? zf_build_undo : zf_build_keep)(v->b);
        } else {
            verbs_other(v, &err);
        }
    }
}

#endif
