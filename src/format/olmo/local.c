/* SPDX-License-Identifier: Apache-2.0 */
/* OLMo's "local" layout: model/, optim/ and train/ with a torch.save file per rank, which contains the rank's
 * shards of FSDP1's flat parameters.  docs/formats/olmo.md describes the files. */
#include "layouts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/values.h>

#include "local_lay.h"
#include "train.h"

static const char local_files[] = "rank%r.pt";

/* ---- recognizing a save ---- */

/* True if the beginning of the file, with the start of the pickle, has the keys that OLMo writes.  torch
 * writes data.pkl first and never compresses it. */
static bool local_head_fits(struct zf_source *src)
{
    char head[2048];
    struct zf_err ignored;
    size_t n = src->size < sizeof head ? (size_t)src->size : sizeof head;

    return zf_torch_sniff(src) && zf_source_pread(src, head, n, 0, &ignored) &&
           memmem(head, n, "modules", 7) &&
           (memmem(head, n, "handles", 7) || memmem(head, n, "flat_param.", 11));
}

static bool local_dir_fits(struct zf_store *st, const char *dir)
{
    struct zf_numbered_file f;
    struct zf_err ignored;
    char path[300];

    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++) {
        if (l.e->kind != ZF_ENTRY_FILE || !zf_numbered_fits(local_files, l.e->name, &f))
            continue;
        (void)snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", l.e->name);
        zf_auto(source) struct zf_source *src = zf_store_open(st, path, &ignored);
        if (src && local_head_fits(src))
            return true;
    }
    return false;
}

const char *local_find(const struct zf_save *save, const struct zf_open_opts *o)
{
    (void)o;
    return save->file                             ? NULL
           : local_dir_fits(save->store, "model") ? "model"
           : local_dir_fits(save->store, "")      ? ""
                                                  : NULL;
}

/* True if the groups name parameters in the way of FSDP1. */
static bool local_has_wrapped(const struct zf_pv *groups)
{
    const struct zf_pv *names =
        zf_pv_get(zf_pv_is_seq(groups) ? zf_pv_item(groups, 0) : NULL, "param_names");
    const struct zf_pv *name = zf_pv_is_seq(names) ? zf_pv_item(names, 0) : NULL;
    uint64_t n = 0;
    const char *text = zf_pv_kind(name) == ZF_PV_STR ? zf_pv_text(name, &n) : NULL;

    return text && memmem(text, (size_t)n, "_fsdp_wrapped_module.", 21);
}

const char *local_find_optim(const struct zf_save *save, const struct zf_open_opts *o)
{
    struct zf_numbered_file f;
    struct zf_err ignored;

    for (struct zf_entries l = zf_store_entries(save->store, ""); !save->file && l.e < l.end;
         l.e++) {
        if (l.e->kind != ZF_ENTRY_FILE || !zf_numbered_fits(local_files, l.e->name, &f))
            continue;
        zf_auto(source) struct zf_source *src = zf_store_open(save->store, l.e->name, &ignored);
        zf_auto(torch) struct zf_torch *t =
            src && zf_torch_sniff(src) ? zf_torch_open(src, o->lim, &ignored) : NULL;
        return t && zf_pv_is_map(zf_pv_get(zf_torch_root(t), "state")) &&
                       local_has_wrapped(zf_pv_get(zf_torch_root(t), "param_groups"))
                   ? ""
                   : NULL;
    }
    return NULL;
}

bool local_refuse_optim(void *ctx, const char *where, struct zf_err *err)
{
    (void)ctx;
    (void)where;
    return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "these are the moments of FSDP's flat parameters; only model/ records which "
                   "part of them each rank holds. Point at the directory above");
}

/* ---- the ranks' files ---- */

/* Where a shard of the flat parameters is: with replicas, in the first file that can be read. */
struct local_shard {
    const char *path, *why;     /* the file; why it could not be read */
    struct zf_tensor_ref *data; /* [first.n], or NULL */
};

struct local_reading {
    struct olmo_local *l;
    struct local_shard *shard; /* [n_shards] */
    struct zf_copy_check copies;
};

