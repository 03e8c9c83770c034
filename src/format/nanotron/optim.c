/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer: a torch.save file per rank, whose states are sharded like the parameters, and with ZeRO once more. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/names.h>
#include <zf/assemble/take.h>
#include <zf/assemble/torch_place.h>

#include "nanotron.h"

static const char optim_names[] = "optimizer_pp-%p-of-%P[_dp-%d-of-%D]_tp-%t-of-%T_exp-%e-of-%E.pt";
/* Key in "configs" of optimizer_config.json; its value is {name: {data-parallel rank: [start, end]}}. */
static const char optim_offsets[] = "param_name_to_dp_rank_offsets";

/* The file being read. */
struct optim_file {
    struct nanotron *s;
    struct zf_torch *torch;
    const char *path;
    uint32_t tp, dp;
};

/* The range of a tensor-parallel rank's tensor that is in one file: elements [first, end). */
struct optim_range {
    const struct nanotron_part *part;
    uint64_t first, end;
};

/* Sets *out to the whole tensor or, with ZeRO, the range in optimizer_config.json. */
static bool optim_take_range(const struct optim_file *f, const struct nanotron_param *p,
                             struct optim_range *out, struct zf_err *err)
{
    struct zf_taker t = {.arena = f->s->keep.arena};
    char rank[16];

    out->part = &p->part[p->n_parts == 1 ? 0 : f->tp];
    out->first = 0;
    out->end = out->part->elems;
    if (!f->s->config)
        return true;
    (void)snprintf(rank, sizeof rank, "%" PRIu32, f->dp);
    struct zf_take root = zf_take_root(&t, f->s->config), configs = zf_take_key(&root, "configs");
    struct zf_take offset = zf_take_key(&configs, optim_offsets);
    struct zf_take of = zf_take_key(&offset, p->name), own = zf_take_key(&of, rank);
    struct zf_take from = zf_take_item(&own, 0), to = zf_take_item(&own, 1);
    (void)zf_take_list_of(&own, 2);
    out->first = zf_take_decimal(&from);
    out->end = zf_take_decimal(&to);
    (void)zf_take_must(&own, out->first <= out->end && out->end <= out->part->elems,
                       "elements %" PRIu64 " … %" PRIu64 " are not within the %" PRIu64
                       " of the parameter",
                       out->first, out->end, out->part->elems);
    return zf_take_ok(&t, err) || zf_err_in(err, "%s", NANOTRON_CONFIG);
}

/* Adds a state tensor.  If the parameter is not sharded, all tensor-parallel ranks have the same state. */
static bool optim_put_tensor(const struct optim_file *f, const struct nanotron_param *p,
                             const struct optim_range *range, struct zf_spot spot,
                             const struct zf_tensor_ref *x, struct zf_err *err)
{
    const uint64_t place[] = {range->first, range->end};
    const struct zf_piece piece = {.spot = spot,
                                   .type = {x->dtype, p->type.ndim, p->type.shape},
                                   .path = f->path,
                                   .of = p->n_parts < f->s->tp ? x : NULL,
                                   .place = place,
                                   .n_place = 2};
    struct zf_draft *d;

    if (!x->packed || x->n != range->end - range->first) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%s\" of \"%.120s\" has %" PRIu64 " elements, expected %" PRIu64, spot.set,
                       spot.name, x->n, range->end - range->first);
    }
    return zf_pieces_begin(&f->s->pieces, &piece, &d, err) &&
           (!d || x->n == 0 ||
            slices_put(range->part, d, range->first, range->end, x->src, x->off, err));
}

/* Adds a value of a parameter's state: a part of a tensor, or a number. */
static bool optim_take_state(const struct optim_file *f, const struct nanotron_param *p,
                             const struct optim_range *range, const char *key,
                             const struct zf_take *x, struct zf_err *err)
{
    const char *set = zf_path_encoded(f->s->keep.arena, "optim", key, strlen(key), "", err);
    const struct zf_spot spot = zf_spot_of(set, p->name);
    struct zf_tensor_ref ref;
    struct zf_number number;
    unsigned char value[16];

    if (!set || !zf_take_given(x))
        return set != NULL;
    if (zf_number_of(x->v, &number))
        return zf_pieces_number(&f->s->pieces, spot, number.dtype, &number.bits, err);
    if (!zf_take_tensor(x, &f->s->keep, f->torch, &ref))
        return zf_take_ok(x->t, err);
    if (ref.ndim > 0)
        return optim_put_tensor(f, p, range, spot, &ref, err);
    return zf_source_pread(ref.src, value, zf_dtype_info(ref.dtype)->bytes, ref.off, err) &&
           zf_pieces_number(&f->s->pieces, spot, ref.dtype, value, err);
}

/* Finds a parameter by name; the data-parallel wrapper adds the prefix "module.". */
static struct nanotron_param *optim_find(const struct nanotron *s, const char *name)
{
    static const char wrapper[] = "module.";
    struct nanotron_param *p = zf_table_find_str(s->param, name);

    return p || strncmp(name, wrapper, sizeof wrapper - 1) != 0
               ? p
               : zf_table_find_str(s->param, name + sizeof wrapper - 1);
}

