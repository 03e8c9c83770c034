/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/tree_join.h>

#include <stdio.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>

/* A tensor of a tree. */
struct tree_item {
    uint32_t tree;
    const char *set; /* path below the tree's */
    struct zf_draft *draft;
    const char *name;
    size_t name_len;
    const struct zf_draft *tie; /* the draft it is a second name of, or NULL */
};

struct tree_work {
    struct zf_tree_join *j;
    zf_vec(struct tree_item) item;
    struct zf_draft **shard; /* [n_ranks] */
    const uint64_t **shape;  /* [n_ranks] */
    uint64_t *count;         /* [trees] number of tensors to join */
    struct zf_copy_check check;
    struct zf_copy_check alike; /* compares shards that rules cut */
    uint32_t n_alike;           /* weights that rules cut, although all ranks have equal values */
    const struct tree_item *alike_item; /* the first of these */
};

static bool tree_is_extra(const char *set)
{
    return strncmp(set, "extra", 5) == 0 && (set[5] == '\0' || set[5] == '/');
}

/* Names the tensor in a failure. */
static bool tree_name(const struct tree_item *it, struct zf_err *err)
{
    const struct zf_err why = *err;

    (void)zf_fail(err, why.code, why.off, "\"%.200s%s%.*s\": %s", it->set, *it->set ? "/" : "",
                  (int)(it->name_len < 120 ? it->name_len : 120), it->name, why.msg);
    err->limit = why.limit;
    return false;
}

/* ---- the tensors of the trees ---- */

struct tree_root {
    UT_hash_handle hh; /* key: the path */
    uint32_t number;
};

static bool tree_index(const struct zf_tree_join *j, struct tree_root **out, struct zf_err *err)
{
    for (uint32_t i = 0; i < j->n_stages * j->n_ranks; i++) {
        struct tree_root *r = zf_table_make_str(*out, j->tree[i], err);

        if (!r)
            return false;
        r->number = i;
    }
    return true;
}

/* Lists all tensors in the trees. */
static bool tree_list(struct tree_work *w, struct zf_err *err)
{
    struct tree_root *roots = NULL;
    struct zf_spot spot;
    struct zf_draft *d, *tie;
    uint64_t at = 0;
    bool ok = tree_index(w->j, &roots, err);

    while (ok && (d = zf_build_next(w->j->b, "", &at, &spot, &tie)) != NULL) {
        char first[64];
        size_t n = strcspn(spot.set, "/");
        struct tree_item *it;

        if (n >= sizeof first)
            continue;
        memcpy(first, spot.set, n);
        first[n] = '\0';
        const struct tree_root *r = zf_table_find_str(roots, first);
        if (!r)
            continue;
        it = zf_vec_push(&w->item, err);
        ok = it != NULL;
        if (ok) {
            *it = (struct tree_item){.tree = r->number,
                                     .set = spot.set + n + (spot.set[n] == '/'),
                                     .draft = d,
                                     .name = spot.name,
                                     .name_len = spot.name_len,
                                     .tie = tie};
            w->count[it->tree] += !tie && !tree_is_extra(it->set);
        }
    }
    zf_table_free(roots);
    return ok;
}

/* Checks that no rank has tensors which the first rank of its stage lacks. */
static bool tree_check_counts(const struct tree_work *w, struct zf_err *err)
{
    const struct zf_tree_join *j = w->j;

    for (uint32_t i = 0; i < j->n_stages * j->n_ranks; i++) {
        uint32_t first = i / j->n_ranks * j->n_ranks;

        if (w->count[i] != w->count[first]) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "there are %llu tensors in %s, but %llu in %s",
                           (unsigned long long)w->count[i], j->tree[i],
                           (unsigned long long)w->count[first], j->tree[first]);
        }
    }
    return true;
}

/* The tensor of that name in a tree, or NULL. */
static struct zf_draft *tree_find(const struct tree_work *w, uint32_t tree,
                                  const struct tree_item *it)
{
    return zf_build_find_below(w->j->b, w->j->tree[tree],
                               (struct zf_spot){it->set, it->name, it->name_len});
}

/* ---- joining ---- */

/* Collects the item's tensor on all ranks of its stage, and the shapes. */
static bool tree_gather(struct tree_work *w, const struct tree_item *it, struct zf_err *err)
{
    const struct zf_tree_join *j = w->j;
    struct zf_type t = zf_draft_type(it->draft);

    for (uint32_t r = 0; r < j->n_ranks; r++) {
        struct zf_draft *d = r == 0 ? it->draft : tree_find(w, it->tree + r, it);

        if (!d || zf_draft_type(d).ndim != t.ndim || zf_draft_type(d).dtype != t.dtype) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s in %s",
                           d ? "it has another dtype" : "it is missing", j->tree[it->tree + r]);
        }
        w->shard[r] = d;
        w->shape[r] = zf_draft_type(d).shape;
    }
    return true;
}

