/* SPDX-License-Identifier: Apache-2.0 */
/* OLMo's full checkpoints in safetensors, whose names are pickled paths (key64.h).  Format torch reads those
 * that have only torch.save files. */
#include "layouts.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/st_files.h>
#include <zf/assemble/torch_files.h>
#include <zf/assemble/torch_place.h>
#include <zf/codec/pvjson.h>

#include "key64.h"

/* OLMo loads X.safetensors if it exists, else X.pt.
 * Source: olmo/checkpoint.py, load_state_dict and FullCheckpointer (0.2 … 0.6); other.pt is the former
 * name of train.pt. */
static const struct full_stem {
    const char *name, *head; /* head: first step of its paths, or NULL */
    enum zf_torch_role role;
} full_stem[] = {{"model", NULL, ZF_ROLE_WEIGHTS},
                 {"optim", "optim", ZF_ROLE_OPTIMIZER},
                 {"train", "train", ZF_ROLE_REST},
                 {"other", "other", ZF_ROLE_REST}};

enum { FULL_STEMS = sizeof full_stem / sizeof full_stem[0], FULL_HEAD = 4096 };

/* ---- recognizing a save ---- */

/* The first tensor name in the JSON text of a header, after __metadata__, whose values are strings. */
static const char *full_first_name(const char *p, size_t *n)
{
    static const char meta[] = "{\"__metadata__\":";

    if (strncmp(p, meta, sizeof meta - 1) == 0) {
        p = strstr(p, "},\"");
        p = p ? p + 1 : "";
    }
    if (p[0] == '\0' || p[1] != '"')
        return NULL;
    *n = strcspn(p + 2, "\"");
    return p + 2;
}

static bool full_file_fits(struct zf_store *st, const char *path, const struct zf_limits *lim)
{
    char head[FULL_HEAD + 1] = "";
    struct zf_err ignored;
    struct zf_path steps;
    bool pickled;
    size_t len;
    zf_auto(source) struct zf_source *src = zf_store_open(st, path, &ignored);

    if (!src || !zf_st_sniff(src))
        return false;
    size_t n = src->size - 8 < FULL_HEAD ? (size_t)src->size - 8 : FULL_HEAD;
    const char *name =
        zf_source_pread(src, head, n, 8, &ignored) ? full_first_name(head, &len) : NULL;
    zf_auto(arena) struct zf_arena *a = name ? zf_arena_new(1 << 20, &ignored) : NULL;
    return a && key64_looks(name, len) && key64_read(name, len, lim, a, &steps, &pickled, &ignored);
}

const char *full_find(const struct zf_save *save, const struct zf_open_opts *o)
{
    static const char *const file[FULL_STEMS] = {"model.safetensors", "optim.safetensors",
                                                 "train.safetensors", "other.safetensors"};

    if (save->file) {
        return zf_st_file_named(save->file) && full_file_fits(save->store, save->file, o->lim)
                   ? save->file
                   : NULL;
    }
    for (size_t i = 0; i < FULL_STEMS; i++)
        if (zf_store_has(save->store, file[i], ZF_ENTRY_FILE) &&
            full_file_fits(save->store, file[i], o->lim))
            return file[i];
    return NULL;
}

/* ---- names ---- */

/* One tensor of one file. */
struct full_value {
    struct zf_path path; /* begins with the file's head */
    bool pickled;
    const struct zf_st_entry *entry;
    struct zf_source *src; /* borrowed */
    const struct full_stem *stem;
};

struct full {
    struct olmo_save *s;
    struct zf_st_files files;
    const struct full_stem *stem[FULL_STEMS]; /* the stem of each file */
    zf_vec(struct full_value) value;
    struct zf_names *names;
};

/* Inserts the head of the file at the front of a path. */
static bool full_set_head(struct full *f, struct full_value *v, struct zf_err *err)
{
    const char *head = v->stem->head;
    struct zf_step *step = head ? zf_arena_get(f->s->a, v->path.n + 1ull, sizeof *step, err) : NULL;

    if (!head)
        return true;
    if (!step)
        return false;
    step[0] = (struct zf_step){.p = head, .n = strlen(head)};
    memcpy(step + 1, v->path.step, v->path.n * sizeof *step);
    v->path = (struct zf_path){.step = step, .n = v->path.n + 1};
    return true;
}

static bool full_read_names(struct full *f, size_t file, struct zf_err *err)
{
    const struct zf_st_file *x = &f->files.at[file];

    for (uint64_t i = 0; i < x->head.n; i++) {
        const struct zf_st_entry *e = &x->head.entry[i];
        struct full_value *v = zf_vec_push(&f->value, err);

        if (!v)
            return false;
        *v = (struct full_value){.entry = e, .src = x->src, .stem = f->stem[file]};
        if (!key64_read(e->name, e->name_len, f->s->o->lim, f->s->a, &v->path, &v->pickled, err)) {
            (void)zf_err_in(err, "!%.80s", e->name);
            return zf_err_in(err, "%s", x->path);
        }
        if (!full_set_head(f, v, err) || (!v->pickled && !zf_names_add(f->names, v->path, err)))
            return false;
    }
    return true;
}

/* ---- pickled values ---- */

static const struct zf_pv *full_unpickle(const struct full *f, const struct full_value *v,
                                         struct zf_err *err)
{
    uint64_t n = v->entry->end - v->entry->begin;
    const struct zf_limits *lim = f->s->o->lim;

