/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO stage 3: every parameter is cut separately into slots (zf/assemble/flat_vector.h).  Source:
 * deepspeed/runtime/zero/partition_parameters.py, stage3.py, utils/zero_to_fp32.py,
 * 0.6.0 … 0.19.8. */
#include "overlap.h"
#include "vectors.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>
#include <zf/base/num.h>

static bool zero3_lay(struct ds_save *ds, const struct ds_group *g, struct zf_flat_vector *out,
                      struct zf_err *err)
{
    *out = (struct zf_flat_vector){
        .group = g->index, .n_params = g->n, .n_ranks = g->n_ranks, .len = g->len};
    return zf_flat_slots(out, ds->a, err);
}

/* *out: bytes of a swap file of `want` elements, rounded up to a multiple of `unit`. */
static bool zero3_swap_length(uint64_t unit, const struct ds_flat *f, uint64_t want, uint64_t *out)
{
    uint64_t bytes;

    return zf_mul(want, zf_dtype_info(f->dtype)->bytes, &bytes) &&
           zf_mul(bytes / unit + (bytes % unit != 0), unit, out);
}

static bool zero3_has_length(const struct ds_save *ds, const struct ds_flat *f, uint64_t want)
{
    uint64_t a, b;

    if (!f->swapped)
        return f->n == want;
    return (zero3_swap_length(ds->swap_unit[0], f, want, &a) && f->swapped == a) ||
           (zero3_swap_length(ds->swap_unit[1], f, want, &b) && f->swapped == b);
}

/* Refuses a swap file of another length: it is damaged, or of an earlier run. */
static bool zero3_check_swap(const struct ds_save *ds, const struct ds_flat *f, uint64_t want,
                             struct zf_err *err)
{
    uint64_t bytes = 0;

    if (!f->swapped || zero3_has_length(ds, f, want))
        return true;
    if (!zero3_swap_length(ds->swap_unit[0], f, want, &bytes))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a group has more than 2^64 bytes");
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "the swap file has %llu bytes, expected %llu for %llu elements, rounded up to a "
            "multiple of %llu",
            (unsigned long long)f->swapped, (unsigned long long)bytes, (unsigned long long)want,
            (unsigned long long)ds->swap_unit[0]);
    return zf_err_in(err, "%s", f->src->name);
}

/* Checks the swap files of all ranks.  Degraded: the tensor in a wrong one is lost. */
static bool zero3_check_swaps(struct ds_save *ds, const struct ds_vector *v, uint64_t want,
                              struct zf_err *err)
{
    for (uint32_t r = 0; r < v->group->n_ranks; r++) {
        if (zero3_check_swap(ds, v->part[r], want, err))
            continue;
        if (!ds->o->degraded)
            return false;
        struct ds_flat *gone = zf_arena_get(ds->a, 1, sizeof *gone, err);
        struct zf_lost *lost = zf_arena_get(ds->a, 1, sizeof *lost, err);
        if (!gone || !lost)
            return false;
        *lost = (struct zf_lost){
            .file = zf_arena_str(ds->a, v->part[r]->src->name, strlen(v->part[r]->src->name), err),
            .why = "has the wrong length for its vector"};
        *gone = (struct ds_flat){.dtype = v->part[r]->dtype, .lost = lost};
        v->part[r] = gone;
        if (!lost->file || !zf_note_failure(ds->b, ZF_NOTE_OTHER, NULL, err,
                                            "a part of group %u is lost: ", v->group->index))
            return false;
    }
    return true;
}

static bool zero3_check_lengths(const struct ds_save *ds, const struct ds_group *g, uint64_t want,
                                struct zf_err *err)
{
    for (uint32_t r = 0; r < g->n_ranks; r++) {
        const struct ds_flat *f = &g->part[r]->master;

        if (!f->swapped && !f->lost && !zero3_has_length(ds, f, want)) {
            zf_fail(
                err, ZF_E_FORMAT, ZF_OFF_NONE,
                "fp32_flat_groups[%u] has %llu elements, expected %llu for its %u parameters on "
                "%u ranks",
                g->index, (unsigned long long)f->n, (unsigned long long)want, g->n, g->n_ranks);
            return zf_err_in(err, "%s", g->part[r]->path);
        }
    }
    return true;
}

