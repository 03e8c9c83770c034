/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/torch_place.h>

#include <string.h>

#include <zf/assemble/composed.h>
#include <zf/assemble/degraded.h>
#include <zf/assemble/tensor_ref.h>
#include <zf/base/hash.h>
#include <zf/base/out.h>
#include <zf/base/table.h>

#include "param_groups.h"

/* A tensor that may have a second name: the same elements of the same storage are one tensor. */
struct tie {
    const char *set;
    struct zf_draft *draft; /* NULL: not made yet */
};
/* A tensor with other elements than the first one of its storage. */
struct other_tie {
    UT_hash_handle hh; /* key: a hash of the elements and the set */
    struct tie tie;
};

/* A part of a composed tensor that is composed itself. */
struct later {
    struct later *next;
    const struct zf_pv *value;
    const char *name;
    size_t name_len;
};

struct placing {
    struct zf_build *b;
    struct zf_names *names;
    const struct zf_place_file *file;
    const struct zf_limits *lim;
    /* [n_first] by storage of the file; most have only one tensor */
    struct tie *first;
    uint64_t n_first;
    struct other_tie *ties; /* uthash */
    struct zf_arena *arena;
    struct zf_out name;
    const char *set;     /* the set of the last tie; consecutive tensors often share it */
    struct zf_spot spot; /* the spot of the current composed tensor */
    struct later *later;
    int depth;
};

/* ---- one tensor ---- */

bool zf_place_spot(struct zf_build *b, struct zf_names *names, struct zf_path path,
                   struct zf_spot *out, struct zf_err *err)
{
    if (!zf_names_place(names, path, out, err))
        return false;
    return !zf_build_find(b, *out) || zf_names_extra(names, path, out, err);
}

static uint64_t place_tie_hash(const struct zf_tensor_ref *r, const char *set)
{
    const uint64_t head[] = {r->off, (uint64_t)r->dtype, r->ndim};
    uint64_t h = zf_hash(0, head, sizeof head);

    h = zf_hash(h, r->shape, r->ndim * sizeof *r->shape);
    h = zf_hash(h, r->stride, r->ndim * sizeof *r->stride);
    return zf_hash_str(zf_hash_str(h, r->key), set);
}

/* A copy of the set's name, for a tie. */
static const char *place_tie_set(struct placing *p, const char *set, struct zf_err *err)
{
    if (!p->set || strcmp(p->set, set) != 0)
        p->set = zf_arena_str(p->arena, set, strlen(set), err);
    return p->set;
}

static bool place_is_tie(const struct tie *tie, const struct zf_spot *spot,
                         const struct zf_tensor_ref *r)
{
    return tie->draft && strcmp(tie->set, spot->set) == 0 &&
           zf_draft_is_from(tie->draft, (struct zf_type){r->dtype, r->ndim, r->shape},
                            (struct zf_from){.src = r->src,
                                             .off = r->off,
                                             .stride = r->packed ? NULL : r->stride});
}

/* The tie entry for this tensor: of an earlier one with the same elements, or an empty one to fill; NULL: none. */
static bool place_find_tie(struct placing *p, const struct zf_spot *spot,
                           const struct zf_torch_tensor *t, const struct zf_tensor_ref *r,
                           struct tie **out, struct zf_err *err)
{
    *out = NULL;
    if (zf_names_is_optim(*spot) || !t->storage->key || r->n == 0)
        return true;
    struct tie *first = t->storage->record < p->n_first ? &p->first[t->storage->record] : NULL;

    if (first && (!first->draft || place_is_tie(first, spot, r))) {
        *out = first;
        return true;
    }
    struct other_tie *other = zf_table_make_id(p->ties, place_tie_hash(r, spot->set), err);

    *out = other ? &other->tie : NULL;
    return other != NULL;
}

static bool place_dense(struct placing *p, const struct zf_spot *spot,
                        const struct zf_torch_tensor *t, struct zf_err *err)
{
    struct zf_tensor_ref r;
    struct tie *tie;

    if (!zf_tensor_ref_of(t, &r, err))
        return false;
    if (!place_find_tie(p, spot, t, &r, &tie, err))
        return false;
    if (tie && place_is_tie(tie, spot, &r))
        return zf_build_alias(p->b, tie->draft, spot->name, spot->name_len, err);
    struct zf_draft *d = zf_tensor_ref_draft(p->b, *spot, &r, NULL, err);
    if (!d || !zf_draft_inside(d, p->file->path, err))
        return false;
    if (!tie || tie->draft)
        return true;
    tie->draft = d;
    tie->set = place_tie_set(p, spot->set, err);
    return tie->set != NULL;
}

