/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer of a "local" save: optim/rank3.pt is the state dict of that rank's torch optimizer, in which
 * a parameter's moments have the same elements as its part in the rank's flat parameter. */
#include "local_lay.h"

#include <inttypes.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/values.h>
#include <zf/base/hash.h>

/* One key of a parameter's state: either each rank has a part of a tensor, or all have the same
 * number. */
struct optim_state {
    UT_hash_handle hh; /* hash of key and parameter */
    struct zf_draft *draft;
    const char *key, *path;      /* path: the first file that has it */
    uint32_t param;              /* index in olmo_local.where */
    struct zf_tensor_ref first;  /* the number, or the first part */
    double number;               /* the number if it is not a tensor; then first.n is 0 */
    bool shared;                 /* all ranks have the same number */
    struct zf_tensor_ref **part; /* [n_shards] the parts read, or NULL; unless shared */
};

/* An optimizer's integer id. */
struct optim_id {
    UT_hash_handle hh;
    uint32_t param;
};

struct optim_reading {
    struct olmo_local *l;
    struct zf_ranks ranks;
    struct optim_state *state;
    struct zf_copy_check copies;
    const char **why; /* [ranks.n] why a file could not be read */
    uint32_t n_read;
    /* of the file being read */
    struct zf_torch *t;
    const char *path;
    uint32_t rank;
    struct optim_id *id;
    struct olmo_part_of_rank {
        bool in;
        struct zf_flat_piece p;
    } here; /* the rank's part of the current parameter */
};

/* Degraded: notes the failure of a rank's file, which is then treated as missing; *why_out: its message, in the
 * arena. */
static bool optim_forgive(const struct optim_reading *r, const char **why_out, struct zf_err *err)
{
    *why_out =
        zf_arena_str(r->l->save->a, err->msg, strlen(err->msg), &(struct zf_err){.code = ZF_OK});
    return *why_out && zf_forgive(r->l->save->b, err);
}

/* ---- ids ---- */

static bool optim_find_param(const struct optim_reading *r, const char *p, uint64_t n,
                             uint32_t *out, struct zf_err *err)
{
    const char *name = save_clean_name(r->l->save->a, p, n, err);
    const struct local_name *known = name ? zf_table_find(r->l->by_name, name, strlen(name)) : NULL;

    if (!name)
        return false;
    if (!known) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the optimizer has a parameter \"%.120s\", which is in no flat parameter",
                       name);
    }
    *out = known->number;
    return true;
}

static bool optim_read_group(struct optim_reading *r, const struct zf_pv *group, uint64_t g,
                             struct zf_err *err)
{
    const struct zf_pv *ids = zf_pv_get(group, "params"), *names = zf_pv_get(group, "param_names");
    uint64_t n = zf_pv_len(ids), id, len;

    if (!zf_pv_is_seq(ids) || !zf_pv_is_seq(names) || zf_pv_len(names) != n) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "param_groups[%" PRIu64 "] has %" PRIu64 " parameters and %" PRIu64
                       " \"param_names\"",
                       g, n, zf_pv_len(names));
    }
    for (uint64_t i = 0; i < n; i++) {
        const struct zf_pv *name = zf_pv_item(names, i);
        const char *text = zf_pv_kind(name) == ZF_PV_STR ? zf_pv_text(name, &len) : NULL;

        if (!text || !zf_pv_u64(zf_pv_item(ids, i), &id)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "parameter %" PRIu64 " of param_groups[%" PRIu64 "] has no name or id",
                           i, g);
        }
        struct optim_id *e = zf_table_make_id(r->id, id, err);
        if (!e || !optim_find_param(r, text, len, &e->param, err))
            return false;
    }
    return true;
}

static bool optim_read_groups(struct optim_reading *r, struct zf_err *err)
{
    const struct zf_pv *groups = zf_pv_get(zf_torch_root(r->t), "param_groups");
    uint64_t n = zf_pv_len(groups);
    const struct zf_pv **group = zf_arena_get(r->l->save->a, n, sizeof *group, err);

    zf_table_free(r->id);
    if (!zf_pv_is_seq(groups))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "there is no list \"param_groups\"");
    for (uint64_t g = 0; group && g < n; g++) {
        group[g] = zf_pv_item(groups, g);
        if (!optim_read_group(r, group[g], g, err))
            return false;
    }
    return group && (zf_build_has_file(r->l->save->b, "state/optim.json") ||
                     save_groups_json(r->l->save, group, n, err));
}

/* ---- states ---- */

static const struct olmo_param *optim_param(const struct optim_reading *r, uint32_t i)
{
    struct olmo_where at = r->l->where[i];

    return &r->l->first.flat[at.flat].param[at.param];
}

