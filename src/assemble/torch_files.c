/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/torch_files.h>

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/torch_ahead.h>
#include <zf/assemble/torch_json.h>
#include <zf/assemble/torch_place.h>
#include <zf/base/name.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>

#include "join.h"
#include "ranks_agree.h"

struct member {
    struct zf_torch *torch;
    char *path;
    char head[64]; /* "" = none */
    enum zf_torch_role role;
    uint32_t rank;
};

struct zf_torch_set {
    zf_vec(struct member) member;
    struct zf_torch_ahead files;
    bool beside;
};

struct zf_torch_set *zf_torch_set_new(struct zf_store *st, const struct zf_limits *lim, bool beside,
                                      struct zf_err *err)
{
    struct zf_torch_set *s = calloc(1, sizeof *s);

    if (!s) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a list of files");
        return NULL;
    }
    s->files = (struct zf_torch_ahead){.st = st, .lim = lim};
    s->beside = beside;
    return s;
}

void zf_torch_set_free(struct zf_torch_set *s)
{
    if (!s) {
        return;
    }
    for (size_t i = 0; i < s->member.n; i++) {
        zf_torch_free(s->member.at[i].torch);
        free(s->member.at[i].path);
    }
    zf_torch_ahead_fini(&s->files);
    zf_vec_fini(&s->member);
    free(s);
}

/* ---- names of files ---- */

static bool has_word(const char *name, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strncmp(name, words[i], strlen(words[i])) == 0) {
            return true;
        }
    }
    return false;
}

bool zf_torch_set_named(const char *name)
{
    static const char *const tail[] = {".pt",      ".pth", ".bin", ".ckpt",
                                       ".pth.tar", ".tar", ".pkl", ".torch"};

    for (size_t i = 0; i < sizeof tail / sizeof tail[0]; i++) {
        if (zf_name_ends(name, tail[i])) {
            return true;
        }
    }
    return false;
}

enum zf_torch_role zf_torch_set_role(const char *name)
{
    static const char *const optimizer[] = {"optim"};
    static const char *const rest[] = {
        "rng_state",  "random_states",    "scheduler", "lr_scheduler",       "training_args",
        "scaler",     "extra_state",      "trainer",   "train.pt",           "sampler",
        "dl_state",   "meta.pt",          "args.",     "custom_checkpoint_", "data.pt",
        "dataloader", "train_dataloader", "common.pt"};

    if (has_word(name, optimizer, sizeof optimizer / sizeof optimizer[0])) {
        return ZF_ROLE_OPTIMIZER;
    }
    return has_word(name, rest, sizeof rest / sizeof rest[0]) ? ZF_ROLE_REST : ZF_ROLE_WEIGHTS;
}

/* "dir/optimizer_1.pt" -> "optimizer_1": what is in front of the ending and of the rank. */
static void stem_of(char out[64], const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strcspn(name, ".");
    const char *rank = strstr(name, "_world_size_");

    rank = rank ? rank : strstr(name, "_rank");
    n = rank && rank > name && (size_t)(rank - name) < n ? (size_t)(rank - name) : n;
    n = n == 0 ? strlen(name) : n;
    (void)snprintf(out, 64, "%.*s", (int)(n < 63 ? n : 63), name);
}

/* ---- the members ---- */

/* The first step of the file's paths.  Several optimizers are told apart by their files. */
static void set_head(const struct zf_torch_set *s, struct member *m)
{
    m->head[0] = '\0';
    if (m->role == ZF_ROLE_REST) {
        stem_of(m->head, m->path);
        return;
    }
    if (m->role != ZF_ROLE_OPTIMIZER) {
        return;
    }
    stem_of(m->head, m->path);
    if (zf_torch_set_role(m->head) != ZF_ROLE_OPTIMIZER) {
        (void)snprintf(m->head, sizeof m->head, "optimizer");
    }
    for (size_t i = 0; i < s->member.n; i++) {
        const struct member *o = &s->member.at[i];

        if (o->role == ZF_ROLE_OPTIMIZER && o->rank == m->rank && strcmp(o->head, m->head) == 0) {
            (void)snprintf(m->head, sizeof m->head, "optimizer_%zu", i);
        }
    }
}

bool zf_torch_set_expect(struct zf_torch_set *s, const char *const *path, size_t n,
                         struct zf_err *err)
{
    return zf_torch_ahead_begin(&s->files, path, n, err);
}

bool zf_torch_set_add(struct zf_torch_set *s, const char *path, enum zf_torch_role role,
                      uint32_t rank, struct zf_err *err)
{
    struct member m = {.role = role, .rank = rank};

    if (!zf_vec_room(&s->member, 1, err)) {
        return false;
    }
    m.torch = zf_torch_ahead_open(&s->files, path, err);
    if (!m.torch) {
        return false;
    }
    m.path = strdup(path);
    if (!m.path) {
        zf_torch_free(m.torch);
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a file name");
    }
    const struct zf_pv *root = zf_torch_root(m.torch);
    if (role == ZF_ROLE_WEIGHTS && zf_place_is_optimizer(root)) {
        m.role = ZF_ROLE_OPTIMIZER;
    }
    set_head(s, &m);
    s->member.at[s->member.n++] = m;
    return true;
}

