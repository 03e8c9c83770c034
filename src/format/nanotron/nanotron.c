/* SPDX-License-Identifier: Apache-2.0 */
/* nanotron: a folder per module, a safetensors file per tensor and tensor-parallel rank, and a torch.save file of the
 * optimizer per rank.  docs/formats/nanotron.md describes the files. */
#include "nanotron.h"

#include <inttypes.h>
#include <string.h>

#include <zf/assemble/companions.h>
#include <zf/assemble/degraded.h>
#include <zf/assemble/take.h>
#include <zf/codec/pvjson.h>

extern const struct zf_format zf_format_nanotron;

static const char nanotron_weights[] = "model_*[_pp-rank-%p-of-%P_tp-rank-%t-of-%T].safetensors";

/* Files that are shown unchanged. */
static const char *const nanotron_texts[] = {NANOTRON_META, "model_config.json", NANOTRON_CONFIG};
static const char *const nanotron_beside[] = {"lr_scheduler", "random", NULL};

/* ---- settings ---- */

const struct zf_pv *nanotron_json(const struct nanotron *s, const char *path, struct zf_err *err)
{
    uint64_t n;
    zf_auto(mem) char *text = zf_store_slurp(s->st, path, s->o->lim->json_bytes, &n, err);
    const struct zf_pv *v = text ? zf_pv_of_json(text, n, s->keep.arena, s->o->lim, err) : NULL;

    if (text && !v)
        (void)zf_err_in(err, "%s", path);
    return v;
}

static bool nanotron_read_meta(struct nanotron *s, struct zf_err *err)
{
    struct zf_taker t = {.arena = s->keep.arena};
    const struct zf_pv *v = nanotron_json(s, NANOTRON_META, err);
    struct zf_take root = zf_take_root(&t, v), metas = zf_take_key(&root, "metas");
    struct zf_take version = zf_take_key(&root, "version"), tp = zf_take_key(&root, "tp");
    struct zf_take dp = zf_take_key(&root, "dp"), step = zf_take_key(&metas, "last_train_step");

    if (!v)
        return false;
    const char *is = zf_take_text(&version, NULL);
    (void)zf_take_can(&version, strncmp(is, "1.", 2) == 0,
                      "it is \"%.20s\"; only version 1 is read", is);
    s->tp = zf_take_u64(&tp);
    s->dp = zf_take_u64(&dp);
    if (zf_take_given(&step))
        zf_build_step(s->b, (int64_t)zf_take_u64(&step));
    return zf_take_ok(&t, err) || zf_err_in(err, "%s", NANOTRON_META);
}

/* ---- weights ---- */

/* The tensor's name: "model.decoder.0.norm.weight" for "model/model/decoder/0/norm" and "weight". */
static const char *nanotron_name(const struct nanotron *s, const char *dir,
                                 const struct zf_numbered_file *f, struct zf_err *err)
{
    const char *below = strchr(dir, '/');
    char *name = zf_arena_fmt(s->keep.arena, err, "%s%s%.*s", below ? below + 1 : "",
                              below ? "/" : "", (int)f->stem_len, f->name + f->stem);

    for (char *c = name; c && (c = strchr(c, '/'));)
        *c = '.';
    return name;
}

/* Opens the file of one rank and drafts its part of the tensor. */
static bool nanotron_read_file(struct nanotron *s, struct nanotron_param *p, const char *path,
                               uint32_t rank, struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = zf_store_open(s->st, path, err);
    const struct zf_spot spot = zf_spot_of("", p->name);
    struct zf_st_header h;
    struct nanotron_part part;
    struct zf_type type;

    if (!src || !zf_st_load(src, s->keep.arena, s->o->lim, &h, err))
        return false;
    if (!slices_read_part(&h, s->keep.arena, &type, &part, err))
        return zf_err_in(err, "%s", path);
    const struct zf_piece x = {.spot = spot, .type = type, .path = path};
    struct zf_draft *d;
    if (!zf_pieces_begin(&s->pieces, &x, &d, err))
        return zf_err_in(err, "%s", path);
    p->type = type;
    p->part[rank] = part;
    return slices_put(&part, d, 0, part.elems, src, h.entry[0].begin, err);
}

/* Reads the files [from, end) of one tensor. */
static bool nanotron_read_tensor(struct nanotron *s, const struct zf_numbered *l, size_t from,
                                 size_t end, struct zf_err *err)
{
    const struct zf_numbered_file *first = &l->file.at[from];
    uint32_t of = zf_numbered_get(l->pattern, first, 'T');
    const char *name = nanotron_name(s, l->dir, first, err);
    struct nanotron_param *p = name ? zf_table_make_str(s->param, name, err) : NULL;

    if (!p)
        return false;
    p->name = name;
    p->n_parts = of == ZF_NO_NUMBER ? 1 : of;
    if (of != ZF_NO_NUMBER && of != s->tp) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.120s\" is one of %" PRIu32
                       " tensor-parallel ranks, but by %s there are %" PRIu64,
                       first->name, of, NANOTRON_META, s->tp);
    }
    p->part = zf_arena_get(s->keep.arena, p->n_parts, sizeof *p->part, err);
    if (!p->part)
        return false;
    if (end - from != p->n_parts) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "there are %zu files like %.120s, expected one from each of %" PRIu32
                      " tensor-parallel ranks",
                      end - from, first->name, p->n_parts);
        (void)zf_err_in(err, "%s", l->dir);
        if (!zf_forgive(s->b, err))
            return false;
    }
    for (size_t i = from; i < end; i++) {
        uint32_t rank = zf_numbered_get(l->pattern, &l->file.at[i], 't');
        const char *path = zf_arena_fmt(s->keep.arena, err, "%s/%s", l->dir, l->file.at[i].name);

        rank = rank == ZF_NO_NUMBER ? 0 : rank;
        if (!path || rank >= p->n_parts) {
            return path && zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                                   "\"%.120s\" is not a file of one of the %" PRIu32 " ranks", path,
                                   p->n_parts);
        }
        if (!nanotron_read_file(s, p, path, rank, err) && !zf_forgive(s->b, err))
            return false;
    }
    return true;
}