static bool optim_draft(struct optim_reading *r, struct optim_state *s, enum zf_dtype dtype,
                        struct zf_err *err)
{
    const struct olmo_param *p = optim_param(r, s->param);
    struct zf_type type = {.dtype = dtype};
    const char *set = zf_path_encoded(r->l->save->a, "optim", s->key, strlen(s->key), "", err);

    if (!s->shared) {
        type.ndim = p->ndim;
        type.shape = p->shape;
    }
    s->draft = set ? zf_build_tensor(r->l->save->b, zf_spot_of(set, p->name), type, err) : NULL;
    return s->draft && zf_draft_where(s->draft, r->path, err);
}

static bool optim_differs(const struct optim_reading *r, const struct optim_state *s,
                          struct zf_err *err)
{
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "\"%.40s\" of \"%.100s\" differs from that in %.80s: two saves are mixed",
                   s->key, optim_param(r, s->param)->name, s->path);
}

/* The most numbers that are compared, whatever the number of ranks. */
enum { OPTIM_COMPARED = 1 << 12 };

static bool optim_is_compared(const struct optim_reading *r, const struct optim_state *s)
{
    uint64_t all = r->l->first.n_params * r->ranks.n, every = all / OPTIM_COMPARED + 1;

    return ((uint64_t)s->param + r->rank) % every == 0;
}

/* Adds a number that all ranks have, given as a tensor without dimensions. */
static bool optim_add_shared(struct optim_reading *r, struct optim_state *s, bool new,
                             const struct zf_tensor_ref *x, struct zf_err *err)
{
    bool same = true;

    if (new) {
        s->first = *x;
        s->shared = true;
        s->shared =
            optim_draft(r, s, x->dtype, err) &&
            zf_draft_flat(s->draft, 0, 1, (struct zf_from){.src = x->src, .off = x->off}, err);
        s->draft = s->shared ? s->draft : NULL;
        return s->shared;
    }
    if (!s->shared || s->first.n == 0)
        return optim_differs(r, s, err);
    return !optim_is_compared(r, s) || (zf_copy_check_equal(&r->copies, &s->first, x, &same, err) &&
                                        (same || optim_differs(r, s, err)));
}

/* Does the same for a Python number. */
static bool optim_add_number(struct optim_reading *r, struct optim_state *s, bool new,
                             const struct zf_pv *v, struct zf_err *err)
{
    struct zf_build *b = r->l->save->b;
    int64_t i = 0;
    double f = 0;
    bool whole = zf_pv_int(v, &i);

    if (!whole && !zf_pv_float(v, &f)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.40s\" of \"%.100s\" is neither a tensor nor a number", s->key,
                       optim_param(r, s->param)->name);
    }
    f = whole ? (double)i : f;
    if (!new)
        return (s->shared && s->first.n == 0 && s->number == f) || optim_differs(r, s, err);
    s->number = f;
    s->first.n = 0;
    const char *set = zf_path_encoded(r->l->save->a, "optim", s->key, strlen(s->key), "", err);
    s->shared = set && zf_build_scalar(b, zf_spot_of(set, optim_param(r, s->param)->name),
                                       whole ? ZF_DT_I64 : ZF_DT_F64, whole ? (void *)&i : &f, err);
    return s->shared;
}

/* True for a vector or, if the parameter is not sharded (NO_SHARD), for its shape. */
static bool optim_has_shape(const struct olmo_param *p, const struct zf_tensor_ref *x)
{
    return x->ndim == 1 || zf_shape_equal(x->ndim, x->shape, p->ndim, p->shape);
}

static bool optim_check_part(const struct optim_reading *r, const struct optim_state *s,
                             const struct zf_tensor_ref *x, struct zf_err *err)
{
    uint64_t want = r->here.in ? r->here.p.n : 0;

    if (optim_has_shape(optim_param(r, s->param), x) && x->packed && x->n == want)
        return true;
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "\"%.40s\" of \"%.100s\" has %" PRIu64 " elements in %" PRIu32
                   " dimensions, but this rank has %" PRIu64 " of the parameter",
                   s->key, optim_param(r, s->param)->name, x->n, x->ndim, want);
}