/* ---- composed tensors ---- */

static bool place_postpone(struct placing *p, const struct zf_spot *spot, const struct zf_pv *v,
                           struct zf_err *err)
{
    struct later *l = zf_arena_get(p->arena, 1, sizeof *l, err);

    if (!l)
        return false;
    *l = (struct later){.next = p->later, .value = v, .name_len = spot->name_len};
    l->name = zf_arena_str(p->arena, spot->name, spot->name_len, err);
    p->later = l;
    return l->name != NULL;
}

static bool place_part(void *ctx, const struct zf_torch_part *part, struct zf_err *err)
{
    struct placing *p = ctx;
    struct zf_spot spot = p->spot;
    size_t n = strcmp(part->name, "int_repr") == 0 ? 0 : strlen(part->name);

    zf_out_cut(&p->name, 0);
    zf_out_add(&p->name, spot.name, spot.name_len);
    zf_out_str(&p->name, n ? "." : "");
    zf_out_add(&p->name, part->name, n);
    if (!zf_out_ok(&p->name, err))
        return false;
    spot.name = zf_out_text(&p->name);
    spot.name_len = p->name.n;
    if (zf_build_find(p->b, spot)) {
        return zf_build_note_on(
            p->b, ZF_NOTE_LEFT_OUT, p->file->path, err,
            "%s: part \"%s\" of a tensor is left out, because another tensor has its name",
            p->file->path, spot.name);
    }
    if (part->tensor)
        return place_dense(p, &spot, part->tensor, err);
    if (zf_pv_is_number(part->value))
        return zf_number_draft(p->b, spot, part->value, err);
    return part->value && zf_torch_kind(p->file->torch, part->value) != ZF_TORCH_NOT
               ? place_postpone(p, &spot, part->value, err)
               : true;
}

/* Leaves out a tensor that cannot be shown, with a note; damage is an error. */
static bool place_leave_out(struct placing *p, const struct zf_spot *spot, struct zf_err *err)
{
    if (err->code != ZF_E_UNSUPPORTED && !(err->code == ZF_E_FORMAT && zf_build_degraded(p->b))) {
        (void)zf_err_in(err, "%s!", spot->name);
        return zf_err_in(err, "%s!", p->file->path);
    }
    return zf_leave_out_at(p->b, p->file->path, *spot, err);
}

static bool place_tensor(struct placing *p, const struct zf_spot *spot, const struct zf_pv *v,
                         struct zf_err *err)
{
    struct zf_torch_tensor t;

    if (!zf_torch_tensor(p->file->torch, v, &t, err))
        return place_leave_out(p, spot, err);
    const bool ok = place_dense(p, spot, &t, err);

    zf_torch_release(p->file->torch, &t);
    return ok;
}

static bool place_value(struct placing *p, const struct zf_spot *spot, enum zf_torch_kind kind,
                        const struct zf_pv *v, struct zf_err *err)
{
    switch (kind) {
    case ZF_TORCH_META:
        (void)zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "saved without data (meta device)");
        return zf_leave_out_at(p->b, p->file->path, *spot, err);
    case ZF_TORCH_PARTS:
        zf_out_cut(&p->name, 0);
        zf_torch_attrs(p->file->torch, v, &p->name);
        if (!zf_composed_note(p->b, p->file->path, zf_out_text(&p->name), err))
            return false;
        p->spot = *spot;
        return zf_torch_parts(p->file->torch, v, place_part, p, err) ||
               place_leave_out(p, spot, err);
    case ZF_TORCH_DTENSOR:
    case ZF_TORCH_SHARDED:
        (void)zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "one rank's piece of a tensor");
        return zf_leave_out_at(p->b, p->file->path, *spot, err);
    case ZF_TORCH_NOT:
        return true;
    default:
        return place_tensor(p, spot, v, err);
    }
}

/* Adds nested parts level by level, without recursion, however deep the file nests them. */
static bool place_later(struct placing *p, const struct zf_spot *outer, struct zf_err *err)
{
    char *set = p->later ? zf_arena_str(p->arena, outer->set, strlen(outer->set), err) : NULL;

    if (p->later && !set)
        return false;
    for (int level = 0; p->later; level++) {
        struct later *l = p->later;
        struct zf_spot spot = {set, l->name, l->name_len};

        p->later = l->next;
        if (level > 1000) {
            return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                           "tensor \"%.120s\" consists of too many tensors", l->name);
        }
        if (!place_value(p, &spot, zf_torch_kind(p->file->torch, l->value), l->value, err))
            return false;
    }
    return true;
}