/* ---- one checkpoint? ---- */

struct owner {
    uint64_t hash;
    size_t member; /* its number + 1; 0 = none yet */
};

struct owners {
    struct zf_table key; /* of struct owner */
    const struct zf_torch_set *set;
    size_t at;
};

static bool own(void *ctx, const struct zf_leaf *leaf, struct zf_err *err)
{
    struct owners *o = ctx;

    if (leaf->kind == ZF_TORCH_NOT) {
        return true;
    }
    struct owner *first = zf_table_put(&o->key, zf_path_hash(leaf->path), sizeof *first, err);
    if (!first) {
        return false;
    }
    if (first->member && first->member != o->at + 1) {
        const struct zf_step *last = leaf->path.n ? &leaf->path.step[leaf->path.n - 1] : NULL;
        int n = last ? (int)(last->n < 60 ? last->n : 60) : 0;

        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                       "%.100s and %.100s both hold \"%.*s\", so they are not one checkpoint: "
                       "point at one of them",
                       o->set->member.at[first->member - 1].path, o->set->member.at[o->at].path, n,
                       last ? last->p : "");
    }
    first->member = o->at + 1;
    return true;
}

/* No two files of weights of one rank may hold the same key. */
static bool check_owners(const struct zf_torch_set *s, const struct zf_limits *lim,
                         struct zf_err *err)
{
    struct owners o = {.set = s};
    struct zf_visit visit = {.fn = own, .ctx = &o};
    size_t weights = 0;
    bool ok = true;

    for (size_t i = 0; i < s->member.n; i++) {
        weights += s->member.at[i].role == ZF_ROLE_WEIGHTS && s->member.at[i].rank == 0;
    }
    for (o.at = 0; ok && weights > 1 && o.at < s->member.n; o.at++) {
        const struct member *m = &s->member.at[o.at];

        if (m->role == ZF_ROLE_WEIGHTS && m->rank == 0) {
            const char *head = m->head[0] ? m->head : NULL;
            ok = zf_walk(m->torch, zf_torch_root(m->torch), head, lim, &visit, err);
        }
    }
    zf_table_fini(&o.key);
    return ok;
}

/* Bytes of the path in front of the rank's number. */
static size_t rank_at(const char *path)
{
    size_t n = 0;

    for (const char *at = path; (at = strstr(at, "rank")); at++) {
        n = (size_t)(at - path);
    }
    return n;
}

/* Of the same kind: names that differ in the rank only. */
static bool same_kind(const struct member *a, const struct member *b)
{
    size_t n = rank_at(a->path);

    return a->role == b->role && n == rank_at(b->path) && strncmp(a->path, b->path, n) == 0;
}

/* The files of each kind must repeat the same, whichever of them was read first. */
static bool check_agree(const struct zf_torch_set *s, const struct zf_limits *lim,
                        struct zf_err *err)
{
    zf_auto(ranks_said) struct zf_ranks_said *first = NULL;

    for (size_t i = 0; i < s->member.n; i++) { /* the files of a kind come one after the other */
        const struct member *m = &s->member.at[i];
        zf_auto(ranks_said) struct zf_ranks_said *said =
            zf_ranks_said_new(m->torch, m->path, lim, err);

        if (!said) {
            return err->path[0] ? false : zf_err_in(err, "%s", m->path);
        }
        if (i && same_kind(m, &s->member.at[i - 1])) {
            if (!zf_ranks_said_compare(said, first, err)) {
                return false;
            }
            continue;
        }
        zf_ranks_said_free(first);
        first = said;
        said = NULL;
    }
    return true;
}

/* ---- placing ---- */

/* The step that a file of weights names at its top, for `info`. */
static void tell_step(const struct member *m, struct zf_build *b)
{
    static const char *const key[] = {"global_step", "step", "iteration", "iter"};
    const struct zf_pv *root = zf_torch_root(m->torch);
    int64_t step;

    for (size_t i = 0; m->role == ZF_ROLE_WEIGHTS && i < sizeof key / sizeof key[0]; i++) {
        if (zf_pv_kind(zf_pv_get(root, key[i])) == ZF_PV_INT &&
            zf_pv_int(zf_pv_get(root, key[i]), &step)) {
            zf_build_step(b, step);
            return;
        }
    }
}

static struct zf_place_file file_of(const struct member *m, struct zf_join *join)
{
    return (struct zf_place_file){
        .torch = m->torch,
        .path = m->path,
        .head = m->head[0] ? m->head : NULL,
        .extra = m->role == ZF_ROLE_REST,
        .only_taken = m->rank > 0,
        .take = zf_join_take,
        .ctx = join,
    };
}