/* Sources of all ranks' partitions, if the slots of all parameters follow one rule: no rank is lost or too
 * short, and no parameter is fused or stored column by column.  Otherwise *out is NULL. */
static bool zero3_stretches(struct ds_save *ds, const struct ds_vector *v, uint64_t want,
                            struct zf_stretches **out, struct zf_err *err)
{
    struct zf_from *from = zf_arena_get(ds->a, v->group->n_ranks, sizeof *from, err);
    uint64_t bytes;

    *out = NULL;
    if (!from || !zf_mul(want, zf_dtype_info(v->dtype)->bytes, &bytes))
        return from != NULL;
    for (uint32_t i = 0; i < v->group->n; i++)
        if (v->group->param[i].whole || v->group->param[i].columns)
            return true;
    for (uint32_t r = 0; r < v->group->n_ranks; r++) {
        const struct ds_flat *f = v->part[r];

        if (!f->src || f->dtype != v->dtype || !zf_within(f->off, bytes, f->src->size))
            return true;
        from[r] = (struct zf_from){.src = f->src, .off = f->off};
    }
    *out = zf_build_stretches(ds->b, from, v->group->n_ranks, bytes, err);
    return *out != NULL;
}

/* Records the padding in the slot of parameter i on rank r, which begins at `at`.  It is after the parameter's elements;
 * DeepSpeed allocates it, but does not initialize it. */
static bool zero3_record_padding(struct zf_build *b, const struct zf_flat_vector *flat, uint32_t i,
                                 uint32_t r, enum zf_dtype dtype, struct zf_from at,
                                 struct zf_err *err)
{
    const uint64_t slot = flat->at[i + 1] - flat->at[i], size = zf_dtype_info(dtype)->bytes;
    struct zf_flat_piece piece;
    const uint64_t used = zf_flat_slot(flat, i, r, &piece) ? piece.n : 0;
    const struct zf_copy pad = {
        .src = {NULL, at.src}, .off = {0, at.off + used * size}, .n = (slot - used) * size};

    return !at.src || pad.n == 0 || zf_build_copy(b, &pad, err);
}

static bool zero3_record_paddings(struct zf_build *b, const struct ds_vector *v,
                                  const struct zf_flat_vector *flat, struct zf_err *err)
{
    for (uint32_t r = 0; zf_build_records_copies(b) && r < flat->n_ranks; r++) {
        const struct ds_flat *f = v->part[r];
        const uint64_t size = zf_dtype_info(f->dtype)->bytes;

        for (uint32_t i = 0; f->src && i < flat->n_params; i++) {
            const struct zf_from at = {.src = f->src, .off = f->off + flat->at[i] * size};

            if (!zero3_record_padding(b, flat, i, r, f->dtype, at, err))
                return false;
        }
    }
    return true;
}

static bool zero3_place_slots(struct ds_save *ds, const struct ds_vector *v,
                              const struct zf_flat_vector *flat, struct zf_err *err)
{
    struct zf_stretches *s;
    struct ds_target to;

    if (!zero3_stretches(ds, v, flat->at[flat->n_params], &s, err))
        return false;
    if (!s)
        return vector_place(ds, v, flat, err);
    for (uint32_t i = 0; i < v->group->n; i++)
        if (!vector_target(ds, v, i, &to, err) ||
            !zf_draft_slots(to.draft, s, flat->at[i], flat->at[i + 1] - flat->at[i], err))
            return false;
    return true;
}

static bool zero3_place(struct ds_save *ds, void *ctx, const struct ds_vector *v,
                        struct zf_err *err)
{
    const struct zf_flat_vector *flat = ctx;
    uint64_t want = flat->at[flat->n_params];
    uint32_t fits = 0, others = 0, other = 0;