static bool nanotron_read_dir(struct nanotron *s, const char *dir, struct zf_err *err)
{
    zf_auto(numbered) struct zf_numbered l = {.dir = NULL};
    bool ok = zf_numbered_list(s->st, dir, nanotron_weights, &l, err);

    for (size_t i = 0, end; ok && i < l.file.n; i = end) {
        end = zf_numbered_run(&l, i);
        ok = nanotron_read_tensor(s, &l, i, end, err);
    }
    return ok;
}

/* Reads the folders below model/, which are named after modules. */
static bool nanotron_read_weights(struct nanotron *s, struct zf_err *err)
{
    zf_vec(const char *) dir = {0};
    const char **first = zf_vec_push(&dir, err);
    bool ok = first != NULL;

    if (ok)
        *first = "model";
    for (size_t i = 0; ok && i < dir.n; i++) {
        const struct zf_entry *e;
        size_t n;

        ok = zf_store_list(s->st, dir.at[i], &e, &n, err) && nanotron_read_dir(s, dir.at[i], err);
        for (size_t k = 0; ok && k < n; k++) {
            if (e[k].kind == ZF_ENTRY_DIR) {
                const char **to = zf_vec_push(&dir, err);

                ok = to && (*to = zf_arena_fmt(s->keep.arena, err, "%s/%s", dir.at[i], e[k].name));
            }
        }
    }
    zf_vec_fini(&dir);
    return ok && (s->param ||
                  zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "there are no tensors below model/"));
}

/* ---- the save ---- */

static bool nanotron_add_texts(const struct nanotron *s, struct zf_err *err)
{
    for (size_t i = 0; i < sizeof nanotron_texts / sizeof nanotron_texts[0]; i++) {
        const char *slash = strrchr(nanotron_texts[i], '/');
        const char *name = slash ? slash + 1 : nanotron_texts[i];
        const char *path = zf_arena_fmt(s->keep.arena, err, "state/%s", name);

        if (!path || !zf_store_has(s->st, nanotron_texts[i], ZF_ENTRY_FILE))
            continue;
        zf_auto(source) struct zf_source *src = zf_store_open(s->st, nanotron_texts[i], err);
        if (!src || !zf_build_blob(s->b, path, src, 0, src->size, err))
            return false;
    }
    return true;
}

static bool nanotron_open_save(void *ctx, const char *where, struct zf_err *err)
{
    struct nanotron *s = ctx;

    (void)where;
    return nanotron_read_meta(s, err) && nanotron_read_weights(s, err) && optim_draft(s, err) &&
           nanotron_add_texts(s, err) &&
           zf_companions_add_in(s->st, nanotron_beside, s->o, s->b, err);
}

static const char *nanotron_find_save(const struct zf_save *save, const struct zf_open_opts *o)
{
    (void)o;
    return !save->file && zf_store_has(save->store, NANOTRON_META, ZF_ENTRY_FILE) &&
                   zf_store_has(save->store, "model", ZF_ENTRY_DIR)
               ? ""
               : NULL;
}

static const struct zf_layout nanotron_layout[] = {{.what = "nanotron's folders of modules next to",
                                                    .file = NANOTRON_META,
                                                    .find = nanotron_find_save,
                                                    .open = nanotron_open_save},
                                                   {0}};

static bool nanotron_probe(const struct zf_save *save, const struct zf_open_opts *o,
                           struct zf_probe *out, struct zf_err *err)
{
    (void)err;
    zf_layouts_probe(nanotron_layout, save, o, out);
    return true;
}

static bool nanotron_open(const struct zf_save *save, const struct zf_open_opts *o,
                          struct zf_build *b, struct zf_err *err)
{
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(o->lim->model_memory, err);
    struct nanotron s = {
        .st = save->store, .o = o, .b = b, .keep.arena = arena, .pieces = {.b = b}};

    s.ahead = (struct zf_torch_ahead){.st = s.st, .lim = o->lim};
    bool ok = arena && zf_layouts_open(nanotron_layout, save, o, &s, err);
    zf_torch_ahead_fini(&s.ahead);
    zf_auto_numbered(&s.optim);
    zf_pieces_fini(&s.pieces);
    zf_table_free(s.param);
    zf_keeper_fini(&s.keep);
    return ok;
}

const struct zf_format zf_format_nanotron = {
    .name = "nanotron",
    .summary = "nanotron: one folder per module, safetensors of tensor-parallel ranks, ZeRO-1",
    .refines = "safetensors",
    .shards = true,
    .probe = nanotron_probe,
    .open = nanotron_open,
};