static bool optim_add_part(struct optim_reading *r, struct optim_state *s, bool new,
                           const struct zf_tensor_ref *x, struct zf_err *err)
{
    struct olmo_local *l = r->l;
    uint32_t shard = r->rank % l->n_shards;
    bool same = true;

    if (!optim_check_part(r, s, x, err))
        return false;
    if (new) {
        s->first = *x;
        s->part = zf_arena_get(l->save->a, l->n_shards, sizeof *s->part, err);
        if (!s->part || !optim_draft(r, s, x->dtype, err))
            return false;
    }
    if (s->shared || s->first.dtype != x->dtype)
        return optim_differs(r, s, err);
    if (s->part[shard]) {
        return zf_copy_check_equal(&r->copies, s->part[shard], x, &same, err) &&
               (same || optim_differs(r, s, err));
    }
    s->part[shard] = zf_arena_get(l->save->a, 1, sizeof *x, err);
    if (!s->part[shard])
        return false;
    *s->part[shard] = *x;
    return x->n == 0 || zf_draft_flat(s->draft, r->here.p.first, x->n,
                                      (struct zf_from){.src = x->src, .off = x->off}, err);
}

static bool optim_add(struct optim_reading *r, uint32_t param, const struct zf_pv *key,
                      const struct zf_pv *v, struct zf_err *err)
{
    struct zf_tensor_ref x;
    uint64_t n;
    const char *text = zf_pv_kind(key) == ZF_PV_STR ? zf_pv_text(key, &n) : NULL;

    if (!text || zf_pv_kind(v) == ZF_PV_NONE)
        return true;
    struct optim_state *s = zf_table_make_id(r->state, zf_hash(param, text, (size_t)n), err);
    if (!s)
        return false;
    /* an entry without data, left by a file that failed, counts as new */
    bool new = !s->draft && !s->shared;
    if (new) {
        s->key = zf_arena_str(r->l->save->a, text, n, err);
        s->path = r->path;
        s->param = param;
    }
    if (!s->key)
        return false;
    if (zf_torch_kind(r->t, v) == ZF_TORCH_NOT)
        return optim_add_number(r, s, new, v, err);
    if (!zf_tensor_ref_read(&r->l->save->keep, r->t, v, &x, err))
        return zf_err_in(err, "%s!%s", optim_param(r, param)->name, s->key);
    return x.ndim == 0 ? optim_add_shared(r, s, new, &x, err) : optim_add_part(r, s, new, &x, err);
}

/* ---- files ---- */

static bool optim_param_of(const struct optim_reading *r, const struct zf_pv *key, uint32_t *out,
                           struct zf_err *err)
{
    uint64_t id, n;
    const char *text = zf_pv_kind(key) == ZF_PV_STR ? zf_pv_text(key, &n) : NULL;

    if (text)
        return optim_find_param(r, text, n, out, err);
    const struct optim_id *e = zf_pv_u64(key, &id) ? zf_table_find_id(r->id, id) : NULL;
    if (!e) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "there is a state of a parameter that is in no group of \"param_groups\"");
    }
    *out = e->param;
    return true;
}

static bool optim_read_file(struct optim_reading *r, struct zf_err *err)
{
    const struct zf_pv *state = zf_pv_get(zf_torch_root(r->t), "state");
    uint32_t param;

    if (!zf_pv_is_map(state)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "there is no dict \"state\", which torch's optimizers have");
    }
    if (!optim_read_groups(r, err))
        return false;
    for (uint64_t i = 0; i < zf_pv_len(state); i++) {
        const struct zf_pv *entry = zf_pv_val(state, i);

        if (!optim_param_of(r, zf_pv_key(state, i), &param, err))
            return false;
        r->here.in = local_part(r->l, r->l->where[param], r->rank % r->l->n_shards, &r->here.p);
        for (uint64_t k = 0; k < zf_pv_len(entry); k++)
            if (!optim_add(r, param, zf_pv_key(entry, k), zf_pv_val(entry, k), err))
                return false;
    }
    r->n_read++;
    return true;
}

static bool optim_read_rank(struct optim_reading *r, uint32_t rank, struct zf_err *err)
{
    r->path = r->ranks.path[rank];
    r->rank = rank;
    zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&r->l->save->files, r->path, err);
    r->t = t;
    return t && (optim_read_file(r, err) || zf_err_in(err, "%s", r->path));
}

/* Checks that all parts of a state were found; parts in files that could not be read are lost. */
static bool optim_check_state(struct optim_reading *r, struct optim_state *s, struct zf_err *err)
{
    struct olmo_where at = r->l->where[s->param];
    const struct zf_flat_vector *v = &r->l->vector[at.flat];

    for (uint64_t n = 0; s->draft && !s->shared && n < v->len[at.param];) {
        struct zf_flat_piece p = zf_flat_piece(v, at.param, n);
        const char *why = r->why[p.rank], *path = r->ranks.path[p.rank];

        n += p.n;
        if (s->part[p.rank])
            continue;
        if (!why) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "it does not hold \"%.40s\" of \"%.100s\", of which its rank has %" PRIu64
                    " elements; %.60s has the others",
                    s->key, optim_param(r, s->param)->name, p.n, s->path);
            (void)zf_err_in(err, "%s", path);
            if (!optim_forgive(r, &why, err))
                return false;
        }
        if (!zf_draft_flat(s->draft, p.first, p.n,
                           (struct zf_from){.lost = &(struct zf_lost){.file = path, .why = why}},
                           err))
            return false;
    }
    return true;
}

