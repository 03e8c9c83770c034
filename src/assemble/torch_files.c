/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/torch_files.h>

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/torch_ahead.h>
#include <zf/assemble/torch_place.h>
#include <zf/assemble/torch_visit.h>
#include <zf/base/name.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>

#include "join.h"
#include "param_groups.h"

struct member {
    struct zf_torch *torch; /* NULL: of another rank than the first, and closed again */
    struct join_file file;
    char head[64];    /* "" = none */
    const char *item; /* zf_torch_set_item */
    enum zf_torch_role role;
};

struct zf_torch_set {
    struct zf_build *b;
    struct zf_torch_ahead ahead;
    const struct zf_limits *lim;
    struct zf_names *names;
    struct join *join;
    zf_vec(struct member *) member;
    bool beside, several; /* several: the files belong to more than one rank */
    const char *item;     /* for the files being added, or NULL */
    struct ranks_said_of {
        struct ranks_values *said;
        const struct member *by;
    } first;             /* the first file of each kind */
    struct zf_err wrong; /* an error in the contents of a file; reported when no file is missing */
};

struct zf_torch_set *zf_torch_set_new(struct zf_build *b, struct zf_store *st,
                                      const struct zf_mesh *mesh, bool beside,
                                      const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(torch_set) struct zf_torch_set *s = calloc(1, sizeof *s);

    if (!s)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a list of files"));
    s->b = b;
    s->lim = lim;
    s->ahead = (struct zf_torch_ahead){.st = st, .lim = lim};
    s->beside = beside;
    for (int a = 0; a < ZF_N_AXES; a++)
        s->several = s->several || mesh->size[a] > 1;
    s->names = zf_names_new(err);
    s->join = s->names ? join_new(b, s->names, mesh, lim, err) : NULL;
    if (!s->join)
        return NULL;
    return zf_give(s);
}

static void files_member_free(struct member *m)
{
    zf_torch_free(m->torch);
    free((char *)m->file.path);
    free(m);
}

void zf_torch_set_free(struct zf_torch_set *s)
{
    if (!s)
        return;
    join_free(s->join);
    zf_names_free(s->names);
    ranks_values_free(s->first.said);
    for (size_t i = 0; i < s->member.n; i++)
        files_member_free(s->member.at[i]);
    zf_torch_ahead_fini(&s->ahead);
    zf_vec_fini(&s->member);
    free(s);
}

/* ---- names of files ---- */

