/* SPDX-License-Identifier: Apache-2.0 */
#include "replicas.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/values.h>
#include <zf/base/hashes.h>
#include <zf/base/text.h>

struct copy {
    struct copy *next;
    struct zf_torch_tensor tensor;
    const char *file;
    uint32_t rank;
};

struct plain {
    struct plain *next;
    struct plain *same_hash;
    struct zf_path path; /* in the arena */
    bool extra;
    struct copy *first, *last;
};

struct zf_copies {
    struct zf_build *b;
    struct zf_names *names;
    struct zf_arena *arena;
    struct zf_hashes table; /* path -> struct plain, chained */
    struct plain *first, *last;
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
        zf_hashes_fini(&c->table);
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
    struct zf_hash_slot *s = zf_hashes_put(&c->table, zf_path_hash(leaf->path), err);

    if (!s) {
        return NULL;
    }
    for (struct plain *p = (struct plain *)(uintptr_t)s->value; p; p = p->same_hash) {
        if (same_path(p->path, leaf->path)) {
            return p;
        }
    }
    struct plain *p = zf_arena_get(c->arena, 1, sizeof *p, err);
    if (!p || !copy_path(c->arena, leaf->path, &p->path, err)) {
        return NULL;
    }
    p->same_hash = (struct plain *)(uintptr_t)s->value;
    s->value = (uint64_t)(uintptr_t)p;
    if (c->last) {
        c->last->next = p;
    } else {
        c->first = p;
    }
    c->last = p;
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
    zf_auto(text) struct zf_text name = {0};
    struct zf_spot spot;
    char tail[32];

    for (const struct copy *k = p->first; k; k = k->next) {
        int n = snprintf(tail, sizeof tail, ".rank%" PRIu32, k->rank);

        zf_text_clear(&name);
        if (!zf_names_extra(c->names, p->path, &spot, err) ||
            !zf_text_add(&name, spot.name, spot.name_len, err) ||
            !zf_text_add(&name, tail, (size_t)n, err)) {
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
    for (const struct plain *p = c->first; p; p = p->next) {
        if (!place_plain(c, p, err)) {
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