    if (!zero3_check_swaps(ds, v, want, err))
        return false;
    for (uint32_t r = 0; r < flat->n_ranks; r++) {
        bool there = !v->part[r]->lost, same = there && zero3_has_length(ds, v->part[r], want);

        fits += same;
        others += there && !same;
        other = there && !same ? r : other;
    }
    if (others == 0)
        return zero3_place_slots(ds, v, flat, err) && zero3_record_paddings(ds->b, v, flat, err);
    return fits > 0 ? vector_refuse_length(v, other, want, fits, err)
                    : zf_build_note_on(ds->b, ZF_NOTE_LEFT_OUT, ds_group_first(v->group)->path, err,
                                       "the optimizer state \"%.*s\" of group %u is left out: it "
                                       "has another length than the weights",
                                       (int)v->key.n, v->key.p, v->group->index);
}

bool ds_zero3_draft(struct ds_rank *mp, struct zf_err *err)
{
    struct zf_flat_vector flat;

    if (mp->model.zenflow) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "ZenFlow saves of ZeRO stage 3 are not supported, because they do not "
                       "record whether matrices are stored transposed");
    }
    for (uint32_t g = 0; g < mp->n_groups; g++) {
        const struct ds_group *group = &mp->group[g];

        if (!zero3_lay(mp->save, group, &flat, err) ||
            !zero3_check_lengths(mp->save, group, flat.at[flat.n_params], err) ||
            !vector_each(mp->save, group, zero3_place, &flat, err))
            return false;
    }
    return true;
}

/* ---- frozen parameters, whose slots are in the model-states files ---- */

static const struct zf_tensor_ref *zero3_find_fragment(const struct ds_model *m, uint32_t hint,
                                                       struct ds_name name)
{
    if (hint < m->n_fragments && ds_name_eq(m->fragment[hint].name, name))
        return &m->fragment[hint].view;
    for (uint32_t i = 0; i < m->n_fragments; i++)
        if (ds_name_eq(m->fragment[i].name, name))
            return &m->fragment[i].view;
    return NULL;
}

/* Drafts the piece of frozen parameter i from m, the model-states file of its rank. */
static bool zero3_join_slice(struct ds_rank *mp, const struct ds_model *m, uint32_t i,
                             struct zf_draft *d, struct zf_flat_piece piece, uint64_t slot,
                             struct zf_err *err)
{
    const struct ds_param *p = &mp->model.frozen.param[i];
    const struct zf_tensor_ref *v = zero3_find_fragment(m, i, p->name);

    if (v && v->src && !ds_dir_same_rank(m->path, v->src->name, err))
        return false;
    if (!v) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "it has no slice of the frozen parameter \"%.*s\", but \"%s\" has one",
                (int)p->name.n, p->name.p, mp->model.path);
        return zf_err_in(err, "%s", m->path);
    }
    if (v->n != slot || !v->packed) {
        zf_fail(err, v->n != slot ? ZF_E_UNSUPPORTED : ZF_E_FORMAT, ZF_OFF_NONE,
                "the slice of frozen parameter \"%.*s\" has %llu elements%s, expected %llu%s",
                (int)p->name.n, p->name.p, (unsigned long long)v->n,
                v->packed ? "" : " and is not contiguous", (unsigned long long)slot,
                v->n != slot ? ": it is quantized or belongs to another save" : "");
        return zf_err_in(err, "%s", m->path);
    }
    if (v->dtype != zf_draft_type(d).dtype) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "the slice of frozen parameter \"%.*s\" has the dtype %s, but %s in \"%s\"",
                (int)p->name.n, p->name.p, zf_dtype_info(v->dtype)->torch,
                zf_dtype_info(zf_draft_type(d).dtype)->torch, mp->model.path);
        return zf_err_in(err, "%s", m->path);
    }
    return zf_draft_flat(d, piece.first, piece.n, (struct zf_from){.src = v->src, .off = v->off},
                         err);
}

static const struct ds_file *zero3_model_file(const struct ds_rank *mp, uint32_t r)
{
    for (uint32_t i = 0; i < mp->n_model_files; i++)
        if (mp->model_file[i].dp == r)
            return &mp->model_file[i];
    return NULL;
}

static const char *zero3_model_name(const struct ds_rank *mp, uint32_t r, char out[DS_FILE_NAME])
{
    struct ds_file f = *mp->model_from;

    f.dp = r;
    return ds_file_name(f, out);
}