static bool files_has_word(const char *name, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(name, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

bool zf_torch_set_named(const char *name)
{
    static const char *const tail[] = {".pt",      ".pth", ".bin", ".ckpt",
                                       ".pth.tar", ".tar", ".pkl", ".torch"};

    for (size_t i = 0; i < sizeof tail / sizeof tail[0]; i++)
        if (zf_name_ends(name, tail[i]))
            return true;
    return false;
}

bool zf_torch_set_sniff(struct zf_store *st, const char *name)
{
    struct zf_err ignored;
    zf_auto(source) struct zf_source *src = zf_store_open(st, name, &ignored);

    return src && zf_torch_sniff(src);
}

/* A file larger than this is not taken for one without tensors. */
enum { FILES_SMALL = 1 << 20 };

static bool files_found(void *ctx, const struct zf_leaf *leaf, struct zf_err *err)
{
    bool *found = ctx;

    (void)err;
    *found = leaf->kind != ZF_TORCH_NOT;
    return !*found; /* stops at the first one */
}

bool zf_torch_set_holds(struct zf_store *st, const char *name, const struct zf_limits *lim)
{
    struct zf_err why = {.code = ZF_OK};
    uint64_t n, unread;
    bool found = false;
    struct zf_visit visit = {.fn = files_found, .ctx = &found};
    zf_auto(source) struct zf_source *src = zf_store_open(st, name, &why);

    if (!src || !zf_torch_sniff(src))
        return false;
    zf_auto(torch) struct zf_torch *t =
        src->size > FILES_SMALL ? NULL : zf_torch_open(src, lim, &why);
    if (!t || !zf_torch_visit(t, zf_torch_root(t), NULL, lim, &visit, &why))
        return true;
    zf_torch_storages(t, &n, &unread);
    return found || n;
}

enum zf_torch_role zf_torch_set_role(const char *name)
{
    static const char *const optimizer[] = {"optim"};
    static const char *const rest[] = {
        "rng_",       "random_states",    "scheduler", "lr_scheduler",       "training_args",
        "scaler",     "extra_state",      "trainer",   "train.pt",           "sampler",
        "dl_state",   "meta.pt",          "args.",     "custom_checkpoint_", "data.pt",
        "dataloader", "train_dataloader", "common.pt", "latest_train_state", "step_scheduler"};

    if (files_has_word(name, optimizer, sizeof optimizer / sizeof optimizer[0]))
        return ZF_ROLE_OPTIMIZER;
    return files_has_word(name, rest, sizeof rest / sizeof rest[0]) ? ZF_ROLE_REST
                                                                    : ZF_ROLE_WEIGHTS;
}

/* "dir/optimizer_1.pt" -> "optimizer_1": the name without extension and, where ranks are joined, without the rank. */
static void files_stem_of(char out[64], const char *path, bool ranks, const char *item)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strcspn(name, ".");
    const char *rank = strstr(name, "_world_size_");

    rank = rank ? rank : strstr(name, "_rank");
    n = ranks && rank && rank > name && (size_t)(rank - name) < n ? (size_t)(rank - name) : n;
    n = n == 0 ? strlen(name) : n;
    name = item ? item : name;
    n = item ? strlen(item) : n;
    (void)snprintf(out, 64, "%.*s", (int)(n < 63 ? n : 63), name);
}

/* ---- the members ---- */

/* Sets the first step of the file's paths.  Several optimizers are named after their files. */
static void files_set_head(const struct zf_torch_set *s, struct member *m)
{
    m->head[0] = '\0';
    if (m->role == ZF_ROLE_REST) {
        files_stem_of(m->head, m->file.path, s->several, m->item);
        return;
    }
    if (m->role == ZF_ROLE_STATES)
        (void)snprintf(m->head, sizeof m->head, "optimizer.state");
    if (m->role != ZF_ROLE_OPTIMIZER)
        return;
    files_stem_of(m->head, m->file.path, true, m->item);
    if (zf_torch_set_role(m->head) != ZF_ROLE_OPTIMIZER)
        (void)snprintf(m->head, sizeof m->head, "optimizer");
    for (size_t i = 0; i < s->member.n; i++) {
        const struct member *o = s->member.at[i];

        if (o->role == ZF_ROLE_OPTIMIZER &&
            memcmp(&o->file.at, &m->file.at, sizeof m->file.at) == 0 &&
            strcmp(o->head, m->head) == 0)
            (void)snprintf(m->head, sizeof m->head, "optimizer_%zu", i);
    }
}

static struct zf_place_file file_of(const struct member *m)
{
    return (struct zf_place_file){
        .torch = m->torch,
        .path = m->file.path,
        .head = m->head[0] ? m->head : NULL,
        .extra = m->file.extra,
    };
}

/* The length of the path before the rank's number. */
static size_t files_rank_at(const char *path)
{
    size_t n = 0;

    for (const char *at = path; (at = strstr(at, "rank")); at++)
        n = (size_t)(at - path);
    return n;
}

/* Do the names differ in the rank only? */
static bool files_same_kind(const struct member *a, const struct member *b)
{
    size_t n = files_rank_at(a->file.path);

    if (a->item || b->item)
        return a->item == b->item;
    return a->role == b->role && n == files_rank_at(b->file.path) &&
           strncmp(a->file.path, b->file.path, n) == 0;
}

/* Compares the values that all files of a kind should have in common with those of the first one read. */
static bool torch_files_agree(struct zf_torch_set *s, const struct member *m, struct zf_err *err)
{
    zf_auto(ranks_values) struct ranks_values *said =
        ranks_values_new(m->torch, m->file.path, s->lim, err);

    if (!said)
        return err->path[0] ? false : zf_err_in(err, "%s", m->file.path);
    if (s->first.said && files_same_kind(m, s->first.by))
        return ranks_values_compare(said, s->first.said, err);
    ranks_values_free(s->first.said);
    s->first = (struct ranks_said_of){zf_give(said), m};
    return true;
}

/* Reads the file of one of several ranks, keeping only references. */
static bool torch_files_read(struct zf_torch_set *s, struct member *m, struct zf_err *err)
{
    const struct zf_place_file f = file_of(m);

    if (!torch_files_agree(s, m, err))
        return false;
    if (!zf_place_add_names(s->names, &f, s->lim, err))
        return zf_err_in(err, "%s", f.path);
    return zf_coord_is_first(m->file.at) || join_keep(s->join, &f, &m->file, err);
}

bool zf_torch_set_expect(struct zf_torch_set *s, const char *const *path, size_t n,
                         struct zf_err *err)
{
    return zf_torch_ahead_begin(&s->ahead, path, n, err);
}

void zf_torch_set_item(struct zf_torch_set *s, const char *item)
{
    s->item = item;
}

bool zf_torch_set_add(struct zf_torch_set *s, const char *path, enum zf_torch_role role,
                      struct zf_coord at, struct zf_err *err)
{
    zf_auto(torch) struct zf_torch *torch = zf_torch_ahead_open(&s->ahead, path, err);

    if (!torch)
        return false;
    zf_auto(mem) char *name = strdup(path);
    struct member *m = calloc(1, sizeof *m);
    if (!name || !m || !zf_vec_room(&s->member, 1, err)) {
        free(m);
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a list of files");
    }
    if (role == ZF_ROLE_WEIGHTS && groups_is_optimizer(zf_torch_root(torch)))
        role = ZF_ROLE_OPTIMIZER;
    *m = (struct member){.torch = zf_give(torch),
                         .file = {.path = zf_give(name), .at = at, .extra = role == ZF_ROLE_REST},
                         .item = s->item,
                         .role = role};
    files_set_head(s, m);
    s->member.at[s->member.n++] = m;
    bool sound = !s->several || s->wrong.code != ZF_OK || torch_files_read(s, m, err);

    if (!sound) {
        s->wrong = *err;
        zf_err_clear(err);
    }
    if (!zf_coord_is_first(at)) {
        zf_torch_free(m->torch);
        m->torch = NULL;
    }
    return true;
}

const struct zf_pv *zf_torch_set_root(const struct zf_torch_set *s, const char *path)
{
    for (size_t i = 0; i < s->member.n; i++) {
        const struct member *m = s->member.at[i];

        if (m->torch && strcmp(m->file.path, path) == 0)
            return zf_torch_root(m->torch);
    }
    return NULL;
}

/* ---- one checkpoint? ---- */

struct owner {
    UT_hash_handle hh;
    size_t member; /* index + 1; 0 = none yet */
};

struct owners {
    struct owner *key; /* of struct owner */
    const struct zf_torch_set *set;
    size_t at;
};

static bool files_own(void *ctx, const struct zf_leaf *leaf, struct zf_err *err)
{
    struct owners *o = ctx;

    if (leaf->kind == ZF_TORCH_NOT)
        return true;
    struct owner *first = zf_table_make_id(o->key, zf_path_hash(leaf->path), err);
    if (!first)
        return false;
    if (first->member && first->member != o->at + 1) {
        const struct zf_step *last = leaf->path.n ? &leaf->path.step[leaf->path.n - 1] : NULL;
        int n = last ? (int)(last->n < 60 ? last->n : 60) : 0;

        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                       "%.100s and %.100s both hold \"%.*s\", so they are not one checkpoint: "
                       "point at one of them",
                       o->set->member.at[first->member - 1]->file.path,
                       o->set->member.at[o->at]->file.path, n, last ? last->p : "");
    }
    first->member = o->at + 1;
    return true;
}