/* The tensor was joined for an earlier pipeline stage: compares its shards with these. */
static bool tree_compare_stage(struct tree_work *w, const struct tree_item *it, struct zf_err *err)
{
    struct zf_tree_join *j = w->j;
    struct zf_draft *other = NULL;
    uint32_t first = 0;
    bool ok = true, same = true;

    while (first < it->tree && !(other = tree_find(w, first, it)))
        first += j->n_ranks;
    for (uint32_t r = 0; ok && same && other && r < j->n_ranks; r++) {
        other = tree_find(w, first + r, it);
        ok = (!other || zf_cut_same(&w->check, other, w->shard[r], &same, err));
        same = same && other;
    }
    if (!ok || same)
        return ok;
    j->stages_differ = true;
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "several pipeline stages hold it, but in %s it differs from %s",
                   j->tree[it->tree], j->tree[first]);
}

/* Shows one rank's tensor as a tensor of the root. */
static bool tree_copy(struct tree_work *w, const struct tree_item *it, const char *set,
                      struct zf_err *err)
{
    struct zf_type t = zf_draft_type(it->draft);
    struct zf_draft *d =
        zf_build_tensor(w->j->b, (struct zf_spot){set, it->name, it->name_len}, t, err);
    uint64_t zero[64] = {0};

    if (t.ndim > 64) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "it has more than 64 dimensions: %u",
                       t.ndim);
    }
    return d && zf_draft_copy(d, zero, it->draft, zero, t.shape, err);
}

/* A user's rules may cut a tensor that every rank has as a whole: then all shards are equal. */
static bool tree_look_alike(struct tree_work *w, const struct tree_item *it,
                            const struct zf_cut *cut, struct zf_err *err)
{
    bool same = w->j->told && *it->set == '\0' &&
                !zf_shape_equal(cut->ndim, cut->shape, cut->ndim, w->shape[0]);

    for (uint32_t r = 1; same && r < w->j->n_ranks; r++) {
        same = zf_shape_equal(cut->ndim, w->shape[0], cut->ndim, w->shape[r]);
        if (same && !zf_cut_same(&w->alike, w->shard[0], w->shard[r], &same, err))
            return false;
    }
    w->alike_item = w->alike_item || !same ? w->alike_item : it;
    w->n_alike += same;
    return true;
}

static bool tree_note_alike(const struct tree_work *w, struct zf_err *err)
{
    const struct tree_item *it = w->alike_item;

    return !it ||
           zf_build_note(w->j->b, err,
                         "tp_rules join %u tensors that are the same on all tensor-parallel ranks, "
                         "such as \"%.*s\": they may be replicas and not shards",
                         w->n_alike, (int)(it->name_len < 120 ? it->name_len : 120), it->name);
}

static bool tree_join_item(struct tree_work *w, const struct tree_item *it, struct zf_err *err)
{
    struct zf_tree_join *j = w->j;
    struct zf_type t = zf_draft_type(it->draft);
    struct zf_tree_tensor what = {it->set, it->name,   it->name_len, t.dtype,
                                  t.ndim,  j->n_ranks, w->shape};
    struct zf_spot spot = {it->set, it->name, it->name_len};
    struct zf_cut cut;

    if (!tree_gather(w, it, err))
        return false;
    if (zf_build_find(j->b, spot))
        return tree_compare_stage(w, it, err);
    if (j->n_ranks == 1)
        return tree_copy(w, it, it->set, err);
    return j->cut(j->ctx, &what, &cut, err) && zf_cut_prove(&cut, err) &&
           tree_look_alike(w, it, &cut, err) &&
           zf_cut_draft(&cut, j->b, spot, w->shard, &w->check, err);
}

#define TREE_SET 1024

/* The set under extra/ for a rank's tensor that differs from the root's; false: none for this tree. */
static bool tree_extra_set(const struct tree_work *w, const struct tree_item *it,
                           char set[TREE_SET])
{
    int n = snprintf(set, TREE_SET, "extra/%s%s", w->j->tree[it->tree], it->set + strlen("extra"));

    return n > 0 && n < TREE_SET;
}