/* What a file holds at its top, for a sentence. */
static void describe_root(const struct zf_torch *t, char out[160])
{
    const struct zf_pv *root = zf_torch_root(t);
    static const char *const kind[] = {
        [ZF_PV_DICT] = "a dict",      [ZF_PV_LIST] = "a list", [ZF_PV_TUPLE] = "a tuple",
        [ZF_PV_SET] = "a set",        [ZF_PV_STR] = "a text",  [ZF_PV_PERSID] = "a bare storage",
        [ZF_PV_EXT] = "another value"};

    if (zf_pv_kind(root) == ZF_PV_CALL) {
        (void)snprintf(out, 160, "an object of \"%.80s.%.60s\"", zf_pv_module(root),
                       zf_pv_name(root));
    } else {
        const char *word = kind[zf_pv_kind(root)];

        (void)snprintf(out, 160, "%s", word ? word : "another value");
    }
}

/* A storage that nobody shows is not passed over in silence: it is counted, and a checkpoint that
 * has storages but no tensor is refused, for an empty directory would be taken for the answer.
 * Files of other ranks are copies of what the first one shows. */
static bool note_unread(const struct zf_torch_set *s, struct zf_build *b, struct zf_err *err)
{
    const struct member *met = NULL;
    uint64_t n, unread, n_met = 0;
    char root[160];

    for (size_t i = 0; i < s->member.n; i++) {
        const struct member *m = &s->member.at[i];

        zf_torch_storages(m->torch, &n, &unread);
        if (m->rank > 0 || unread == 0) {
            continue;
        }
        met = met ? met : m;
        n_met = met == m ? n : n_met;
        if (zf_build_n_tensors(b) > 0 &&
            !zf_build_note(b, err, "%s: %llu of its %llu storages belong to no tensor shown here",
                           m->path, (unsigned long long)unread, (unsigned long long)n)) {
            return false;
        }
    }
    if (!met || s->beside || zf_build_n_tensors(b) > 0) {
        return true;
    }
    const char *note = zf_build_first_note(b);

    describe_root(met->torch, root);
    (void)zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                  "%llu %s, but no tensor that could be shown; %s%.200s", (unsigned long long)n_met,
                  n_met == 1 ? "storage" : "storages", note ? "" : "at its top is ",
                  note ? note : root);
    (void)zf_err_in(err, "%s", met->path);
    return zf_forgive(b, err);
}

static bool place_members(struct zf_torch_set *s, struct zf_names *names, struct zf_join *join,
                          const struct zf_limits *lim, struct zf_build *b, struct zf_err *err)
{
    size_t n_first = 0;

    for (size_t i = 0; i < s->member.n; i++) {
        n_first += s->member.at[i].rank == 0;
    }
    for (size_t i = 0; i < s->member.n; i++) {
        const struct member *m = &s->member.at[i];
        struct zf_place_file f = file_of(m, join);

        if (m->rank == 0) {
            tell_step(m, b);
        }
        zf_join_file(join, &f, m->rank);
        if (!zf_place_all(b, names, &f, lim, err) ||
            (m->rank == 0 &&
             !zf_state_add(b, &f, n_first == 1 && !s->beside ? NULL : m->path, lim, err))) {
            return false;
        }
    }
    return zf_join_finish(join, err) && note_unread(s, b, err);
}

/* "pytorch_model_1.bin": the second model of accelerate's save_state; answers its number, else
 * NULL. Source: accelerate/checkpointing.py, save_accelerator_state (0.20 … 1.15). */
static const char *model_number(const struct member *m)
{
    static const char stem[] = "pytorch_model_";
    const char *number = m->path + sizeof stem - 1;

    return m->role == ZF_ROLE_WEIGHTS && strncmp(m->path, stem, sizeof stem - 1) == 0 &&
                   *number != '.' && strcmp(number + strspn(number, "0123456789"), ".bin") == 0
               ? number
               : NULL;
}

/* Several models: the first is the container, the others stand beside it. */
static void name_models(struct zf_torch_set *s)
{
    bool several = false;

    for (size_t i = 0; i < s->member.n; i++) {
        struct member *m = &s->member.at[i];
        const char *number = model_number(m);

        if (number) {
            (void)snprintf(m->head, sizeof m->head, "model_%.*s", (int)strcspn(number, "."),
                           number);
            several = true;
        }
    }
    for (size_t i = 0; several && i < s->member.n; i++) {
        struct member *m = &s->member.at[i];

        if (strcmp(m->path, "pytorch_model.bin") == 0) {
            (void)snprintf(m->head, sizeof m->head, "model");
        }
    }
}

bool zf_torch_set_place(struct zf_torch_set *s, uint32_t world, struct zf_build *b,
                        struct zf_err *err)
{
    const struct zf_limits *lim = s->files.lim;
    zf_auto(names) struct zf_names *names = zf_names_new(NULL, err);
    zf_auto(join) struct zf_join *join = names ? zf_join_new(b, names, world, lim, err) : NULL;

    name_models(s);
    if (!join || !check_owners(s, lim, err) || (world > 1 && !check_agree(s, lim, err))) {
        return false;
    }
    for (size_t i = 0; i < s->member.n; i++) {
        struct zf_place_file f = file_of(&s->member.at[i], NULL);

        if (!zf_place_see(names, &f, lim, err)) {
            return zf_err_in(err, "%s", f.path);
        }
    }
    return place_members(s, names, join, lim, b, err);
}