/* Why a parameter's state is lost, if all files with a part of it could not be read (*rank: the first
 * of them); else NULL. */
static const char *optim_only_lost(const struct optim_reading *r, uint32_t param, uint32_t *rank)
{
    struct olmo_where at = r->l->where[param];
    const struct zf_flat_vector *v = &r->l->vector[at.flat];
    const char *why = NULL;

    for (uint64_t n = 0; n < v->len[at.param];) {
        struct zf_flat_piece p = zf_flat_piece(v, at.param, n);

        if (!r->why[p.rank])
            return NULL;
        *rank = why ? *rank : p.rank;
        why = why ? why : r->why[p.rank];
        n += p.n;
    }
    return why;
}

/* Parameters that are only in lost files lose even the names of their states: adds as missing
 * those that other parameters have. */
static bool optim_add_lost(struct optim_reading *r, const struct optim_state *like,
                           struct zf_err *err)
{
    const char *set =
        zf_path_encoded(r->l->save->a, "optim", like->key, strlen(like->key), "", err);

    for (uint32_t i = 0; set && i < r->l->first.n_params; i++) {
        uint32_t rank = 0;
        const char *why = optim_only_lost(r, i, &rank);
        uint64_t hash = zf_hash(i, like->key, strlen(like->key));

        if (!why || zf_table_find_id(r->state, hash))
            continue;
        const struct zf_lost how = {.file = r->ranks.path[rank], .why = why};
        const char *name = zf_arena_fmt(r->l->save->a, err, "%s/%s", set, optim_param(r, i)->name);
        if (!name || !zf_build_missing(r->l->save->b, name, strlen(name), &how, err))
            return false;
    }
    return set != NULL;
}

struct optim_done {
    UT_hash_handle hh;
};

/* Calls optim_add_lost once per key. */
static bool optim_add_all_lost(struct optim_reading *r, struct zf_err *err)
{
    struct optim_done *done = NULL;
    bool ok = true;

    for (const struct optim_state *s = r->state; ok && s; s = s->hh.next) {
        if (!s->draft || zf_table_find_str(done, s->key))
            continue;
        ok = zf_table_make_str(done, s->key, err) && optim_add_lost(r, s, err);
    }
    zf_table_free(done);
    return ok;
}

static bool optim_read_all(struct optim_reading *r, struct zf_err *err)
{
    struct zf_torch_ahead *files = &r->l->save->files;

    r->why = zf_arena_get(r->l->save->a, r->ranks.n, sizeof *r->why, err);
    if (!r->why || !zf_torch_ahead_begin(files, r->ranks.path, r->ranks.n, err))
        return false;
    for (uint32_t i = 0; i < r->ranks.n; i++)
        if (!optim_read_rank(r, i, err) && !optim_forgive(r, &r->why[i], err))
            return false;
    for (struct optim_state *s = r->state; s; s = s->hh.next)
        if (!optim_check_state(r, s, err))
            return false;
    return r->n_read == r->ranks.n || optim_add_all_lost(r, err);
}

bool local_optim_draft(struct olmo_local *l, struct zf_err *err)
{
    struct optim_reading r = {.l = l, .copies = {.all = zf_build_records_copies(l->save->b)}};

    if (!zf_ranks_list(l->save->st, l->save->a, "optim", "rank%r.pt", l->model.n, &r.ranks, err))
        return false;
    if (r.ranks.n_here == 0)
        return zf_build_note(l->save->b, err, "the optimizer was not saved: there is no optim/");
    if (r.ranks.n > l->model.n) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "there is %s, but only %" PRIu32 " ranks have files in model/",
                       r.ranks.path[r.ranks.n - 1], l->model.n);
    }
    bool ok = (zf_build_degraded(l->save->b) || zf_ranks_complete(&r.ranks, err)) &&
              optim_read_all(&r, err) && zf_copy_check_note(&r.copies, l->save->b, err);
    zf_copy_check_fini(&r.copies);
    zf_table_free(r.state);
    zf_table_free(r.id);
    return ok;
}
