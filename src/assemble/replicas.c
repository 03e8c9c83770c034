/* SPDX-License-Identifier: Apache-2.0 */
#include "replicas.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/values.h>
#include <zf/base/out.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>

struct copy {
    struct copy *next;
    struct zf_torch_tensor tensor;
    const char *file;
    uint32_t rank;
};

struct plain {
    struct zf_path path; /* in the arena */
    bool extra;
    struct copy *first, *last;
};

struct zf_copies {
    struct zf_build *b;
    struct zf_names *names;
    struct zf_arena *arena;
    zf_vec(struct plain) plain; /* in the order in which they were met */
    struct zf_index paths;      /* -> number of the plain tensor */
    struct zf_copy_check check;
};

struct zf_copies *zf_copies_new(struct zf_build *b, struct zf_names *names, struct zf_arena *arena,
                                struct zf_err *err)
{
    struct zf_copies *c = calloc(1, sizeof *c);

    if (!c) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for joining ranks");
        return NULL;
    }
    c->b = b;
    c->names = names;
    c->arena = arena;
    return c;
}

void zf_copies_free(struct zf_copies *c)
{
    if (c) {
        zf_index_fini(&c->paths);
        zf_vec_fini(&c->plain);
        zf_copy_check_fini(&c->check);
        free(c);
    }
}

static bool same_path(struct zf_path a, struct zf_path b)
{
    if (a.n != b.n) {
        return false;
    }
    for (uint32_t i = 0; i < a.n; i++) {
        if (a.step[i].n != b.step[i].n || memcmp(a.step[i].p, b.step[i].p, a.step[i].n) != 0) {
            return false;
        }
    }
    return true;
}

static bool copy_path(struct zf_arena *a, struct zf_path path, struct zf_path *out,
                      struct zf_err *err)
{
    struct zf_step *step = zf_arena_get(a, path.n, sizeof *step, err);

    if (!step) {
        return false;
    }
    for (uint32_t i = 0; i < path.n; i++) {
        step[i] = path.step[i];
        step[i].p = zf_arena_str(a, path.step[i].p, path.step[i].n, err);
        if (!step[i].p) {
            return false;
        }
    }
    *out = (struct zf_path){.step = step, .n = path.n};
    return true;
}

static struct plain *plain_of(struct zf_copies *c, const struct zf_leaf *leaf, struct zf_err *err)
{
    uint64_t hash = zf_path_hash(leaf->path), at = 0;
    uint32_t i;

    while ((i = zf_index_next(&c->paths, hash, &at)) != ZF_INDEX_NONE) {
        if (same_path(c->plain.at[i].path, leaf->path)) {
            return &c->plain.at[i];
        }
    }
    struct plain *p = zf_vec_push(&c->plain, err);
    if (!p || !copy_path(c->arena, leaf->path, &p->path, err) ||
        !zf_index_add(&c->paths, hash, (uint32_t)(c->plain.n - 1), err)) {
        return NULL;
    }
    return p;
}

bool zf_copies_add(struct zf_copies *c, const struct zf_place_file *f, uint32_t rank,
                   const struct zf_leaf *leaf, struct zf_err *err)
{
    struct zf_torch_tensor t;

    if (!zf_torch_tensor(f->torch, leaf->value, &t, err)) {
        return err->code == ZF_E_UNSUPPORTED
                   ? zf_leave_out(c->b, f->path, leaf->path.step[leaf->path.n - 1].p, err)
                   : zf_err_in(err, "%s!", f->path);
    }
    struct plain *p = plain_of(c, leaf, err);
    struct copy *copy = p ? zf_arena_get(c->arena, 1, sizeof *copy, err) : NULL;
    if (!copy) {
        return false;
    }
    *copy = (struct copy){.tensor = t, .file = f->path, .rank = rank};
    p->extra = f->extra;
    if (p->last) {
        p->last->next = copy;
    } else {
        p->first = copy;
    }
    p->last = copy;
    return true;
}

/* ---- placing ---- */

/* Every rank's own, in a place where nothing claims to be the tensor. */
static bool place_each(struct zf_copies *c, const struct plain *p, struct zf_err *err)
{
    zf_auto(out) struct zf_out name = {0};
    struct zf_spot spot;

    for (const struct copy *k = p->first; k; k = k->next) {
        if (!zf_names_extra(c->names, p->path, &spot, err)) {
            return false;
        }
        zf_out_cut(&name, 0);
        zf_out_add(&name, spot.name, spot.name_len);
        zf_out_str(&name, ".rank");
        zf_out_dec(&name, k->rank);
        if (!zf_out_ok(&name, err)) {
            return false;
        }
        spot.name = name.p;
        spot.name_len = name.n;
        if (!zf_place_tensor(c->b, &spot, &k->tensor, k->file, err)) {
            return false;
        }
    }
    return p->extra ||
           zf_build_note(
               c->b, err,
               "\"%s\" is not the same in every rank and nothing says how the ranks' tensors "
               "join: each is in extra/ by itself",
               spot.name);
}

static bool place_plain(struct zf_copies *c, const struct plain *p, struct zf_err *err)
{
    struct zf_spot spot;
    struct zf_tensor_ref first, other;

    if (!zf_tensor_ref_of(&p->first->tensor, &first, err)) {
        return false;
    }
    for (const struct copy *k = p->first->next; k; k = k->next) {
        bool same;

        if (!zf_tensor_ref_of(&k->tensor, &other, err) ||
            !zf_copy_check_equal(&c->check, &first, &other, &same, err)) {
            return false;
        }
        if (!same) {
            return place_each(c, p, err);
        }
    }
    if (p->extra ? !zf_names_extra(c->names, p->path, &spot, err)
                 : !zf_place_spot(c->b, c->names, p->path, &spot, err)) {
        return false;
    }
    return zf_place_tensor(c->b, &spot, &p->first->tensor, p->first->file, err);
}

bool zf_copies_place(struct zf_copies *c, struct zf_err *err)
{
    for (size_t i = 0; i < c->plain.n; i++) {
        if (!place_plain(c, &c->plain.at[i], err)) {
            return false;
        }
    }
    return c->check.unchecked == 0 ||
           zf_build_note(
               c->b, err,
               "%" PRIu64
               " copies of tensors in several ranks' files were not compared: rank 0's are shown",
               c->check.unchecked);
}