static bool files_is_first_weights(const struct member *m)
{
    return m->role == ZF_ROLE_WEIGHTS && zf_coord_is_first(m->file.at);
}

/* Checks that no two weight files of one rank have the same key. */
static bool files_check_owners(const struct zf_torch_set *s, struct zf_err *err)
{
    struct owners o = {.set = s};
    struct zf_visit visit = {.fn = files_own, .ctx = &o};
    size_t weights = 0;
    bool ok = true;

    for (size_t i = 0; i < s->member.n; i++)
        weights += files_is_first_weights(s->member.at[i]);
    for (o.at = 0; ok && weights > 1 && o.at < s->member.n; o.at++) {
        const struct member *m = s->member.at[o.at];

        if (files_is_first_weights(m)) {
            const char *head = m->head[0] ? m->head : NULL;
            ok = zf_torch_visit(m->torch, zf_torch_root(m->torch), head, s->lim, &visit, err);
        }
    }
    zf_table_free(o.key);
    return ok;
}

/* ---- placing ---- */

/* Records the step, for `info`: a weight file's top-level value, or that of OLMo's train.pt or AutoModel's
 * step_scheduler.pt. */
static void files_set_step(const struct member *m, struct zf_build *b)
{
    static const char *const key[] = {"global_step", "step", "iteration", "iter"};
    const struct zf_pv *root = zf_torch_root(m->torch);
    bool tells = m->role == ZF_ROLE_WEIGHTS ||
                 (m->role == ZF_ROLE_REST &&
                  (strcmp(m->head, "train") == 0 || strcmp(m->head, "step_scheduler") == 0));
    int64_t step;

    for (size_t i = 0; tells && i < sizeof key / sizeof key[0]; i++) {
        if (zf_pv_kind(zf_pv_get(root, key[i])) == ZF_PV_INT &&
            zf_pv_int(zf_pv_get(root, key[i]), &step)) {
            zf_build_step(b, step);
            return;
        }
    }
}