/* Checks that the parts a file describes are those of its rank. */
static bool local_check_parts(const struct olmo_local *l, const struct olmo_flats *f,
                              uint32_t shard, struct zf_err *err)
{
    for (uint64_t i = 0; i < l->first.n_params; i++) {
        const struct olmo_param *p = &f->flat[l->where[i].flat].param[l->where[i].param];
        struct zf_flat_piece want = {0};
        bool in = local_part(l, l->where[i], shard, &want);

        if (in != p->part.in ||
            (in && (want.at != p->part.at || want.first != p->part.first || want.n != p->part.n))) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "by its metadata this file has %" PRIu64
                           " elements of \"%.80s\" from element %" PRIu64 " on, at %" PRIu64
                           ", but shard %" PRIu32 " of %" PRIu32 " has %" PRIu64
                           " from element %" PRIu64 " on, at %" PRIu64
                           ": it belongs to another rank or save",
                           p->part.n, p->name, p->part.first, p->part.at, shard, l->n_shards,
                           want.n, want.first, want.at);
        }
    }
    return true;
}

/* Replaces the pointers of a vector's reference into its file's arena, so that it outlives that. */
static void local_detach(struct zf_tensor_ref *data)
{
    static const uint64_t one = 1;

    data->key = "";
    data->shape = &data->n;
    data->stride = &one;
}

static bool local_check_copy(struct local_reading *r, const struct olmo_flats *f,
                             const struct local_shard *s, struct zf_err *err)
{
    bool same = true;

    for (uint32_t i = 0; i < f->n && same; i++) {
        struct zf_tensor_ref copy = f->flat[i].data;

        local_detach(&copy);
        if (!zf_copy_check_equal(&r->copies, &s->data[i], &copy, &same, err))
            return false;
        if (!same) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the shard of the flat parameter of \"%.80s\" should be a copy of the "
                           "one in %.60s, but differs from it",
                           f->flat[i].n ? f->flat[i].param[0].name : "", s->path);
        }
    }
    return true;
}

/* Records the padding of a shard: FSDP aligns each parameter to 16 bytes, and pads the whole vector to a multiple
 * of the ranks. */
static bool local_record_padding(struct zf_build *b, const struct olmo_flat *f, struct zf_err *err)
{
    const uint64_t each = zf_dtype_info(f->data.dtype)->bytes;
    uint64_t end = 0;

    for (uint32_t i = 0; i <= f->n; i++) {
        const struct olmo_part last = {.in = true, .at = f->data.n};
        const struct olmo_part *p = i < f->n ? &f->param[i].part : &last;

        if (p->in && p->at > end &&
            !zf_build_padding(b, f->data.src, f->data.off + end * each, (p->at - end) * each, err))
            return false;
        end = p->in ? p->at + p->n : end;
    }
    return true;
}

static bool local_keep_data(struct local_reading *r, const struct olmo_flats *f, uint64_t rank,
                            struct zf_err *err)
{
    struct olmo_local *l = r->l;
    struct local_shard *s = &r->shard[rank % l->n_shards];

    if (s->data)
        return local_check_copy(r, f, s, err);
    s->path = l->model.path[rank];
    s->data = zf_arena_get(l->save->a, f->n, sizeof *s->data, err);
    for (uint32_t i = 0; s->data && i < f->n; i++) {
        s->data[i] = f->flat[i].data;
        local_detach(&s->data[i]);
        if (!local_record_padding(l->save->b, &f->flat[i], err))
            return false;
    }
    return s->data != NULL;
}

/* Reads one file; except for the first file, the parts of parameters that it lists are not kept. */
static bool local_read_rank(void *ctx, uint64_t rank, struct zf_err *err)
{
    struct local_reading *r = ctx;
    struct olmo_local *l = r->l;
    const char *path = l->model.path[rank];
    zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&l->save->files, path, err);
    zf_auto(arena) struct zf_arena *a = zf_arena_new(l->save->o->lim->model_memory, err);
    struct zf_keeper *keep = &l->save->keep;
    struct olmo_flats f;

    if (!t || !a)
        return false;
    if (!l->first_path) {
        l->first_path = path;
        if (!flat_params_read(keep, t, &l->first, err)) {
            l->first_path = NULL;
            return zf_err_in(err, "%s", path);
        }
        if (!local_lay(l, err))
            return false;
        r->shard = zf_arena_get(l->save->a, l->n_shards, sizeof *r->shard, err);
        f = l->first;
    } else {
        zf_keeper_into(keep, a);
        bool read = flat_params_read(keep, t, &f, err);
        zf_keeper_into(keep, l->save->a);
        if (!read)
            return zf_err_in(err, "%s", path);
    }
    return r->shard && ((flat_params_agree(&f, &l->first, l->first_path, err) &&
                         local_check_parts(l, &f, (uint32_t)(rank % l->n_shards), err) &&
                         local_keep_data(r, &f, rank, err)) ||
                        zf_err_in(err, "%s", path));
}