/* ---- a whole file ---- */

/* The bytes of a value, or of an io.BytesIO; NULL: it has none. */
static const char *place_bytes_of(struct placing *p, const struct zf_pv *v, uint64_t *n)
{
    struct zf_err ignored;
    const char *bytes;

    if (zf_pv_is(v, NULL, "BytesIO"))
        v = zf_pv_item(zf_pv_state(v), 0);
    return zf_pv_bytes(v, p->arena, &bytes, n, &ignored) ? bytes : NULL;
}

/* Adds a value that is not a tensor: only numbers of optimizer entries, and opaque bytes. */
static bool place_plain(struct placing *p, const struct zf_leaf *leaf, struct zf_err *err)
{
    struct zf_spot spot;
    uint64_t n;
    const struct zf_step *last = leaf->path.n ? &leaf->path.step[leaf->path.n - 1] : NULL;
    const char *bytes =
        last && zf_names_extra_state(last->p, last->n) ? place_bytes_of(p, leaf->value, &n) : NULL;

    if (bytes) {
        const char *path = zf_names_blob(p->names, leaf->path, err);
        return path && zf_build_text(p->b, path, bytes, n, err);
    }
    if (p->file->extra || !zf_pv_is_number(leaf->value) || !zf_names_is_entry(p->names, leaf->path))
        return true;
    return zf_place_spot(p->b, p->names, leaf->path, &spot, err) &&
           (!zf_names_is_optim(spot) || zf_number_draft(p->b, spot, leaf->value, err));
}

static bool place_leaf(void *ctx, const struct zf_leaf *leaf, struct zf_err *err)
{
    struct placing *p = ctx;
    const struct zf_place_file *f = p->file;
    bool taken = false;
    struct zf_spot spot;

    if (leaf->kind == ZF_TORCH_NOT)
        return (f->extra && !f->bytes) || place_plain(p, leaf, err);
    if (f->take && !f->take(f->ctx, leaf, &taken, err))
        return false;
    if (taken)
        return true;
    if (f->extra ? !zf_names_extra(p->names, leaf->path, &spot, err)
                 : !zf_place_spot(p->b, p->names, leaf->path, &spot, err))
        return false;
    return place_value(p, &spot, leaf->kind, leaf->value, err) && place_later(p, &spot, err);
}

static bool place_add_name(void *ctx, const struct zf_leaf *leaf, struct zf_err *err)
{
    struct zf_names *names = ctx;

    if (leaf->kind == ZF_TORCH_NOT &&
        (!zf_pv_is_number(leaf->value) || !zf_names_is_entry(names, leaf->path)))
        return true;
    return zf_names_add(names, leaf->path, err);
}

bool zf_place_add_names(struct zf_names *names, const struct zf_place_file *f,
                        const struct zf_limits *lim, struct zf_err *err)
{
    struct zf_visit see = {.fn = place_add_name, .ctx = names};

    if (f->extra)
        return true;
    return zf_torch_visit(f->torch, zf_torch_root(f->torch), f->head, lim, &see, err) &&
           groups_add_names(names, f->torch, f->head, err);
}

bool zf_place_all(struct zf_build *b, struct zf_names *names, const struct zf_place_file *f,
                  const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(lim->model_memory, err);
    struct placing p = {.b = b, .names = names, .file = f, .lim = lim, .arena = arena};
    struct zf_visit place = {.fn = place_leaf, .ctx = &p};

    if (!arena)
        return false;
    p.n_first = zf_torch_n_records(f->torch);
    zf_auto(mem) struct tie *first = calloc(p.n_first ? p.n_first : 1, sizeof *first);
    p.first = first;
    if (!first)
        return zf_fail_sys(err, "allocate memory");
    bool ok = zf_torch_visit(f->torch, zf_torch_root(f->torch), f->head, lim, &place, err) &&
              (f->extra || groups_place(b, names, f->torch, f->head, err));
    zf_auto_out(&p.name);
    zf_table_free(p.ties);
    return ok;
}

bool zf_place_note_unread(struct zf_build *b, const struct zf_place_file *f, struct zf_err *err)
{
    uint64_t n, unread;

    zf_torch_storages(f->torch, &n, &unread);
    return unread == 0 ||
           zf_build_note(b, err, "%s: %llu of its %llu storages belong to no tensor that is shown",
                         f->path, (unsigned long long)unread, (unsigned long long)n);
}