/* Describes the root value of a file, for a message. */
static void files_describe_root(const struct zf_torch *t, char out[160])
{
    const struct zf_pv *root = zf_torch_root(t);
    static const char *const kind[] = {
        [ZF_PV_DICT] = "a dict",      [ZF_PV_LIST] = "a list",
        [ZF_PV_TUPLE] = "a tuple",    [ZF_PV_SET] = "a set",
        [ZF_PV_STR] = "a text",       [ZF_PV_PERSID] = "a storage without a tensor",
        [ZF_PV_EXT] = "another value"};

    if (zf_pv_kind(root) == ZF_PV_CALL) {
        (void)snprintf(out, 160, "an object of \"%.80s.%.60s\"", zf_pv_module(root),
                       zf_pv_name(root));
    } else {
        const char *word = kind[zf_pv_kind(root)];

        (void)snprintf(out, 160, "%s", word ? word : "another value");
    }
}

/* Notes storages that no shown tensor uses.  A checkpoint with storages but without tensors is
 * refused: an empty directory would look like a result.  Files of other ranks do not count, because
 * they are copies of the first one's. */
static bool files_note_unread(const struct zf_torch_set *s, struct zf_err *err)
{
    struct zf_build *b = s->b;
    const struct member *met = NULL;
    uint64_t n, unread, n_met = 0;
    char root[160];

    for (size_t i = 0; i < s->member.n; i++) {
        const struct member *m = s->member.at[i];

        if (!m->torch)
            continue;
        zf_torch_storages(m->torch, &n, &unread);
        if (!met && n > 0) {
            met = m;
            n_met = n;
        }
        const struct zf_place_file f = file_of(m);
        if (zf_build_n_tensors(b) > 0 && !zf_place_note_unread(b, &f, err))
            return false;
    }
    if (!met || s->beside || zf_build_n_tensors(b) > 0)
        return true;
    const char *note = zf_build_first_note(b);

    files_describe_root(met->torch, root);
    (void)zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                  "this file has %llu %s, but no tensor that can be shown; %s%.200s",
                  (unsigned long long)n_met, n_met == 1 ? "storage" : "storages",
                  note ? "" : "its outermost value is ", note ? note : root);
    (void)zf_err_in(err, "%s", met->file.path);
    return zf_forgive(b, err);
}