/* ---- drafting ---- */

static bool local_draft_part(const struct local_reading *r, struct zf_draft *d,
                             struct olmo_where at, uint32_t shard, struct zf_err *err)
{
    const struct local_shard *s = &r->shard[shard];
    struct zf_flat_piece p;

    if (!local_part(r->l, at, shard, &p))
        return true;
    if (!s->data) {
        return zf_draft_flat(
            d, p.first, p.n,
            (struct zf_from){.lost =
                                 &(struct zf_lost){.file = r->l->model.path[shard], .why = s->why}},
            err);
    }
    const struct zf_tensor_ref *data = &s->data[at.flat];
    uint64_t each = zf_dtype_info(data->dtype)->bytes;
    return zf_draft_flat(d, p.first, p.n,
                         (struct zf_from){.src = data->src, .off = data->off + p.at * each}, err);
}

static bool local_draft(const struct local_reading *r, struct zf_err *err)
{
    const struct olmo_local *l = r->l;

    for (uint64_t i = 0; i < l->first.n_params; i++) {
        struct olmo_where at = l->where[i];
        const struct olmo_flat *f = &l->first.flat[at.flat];
        const struct olmo_param *p = &f->param[at.param];
        struct zf_type type = {f->data.dtype, p->ndim, p->shape};
        struct zf_draft *d = zf_build_tensor(l->save->b, zf_spot_of("", p->name), type, err);
        uint64_t n = 0;

        if (!d || !zf_draft_where(d, l->first_path, err))
            return false;
        while (n < p->len) {
            struct zf_flat_piece next = zf_flat_piece(&l->vector[at.flat], at.param, n);

            if (!local_draft_part(r, d, at, next.rank, err))
                return false;
            n += next.n;
        }
    }
    return true;
}

/* ---- the save ---- */

static bool local_read_all(struct local_reading *r, struct zf_err *err)
{
    struct olmo_local *l = r->l;
    const char **why = zf_arena_get(l->save->a, l->model.n, sizeof *why, err);

    if (!why || !zf_torch_ahead_begin(&l->save->files, l->model.path, l->model.n, err) ||
        !zf_read_each(l->save->b, l->model.n, local_read_rank, r, why, l->save->a, err))
        return false;
    for (uint32_t i = 0; i < l->n_shards; i++)
        r->shard[i].why = r->shard[i].data ? NULL : why[i] ? why[i] : "it could not be read";
    return true;
}

static bool local_open_model(struct olmo_local *l, struct zf_err *err)
{
    struct local_reading r = {.l = l, .copies = {.all = zf_build_records_copies(l->save->b)}};
    bool ok = local_read_all(&r, err) && local_draft(&r, err) &&
              zf_copy_check_note(&r.copies, l->save->b, err);

    zf_copy_check_fini(&r.copies);
    return ok;
}

bool local_open(void *ctx, const char *dir, struct zf_err *err)
{
    struct olmo_save *s = ctx;
    struct olmo_local l = {.save = s};
    bool whole = *dir != '\0';
    uint32_t world = 0;
    bool ok = (!whole || train_world(s, &world, err)) &&
              zf_ranks_list(s->st, s->a, dir, local_files, world, &l.model, err) &&
              train_check_world(world, &l.model, err) &&
              (zf_build_degraded(s->b) || zf_ranks_complete(&l.model, err)) &&
              local_open_model(&l, err) && (!whole || local_optim_draft(&l, err)) &&
              (!whole || train_add(s, l.model.n, err));

    zf_table_free(l.by_name);
    return ok;
}