static bool optim_take_states(const struct optim_file *f, struct zf_taker *t, struct zf_err *err)
{
    struct zf_take root = zf_take_root(t, zf_torch_root(f->torch));
    struct zf_take state = zf_take_key(&root, "state"), names = zf_take_key(&root, "names");

    (void)zf_take_map(&names);
    for (uint64_t i = 0, n = zf_take_map(&state); i < n; i++) {
        struct zf_take one = zf_take_item(&state, i);
        uint64_t len, id, n_values = zf_take_map(&one);
        bool has_id = zf_pv_u64(zf_pv_key(state.v, i), &id);
        const struct zf_pv *is = has_id ? zf_pv_get_id(names.v, id) : NULL;
        const char *name = zf_pv_kind(is) == ZF_PV_STR ? zf_pv_text(is, &len) : NULL;
        const struct nanotron_param *p = name ? optim_find(f->s, name) : NULL;
        struct optim_range range;

        if (!zf_take_must(&one, name, "\"names\" does not list this parameter") ||
            !zf_take_must(&one, p, "there is no tensor \"%.120s\" below model/", name))
            return zf_take_ok(t, err);
        if (p->part[p->n_parts == 1 ? 0 : f->tp].n == 0)
            continue; /* degraded: the file that says which part this is could not be read */
        if (!optim_take_range(f, p, &range, err))
            return false;
        for (uint64_t k = 0; k < n_values; k++) {
            struct zf_take value = zf_take_item(&one, k);
            const struct zf_pv *key = zf_pv_key(one.v, k);

            if (!zf_take_must(&one, zf_pv_kind(key) == ZF_PV_STR, "a state has no name"))
                return zf_take_ok(t, err);
            if (!optim_take_state(f, p, &range, zf_pv_text(key, &len), &value, err))
                return false;
        }
    }
    return zf_take_ok(t, err);
}

static bool optim_is_groups(void *ctx, const char *key, size_t n)
{
    (void)ctx;
    return n == 12 && memcmp(key, "param_groups", 12) == 0;
}

/* Shows the optimizer's other values, from the first rank. */
static bool optim_show_rest(const struct optim_file *f, struct zf_err *err)
{
    const struct zf_place_file place = {
        .torch = f->torch, .path = f->path, .is_state = optim_is_groups};

    return (!zf_pv_get(zf_torch_root(f->torch), "gradient_accumulator") ||
            zf_build_note_on(f->s->b, ZF_NOTE_LEFT_OUT, f->path, err,
                             "%s: \"gradient_accumulator\" is not shown", f->path)) &&
           zf_state_add(f->s->b, &place, NULL, f->s->o->lim, err);
}

static bool optim_read(void *ctx, uint64_t i, struct zf_err *err)
{
    struct nanotron *s = ctx;
    struct zf_taker t = {.arena = s->keep.arena};
    struct optim_file f = {.s = s, .path = s->path[i]};
    zf_auto(torch) struct zf_torch *torch = zf_torch_ahead_open(&s->ahead, f.path, err);

    if (!torch)
        return false;
    f.torch = torch;
    f.tp = zf_numbered_get(optim_names, &s->optim.file.at[i], 't');
    f.dp = zf_numbered_get(optim_names, &s->optim.file.at[i], 'd');
    return (optim_take_states(&f, &t, err) && (i > 0 || optim_show_rest(&f, err))) ||
           zf_err_in(err, "%s", f.path);
}

/* Reads how ZeRO shards the states.  Without it, each tensor-parallel rank's states are complete. */
static bool optim_read_cuts(struct nanotron *s, struct zf_err *err)
{
    const struct zf_numbered_file *first = s->optim.file.at;
    bool zero = zf_numbered_get(optim_names, first, 'D') != ZF_NO_NUMBER;
    uint32_t tp = zf_numbered_get(optim_names, first, 'T');

    if (zf_numbered_get(optim_names, first, 'E') != 1) {
        return zf_fail(
            err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
            "%s belongs to one of several expert-parallel ranks, which zerofs does not join",
            first->name);
    }
    if (tp != s->tp || (zero && zf_numbered_get(optim_names, first, 'D') != s->dp)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "%s belongs to none of the %" PRIu64 " tensor-parallel and %" PRIu64
                       " data-parallel ranks of %s",
                       first->name, s->tp, s->dp, NANOTRON_META);
    }
    s->config = zero ? nanotron_json(s, NANOTRON_CONFIG, err) : NULL;
    return s->config || !zero;
}

bool optim_draft(struct nanotron *s, struct zf_err *err)
{
    if (!zf_numbered_list(s->st, "optimizer", optim_names, &s->optim, err))
        return false;
    if (s->optim.file.n == 0) {
        return zf_build_note(s->b, err,
                             "the optimizer was not saved: optimizer/ has no file of it");
    }
    if (!zf_numbered_complete(&s->optim, 0, s->optim.file.n, err) && !zf_forgive(s->b, err))
        return false;
    s->path = zf_arena_get(s->keep.arena, s->optim.file.n, sizeof *s->path, err);
    for (size_t i = 0; s->path && i < s->optim.file.n; i++) {
        s->path[i] = zf_arena_fmt(s->keep.arena, err, "optimizer/%s", s->optim.file.at[i].name);
        if (!s->path[i])
            return false;
    }
    return s->path && optim_read_cuts(s, err) &&
           zf_torch_ahead_begin(&s->ahead, s->path, s->optim.file.n, err) &&
           zf_read_each(s->b, s->optim.file.n, optim_read, s, NULL, NULL, err) &&
           zf_pieces_end(&s->pieces, err);
}