static bool files_place_open(struct zf_torch_set *s, const struct member *m, bool alone,
                             struct zf_err *err)
{
    struct zf_place_file f = file_of(m);

    f.take = join_take;
    f.ctx = s->join;
    files_set_step(m, s->b);
    return join_file(s->join, &m->file, m->torch, err) &&
           zf_place_all(s->b, s->names, &f, s->lim, err) &&
           zf_state_add(s->b, &f, alone && !s->beside ? NULL : f.path, s->lim, err);
}

static bool files_place_members(struct zf_torch_set *s, struct zf_err *err)
{
    size_t n_open = 0;

    for (size_t i = 0; i < s->member.n; i++)
        n_open += s->member.at[i]->torch != NULL;
    for (size_t i = 0; i < s->member.n; i++) {
        const struct member *m = s->member.at[i];

        if (m->torch ? !files_place_open(s, m, n_open == 1, err)
                     : !join_kept(s->join, &m->file, err))
            return false;
    }
    return join_finish(s->join, err) && files_note_unread(s, err);
}

/* The part of a weight file's name after "pytorch_model", or after "pytorch_model_fsdp", the name of FSDP's full state
 * dicts; else NULL. */
static const char *files_behind_model(const struct member *m)
{
    static const char stem[] = "pytorch_model", fsdp[] = "_fsdp";
    const char *rest = m->file.path + sizeof stem - 1;

    if (m->role != ZF_ROLE_WEIGHTS || strncmp(m->file.path, stem, sizeof stem - 1) != 0)
        return NULL;
    return strncmp(rest, fsdp, sizeof fsdp - 1) == 0 ? rest + sizeof fsdp - 1 : rest;
}

/* "pytorch_model_1.bin" is the second model of accelerate's save_state: returns the text of its
 * number, else NULL.  Source: accelerate/checkpointing.py save_accelerator_state, utils/fsdp_utils.py save_fsdp_model
 * (0.20 … 1.15). */
static const char *files_model_number(const struct member *m)
{
    const char *rest = files_behind_model(m);
    size_t digits = rest && *rest == '_' ? strspn(rest + 1, "0123456789") : 0;

    return digits && strcmp(rest + 1 + digits, ".bin") == 0 ? rest + 1 : NULL;
}

/* Names several models: the first is the container, the others are its siblings. */
static void files_name_models(struct zf_torch_set *s)
{
    bool several = false;

    for (size_t i = 0; i < s->member.n; i++) {
        struct member *m = s->member.at[i];
        const char *number = files_model_number(m);

        if (number) {
            (void)snprintf(m->head, sizeof m->head, "model_%.*s", (int)strcspn(number, "."),
                           number);
            several = true;
        }
    }
    for (size_t i = 0; several && i < s->member.n; i++) {
        struct member *m = s->member.at[i];
        const char *rest = files_behind_model(m);

        if (rest && strcmp(rest, ".bin") == 0)
            (void)snprintf(m->head, sizeof m->head, "model");
    }
}

bool zf_torch_set_place(struct zf_torch_set *s, struct zf_err *err)
{
    files_name_models(s);
    if (!files_check_owners(s, err))
        return false;
    if (s->wrong.code != ZF_OK) {
        *err = s->wrong;
        return false;
    }
    for (size_t i = 0; !s->several && i < s->member.n; i++) {
        struct zf_place_file f = file_of(s->member.at[i]);

        if (!zf_place_add_names(s->names, &f, s->lim, err))
            return zf_err_in(err, "%s", f.path);
    }
    return files_place_members(s, err);
}