static bool zero3_mark_lost(struct ds_rank *mp, struct zf_draft *d, struct zf_flat_piece piece,
                            struct zf_err *err)
{
    const char *why = zero3_model_file(mp, piece.rank) ? "is damaged" : "is missing";
    char name[DS_FILE_NAME], path[1024];

    (void)snprintf(path, sizeof path, "%s/%s", zf_store_name(mp->save->st),
                   zero3_model_name(mp, piece.rank, name));
    return zf_draft_flat(d, piece.first, piece.n,
                         (struct zf_from){.lost = &(struct zf_lost){.file = path, .why = why}},
                         err);
}

/* Checks that no two frozen parameters have the same slice: DeepSpeed makes one for each. */
static bool zero3_check_slices(const struct ds_model *m, struct zf_err *err)
{
    zf_auto(overlap) struct ds_overlap list = {0};

    for (uint32_t i = 0; i < m->n_fragments; i++) {
        const struct zf_tensor_ref *v = &m->fragment[i].view;
        const struct ds_overlap_bytes at = {
            .src = v->src, .off = v->off, .what = {"the slice", 9}, .of = m->fragment[i].name};

        if (!ds_overlap_add(&list, &at, v->dtype, v->packed ? v->n : 0, err))
            return false;
    }
    return ds_overlap_check(&list, err) || zf_err_in(err, "%s", m->path);
}

static bool zero3_record_frozen_padding(struct ds_rank *mp, const struct ds_model *m, uint32_t r,
                                        const struct zf_flat_vector *flat, struct zf_err *err)
{
    for (uint32_t i = 0; zf_build_records_copies(mp->save->b) && i < flat->n_params; i++) {
        const struct zf_tensor_ref *v = zero3_find_fragment(m, i, mp->model.frozen.param[i].name);

        if (v && v->packed && v->n == flat->at[i + 1] - flat->at[i] &&
            !zero3_record_padding(mp->save->b, flat, i, r, v->dtype,
                                  (struct zf_from){.src = v->src, .off = v->off}, err))
            return false;
    }
    return true;
}

/* Drafts the pieces on rank r.  m: its model-states file, or NULL if that is missing or damaged. */
static bool zero3_join_rank(struct ds_rank *mp, const struct ds_model *m, uint32_t r,
                            const struct zf_flat_vector *flat, struct zf_draft *const *draft,
                            struct zf_err *err)
{
    struct zf_flat_piece piece;

    if (m && !zero3_check_slices(m, err))
        return false;
    for (uint32_t i = 0; i < flat->n_params; i++) {
        uint64_t slot = flat->at[i + 1] - flat->at[i];

        if (draft[i] && zf_flat_slot(flat, i, r, &piece) &&
            !(m ? zero3_join_slice(mp, m, i, draft[i], piece, slot, err)
                : zero3_mark_lost(mp, draft[i], piece, err)))
            return false;
    }
    return !m || zero3_record_frozen_padding(mp, m, r, flat, err);
}

/* Starts a tensor for every frozen parameter; *flat: the layout of their slots. */
static struct zf_draft **zero3_start_frozen(struct ds_rank *mp, struct zf_flat_vector *flat,
                                            struct zf_err *err)
{
    const struct ds_shapes *frozen = &mp->model.frozen;
    uint64_t *len = zf_arena_get(mp->save->a, frozen->n, sizeof *len, err);
    struct zf_draft **draft = zf_arena_get(mp->save->a, frozen->n, sizeof(*draft), err);
    uint32_t n_quantized = 0;

    for (uint32_t i = 0; len && draft && i < frozen->n; i++) {
        const struct ds_param *p = &frozen->param[i];
        const struct zf_tensor_ref *v = zero3_find_fragment(&mp->model, i, p->name);

        if (!v) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "the frozen parameter \"%.*s\" has a shape, but no slice in \"%s\"",
                    (int)p->name.n, p->name.p, mp->model.path);
            return NULL;
        }
        len[i] = p->n;
        if (mp->model.quantized && v->dtype == ZF_DT_I8) {
            n_quantized++;
            continue;
        }
        draft[i] = zf_build_tensor(mp->save->b, ds_spot("", p->name),
                                   (struct zf_type){v->dtype, p->ndim, p->shape}, err);
        if (!draft[i])
            return NULL;
    }
    if (n_quantized > 0 &&
        !zf_build_note(mp->save->b, err,
                       "%u frozen parameters are quantized (zero_quantized_nontrainable_weights), "
                       "and DeepSpeed did not save their scales",
                       n_quantized))
        return NULL;
    *flat = (struct zf_flat_vector){.n_params = frozen->n, .n_ranks = mp->n_dp, .len = len};
    return len && draft && zf_flat_slots(flat, mp->save->a, err) ? draft : NULL;
}