    if (v->entry->dtype != ZF_DT_U8 || n > lim->text_bytes) {
        zf_fail(err, v->entry->dtype != ZF_DT_U8 ? ZF_E_FORMAT : ZF_E_LIMIT, v->entry->begin,
                "a pickled value has %llu elements of %s: these are not bytes, or too many",
                (unsigned long long)n, zf_dtype_info(v->entry->dtype)->torch);
        return NULL;
    }
    zf_auto(mem) char *bytes = zf_source_slurp(v->src, v->entry->begin, n, err);
    if (!bytes)
        return NULL;
    struct zf_bytes in = zf_bytes_of(bytes, n);
    in.base = v->entry->begin;
    return zf_pickle_load(&in, f->s->a, lim, err);
}

static bool full_is_groups(const struct full_value *v)
{
    const struct zf_step *last = &v->path.step[v->path.n - 1];

    return v->stem->role == ZF_ROLE_OPTIMIZER && v->path.n == 2 && last->n == 12 &&
           memcmp(last->p, "param_groups", 12) == 0;
}

static bool full_read_pickled(const struct full *f, const struct full_value *v, struct zf_err *err)
{
    const struct zf_pv *pv = full_unpickle(f, v, err);
    char name[48];

    if (pv) {
        return (!full_is_groups(v) || zf_names_groups(f->names, "optim", pv, err)) &&
               save_value_json(f->s, v->path, pv, err);
    }
    (void)snprintf(name, sizeof name, "%.40s", v->path.step[v->path.n - 1].p);
    return err->code != ZF_E_NOMEM && err->code != ZF_E_IO &&
           zf_leave_out(f->s->b, v->src->name, name, err);
}

/* ---- tensors ---- */

static bool full_draft(const struct full *f, const struct full_value *v, struct zf_err *err)
{
    const struct zf_st_entry *e = v->entry;
    uint64_t n = (e->end - e->begin) / zf_dtype_info(e->dtype)->bytes;
    struct zf_spot spot;

    if (v->stem->role == ZF_ROLE_REST ? !zf_names_extra(f->names, v->path, &spot, err)
                                      : !zf_place_spot(f->s->b, f->names, v->path, &spot, err))
        return false;
    struct zf_draft *d =
        zf_build_tensor(f->s->b, spot, (struct zf_type){e->dtype, e->ndim, e->shape}, err);
    return d && zf_draft_where(d, v->src->name, err) && zf_draft_noted(d, err) &&
           zf_draft_flat(d, 0, n, (struct zf_from){.src = v->src, .off = e->begin}, err);
}

/* ---- the save ---- */

/* Adds the parts that exist only as torch.save files. */
static bool full_add_torch(const struct full *f, struct zf_err *err)
{
    struct olmo_save *s = f->s;
    zf_auto(torch_set) struct zf_torch_set *set =
        zf_torch_set_new(s->b, s->st, &(struct zf_mesh){0}, true, s->o->lim, err);
    size_t added = 0;

    for (size_t i = 0; set && i < FULL_STEMS; i++) {
        const struct full_stem *stem = &full_stem[i];
        const char *pt = zf_arena_fmt(s->a, err, "%s.pt", stem->name);
        const char *st = pt ? zf_arena_fmt(s->a, err, "%s.safetensors", stem->name) : NULL;

        if (!st)
            return false;
        if (!zf_store_find(s->st, pt))
            continue;
        if (zf_store_find(s->st, st)) {
            if (!zf_build_note_on(s->b, ZF_NOTE_UNSHOWN, pt, err,
                                  "%s is not shown, because OLMo reads %s instead", pt, st))
                return false;
            continue;
        }
        if (!zf_torch_set_add(set, pt, stem->role, zf_coord_data(0), err)) {
            bool rest = stem->role == ZF_ROLE_REST && err->code != ZF_E_NOMEM;

            if (rest ? !zf_leave_out(s->b, pt, NULL, err) : !zf_forgive(s->b, err))
                return false;
            continue;
        }
        added++;
    }
    return set && (added == 0 || zf_torch_set_place(set, err));
}

static bool full_add_safetensors(struct full *f, const char *only, struct zf_err *err)
{
    for (size_t i = 0; i < FULL_STEMS; i++) {
        const char *path = zf_arena_fmt(f->s->a, err, "%s.safetensors", full_stem[i].name);
        size_t had = f->files.n;

        if (!path)
            return false;
        if (only ? strncmp(only, path, strlen(full_stem[i].name)) != 0
                 : !zf_store_find(f->s->st, path))
            continue;
        f->stem[had] = &full_stem[i];
        if (!zf_st_files_add(&f->files, f->s->st, only ? only : path, f->s->o->lim, f->s->b, err))
            return false;
        if (only)
            return true;
    }
    if (!only || f->files.n > 0)
        return true;
    f->stem[0] = &full_stem[0];
    return zf_st_files_add(&f->files, f->s->st, only, f->s->o->lim, f->s->b, err);
}

static bool full_place(struct full *f, struct zf_err *err)
{
    for (size_t i = 0; i < f->files.n; i++)
        if (!full_read_names(f, i, err))
            return false;
    for (size_t i = 0; i < f->value.n; i++)
        if (f->value.at[i].pickled && !full_read_pickled(f, &f->value.at[i], err))
            return false;
    for (size_t i = 0; i < f->value.n; i++)
        if (!f->value.at[i].pickled && !full_draft(f, &f->value.at[i], err))
            return false;
    return true;
}

bool full_open(void *ctx, const char *where, struct zf_err *err)
{
    struct olmo_save *s = ctx;
    struct full f = {.s = s};
    bool ok = zf_st_files_init(&f.files, s->o->lim, err) &&
              full_add_safetensors(&f, s->file, err) && zf_st_files_some(&f.files, err) &&
              (f.names = zf_names_new(err)) && full_place(&f, err) &&
              (s->file || full_add_torch(&f, err));

    (void)where;
    zf_names_free(f.names);
    zf_vec_fini(&f.value);
    zf_st_files_fini(&f.files);
    return ok;
}