static bool tree_fail_extra(const struct tree_work *w, const struct tree_item *it,
                            struct zf_err *err)
{
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "in %s it differs from the first rank, and the name of its directory is too "
                   "long for a directory below extra/%s",
                   w->j->tree[it->tree], w->j->tree[it->tree]);
}

static bool tree_join_extra(struct tree_work *w, const struct tree_item *it, struct zf_err *err)
{
    struct zf_draft *root =
        zf_build_find(w->j->b, (struct zf_spot){it->set, it->name, it->name_len});
    char set[TREE_SET];
    bool same = false;

    if (!root)
        return tree_copy(w, it, it->set, err);
    if (!zf_cut_same(&w->check, root, it->draft, &same, err))
        return false;
    return same ||
           (tree_extra_set(w, it, set) ? tree_copy(w, it, set, err) : tree_fail_extra(w, it, err));
}

/* Adds a second name, after all tensors. */
static bool tree_join_tie(struct tree_work *w, const struct tree_item *it, struct zf_err *err)
{
    struct zf_build *b = w->j->b;
    const struct zf_spot of = zf_draft_spot(it->tie);
    struct zf_draft *d = NULL;
    char set[TREE_SET];

    if (tree_is_extra(it->set) && tree_extra_set(w, it, set))
        d = zf_build_find(b, (struct zf_spot){set, of.name, of.name_len});
    if (zf_build_find(b, (struct zf_spot){d ? set : it->set, it->name, it->name_len}))
        return true;
    d = d ? d : zf_build_find(b, (struct zf_spot){it->set, of.name, of.name_len});
    if (!d)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it is tied to a tensor that is missing");
    return zf_build_alias(b, d, it->name, it->name_len, err);
}

static bool tree_join_all(struct tree_work *w, struct zf_err *err)
{
    for (size_t i = 0; i < w->item.n; i++) {
        const struct tree_item *it = &w->item.at[i];
        bool extra = tree_is_extra(it->set);

        if (!it->tie && (extra || it->tree % w->j->n_ranks == 0) &&
            !(extra ? tree_join_extra : tree_join_item)(w, it, err))
            return tree_name(it, err);
    }
    for (size_t i = 0; i < w->item.n; i++) {
        const struct tree_item *it = &w->item.at[i];

        if (it->tie && !tree_join_tie(w, it, err))
            return tree_name(it, err);
    }
    return !w->j->done || w->j->done(w->j->ctx, err);
}

bool zf_tree_join(struct zf_tree_join *j, struct zf_err *err)
{
    struct tree_work w = {.j = j, .check = {.all = zf_build_records_copies(j->b)}};
    bool ok;

    w.shard = calloc(j->n_ranks, sizeof(*w.shard));
    w.shape = calloc(j->n_ranks, sizeof(*w.shape));
    w.count = calloc((size_t)j->n_stages * j->n_ranks, sizeof *w.count);
    ok = (w.shard && w.shape && w.count) ||
         zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for joining ranks");
    ok = ok && tree_list(&w, err) && tree_check_counts(&w, err) && zf_build_mark(j->b, err);
    if (ok) {
        ok = tree_join_all(&w, err);
        ok = ok && zf_copy_check_note(&w.check, j->b, err) && tree_note_alike(&w, err);
        if (ok)
            zf_build_keep(j->b);
        else
            zf_build_undo(j->b);
    }
    zf_copy_check_fini(&w.check);
    zf_copy_check_fini(&w.alike);
    free(w.shard);
    free(w.shape);
    free(w.count);
    zf_vec_fini(&w.item);
    if (ok)
        zf_build_withdraw(j->b, j->tree, j->n_stages * j->n_ranks);
    return ok;
}

bool zf_tree_stay(struct zf_build *b, uint32_t n, const char *why, struct zf_err *err)
{
    return zf_build_note(
        b, err, "the %u model-parallel ranks are shown separately, in mp_rank_NN/: %.500s", n, why);
}

bool zf_tree_join_or_stay(struct zf_tree_join *j, struct zf_err *err)
{
    char why[520];

    if (zf_tree_join(j, err))
        return true;
    /* Nothing was changed yet. */
    if ((err->code != ZF_E_FORMAT && err->code != ZF_E_UNSUPPORTED) ||
        ((j->told || j->stages_differ) && !zf_build_degraded(j->b)))
        return false;
    (void)snprintf(why, sizeof why, "%.510s", err->msg);
    zf_err_clear(err);
    return zf_tree_stay(j->b, j->n_stages * j->n_ranks, why, err);
}