/* Reads f, or NULL, unless it was read already.  Degraded: out->read is false if it cannot be read. */
static bool zero3_read_model(struct ds_rank *mp, const struct ds_file *f, struct ds_model *out,
                             struct zf_err *err)
{
    if (!f || f < mp->model_from) {
        out->read = false;
        return true;
    }
    if (f == mp->model_from)
        return true;
    return ds_model_read(mp->save, f, out, err) ? ds_agree_check(mp->save, true, err)
                                                : rank_skip_model(mp->save, out, err);
}

bool ds_zero3_frozen(struct ds_rank *mp, struct zf_err *err)
{
    const uint32_t n = mp->model.frozen.n;
    struct zf_flat_vector flat;
    struct zf_draft **draft;

    if (n == 0)
        return rank_agree_models(mp, err);
    if (!ds_files_expect(mp->save, mp->model_file + 1, mp->n_model_files - 1, mp->n_dp, err))
        return false;
    draft = zero3_start_frozen(mp, &flat, err);
    for (uint32_t r = 0; draft && r < mp->n_dp; r++) {
        const struct ds_file *f = zero3_model_file(mp, r);
        struct ds_model m = mp->model;

        if (!f && !zf_build_degraded(mp->save->b)) {
            char name[DS_FILE_NAME], is[ZF_ABSENT_MAX];

            (void)zero3_model_name(mp, r, name);
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "%s %s; slices of %u frozen parameters are in it", name,
                           zf_absent(mp->save->st, name, is), n);
        }
        if (!zero3_read_model(mp, f, &m, err) ||
            !zero3_join_rank(mp, m.read ? &m : NULL, r, &flat, draft, err))
            return false;
    }
    return draft != NULL;
}

/* ---- weights that were gathered into a file next to the tag ---- */

/* Lists the comparisons of a group's parameters with their gathered weights. */
static bool zero3_list_gathered(struct ds_rank *mp, const struct ds_group *group,
                                const struct ds_model *m, uint32_t every, struct zf_roundings *out,
                                struct zf_err *err)
{
    struct zf_flat_vector flat;

    if (!zero3_lay(mp->save, group, &flat, err))
        return false;
    for (uint32_t i = 0; i < group->n; i++) {
        const struct ds_entry *e = ds_model_find(m, group->param[i].name);

        if (e && e->view.packed && e->view.src && !group->param[i].whole &&
            !vector_list(&(struct vector_weight){group, &flat, i, &e->view, 0}, group->len[i],
                         every, out, err))
            return false;
    }
    return true;
}

bool ds_zero3_rounds(struct ds_rank *mp, const struct ds_model *m, struct ds_name *bad,
                     struct zf_err *err)
{
    zf_auto(roundings) struct zf_roundings list = {0};
    const struct zf_rounding *first;
    uint64_t params = 0, elements = 0;
    struct zf_mismatch miss;

    for (uint32_t i = 0; i < m->n_entries; i++) {
        params += m->entry[i].tensor;
        elements += m->entry[i].view.n < UINT32_MAX ? m->entry[i].view.n : UINT32_MAX;
    }
    const struct zf_sample sample = zf_sample_of(elements, params * mp->n_dp);
    for (uint32_t g = 0; g < mp->n_groups && mp->group[g].n_ranks > 0; g++)
        if (!zero3_list_gathered(mp, &mp->group[g], m, sample.every, &list, err))
            return false;
    if (!zf_roundings_check(&list,
                            (struct zf_rounding_opts){sample, zf_store_ahead(mp->save->st), false},
                            &first, &miss, err))
        return false;
    *bad = first ? ((const struct ds_param *)first->what)->name : (struct ds_name){NULL, 0};
    return true;
}
