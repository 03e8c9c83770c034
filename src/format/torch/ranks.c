/* SPDX-License-Identifier: Apache-2.0 */
/* Joins one torch.save file per rank: DTensors (verl, NeMo-RL: model_world_size_W_rank_R.pt),
 * ShardedTensors (FSDP1 and OLMo: rankR.pt).  docs/formats/ranks.md describes the files. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/companions.h>
#include <zf/assemble/degraded.h>
#include <zf/assemble/st_files.h>
#include <zf/assemble/torch_files.h>
#include <zf/base/vec.h>
#include <zf/format.h>

extern const struct zf_format zf_format_ranks;

#define RANKS_MAX 1000000

/* The parts of a file name: <stem>[world_size_<W>_]rank[_]<R><tail>. */
struct rank_name {
    size_t stem;    /* length before "rank" or "world_size_" */
    uint64_t rank;  /* R */
    uint64_t world; /* W, 0 = not in the name */
    const char *tail;
};

/* Parses decimal digits and moves *p past them.
 * False when there is none or the number is too large. */
static bool ranks_number(const char **p, uint64_t *out)
{
    size_t n = strspn(*p, "0123456789");

    if (n == 0 || n > 7)
        return false;
    *out = strtoull(*p, NULL, 10);
    *p += n;
    return true;
}

/* True if the "rank" at `at` is a whole word, followed by digits and an extension. */
static bool ranks_parse_at(const char *name, const char *at, struct rank_name *out)
{
    const char *p = at + 4;

    if (at > name && at[-1] != '_' && at[-1] != '.' && at[-1] != '-')
        return false;
    *out = (struct rank_name){.stem = (size_t)(at - name)};
    p += *p == '_' || *p == '-';
    if (!ranks_number(&p, &out->rank) || *p != '.')
        return false;
    out->tail = p;
    return true;
}

/* Parses the last "rank" in name that is followed by digits and an extension. */
static bool ranks_parse(const char *name, struct rank_name *out)
{
    static const char size_word[] = "world_size_";
    struct rank_name r;
    bool found = false;

    for (const char *at = name; zf_torch_set_named(name) && (at = strstr(at, "rank")); at++) {
        if (ranks_parse_at(name, at, &r)) {
            *out = r;
            found = true;
        }
    }
    const char *size = found ? strstr(name, size_word) : NULL;
    const char *p = size ? size + sizeof size_word - 1 : NULL;
    const char *at = found ? name + out->stem : NULL;

    if (size && size < at && ranks_number(&p, &r.world) && p + 1 == at) {
        out->world = r.world;
        out->stem = (size_t)(size - name);
    }
    return found;
}

/* The role of files with this stem: weights, optimizer, or other. */
static enum zf_torch_role ranks_role_of(const char *name, size_t stem)
{
    return stem > 0 ? zf_torch_set_role(name) : ZF_ROLE_WEIGHTS;
}

/* A file of a rank. */
struct rank_file {
    const char *path; /* borrowed from the listing */
    struct rank_name name;
    size_t at; /* index in the listing */
};

/* The files with the same stem, sorted by rank. */
struct group {
    const struct rank_file *file; /* the first of n */
    size_t n;
    uint64_t n_ranks, max;         /* number of ranks with a file; largest rank */
    const struct rank_file *twice; /* a file of the same rank as the one before it; NULL = none */
    bool mixed;                    /* the world sizes differ */
    enum zf_torch_role role;
};

struct groups {
    zf_vec(struct rank_file) file;
    zf_vec(struct group) of;
    zf_vec(const char *) path; /* of the files in the order in which they are opened */
};

static void zf_auto_groups(struct groups *all)
{
    zf_vec_fini(&all->file);
    zf_vec_fini(&all->of);
    zf_vec_fini(&all->path);
}

/* Compares the groups of two files; 0: the same group. */
static int ranks_cmp_group(const struct rank_file *x, const struct rank_file *y)
{
    bool worlds[] = {x->name.world != 0, y->name.world != 0};

    if (x->name.stem != y->name.stem || worlds[0] != worlds[1]) {
        return x->name.stem != y->name.stem ? (x->name.stem < y->name.stem ? -1 : 1)
                                            : worlds[0] - worlds[1];
    }
    int by = memcmp(x->path, y->path, x->name.stem);

    return by ? by : strcmp(x->name.tail, y->name.tail);
}

static int ranks_cmp_file(const void *a, const void *b)
{
    const struct rank_file *x = a, *y = b;
    int by = ranks_cmp_group(x, y);

    by = by ? by : (x->name.rank > y->name.rank) - (x->name.rank < y->name.rank);
    return by ? by : (x->at > y->at) - (x->at < y->at);
}

/* Sorts groups in the order of the listing. */
static int ranks_cmp_first(const void *a, const void *b)
{
    size_t x = ((const struct group *)a)->file->at, y = ((const struct group *)b)->file->at;

    return (x > y) - (x < y);
}

/* The group whose first file is all->file[from]. */
static struct group ranks_group(const struct groups *all, size_t from)
{
    const struct rank_file *f = &all->file.at[from];
    struct group g = {.file = f, .role = ranks_role_of(f->path, f->name.stem)};

    for (; from + g.n < all->file.n && ranks_cmp_group(f, &f[g.n]) == 0; g.n++) {
        if (g.n == 0 || f[g.n].name.rank != g.max)
            g.n_ranks++;
        else
            g.twice = g.twice ? g.twice : &f[g.n];
        g.max = f[g.n].name.rank;
        g.mixed = g.mixed || f[g.n].name.world != f->name.world;
    }
    return g;
}

/* Finds the groups of the directory; if several have weights, the one whose file was given. */
static bool ranks_look(const struct zf_save *save, struct groups *all, struct zf_err *err)
{
    struct rank_file f, want = {.path = save->file};
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(save->store, "", &e, &n, err))
        return false;
    if (want.path && !ranks_parse(want.path, &want.name))
        return true;
    for (size_t i = 0; i < n; i++) {
        f = (struct rank_file){.path = e[i].name, .at = i};
        if (!ranks_parse(f.path,
                         &f.name)) /* an entry that is not a file is refused when it is opened */
            continue;
        /* If a file was given: its group, and groups named in the same way that have no weights. */
        if (!want.path || ranks_cmp_group(&want, &f) == 0 ||
            (want.name.world != 0 && f.name.world == want.name.world &&
             ranks_role_of(f.path, f.name.stem) != ZF_ROLE_WEIGHTS)) {
            struct rank_file *to = zf_vec_push(&all->file, err);

            if (!to)
                return false;
            *to = f;
        }
    }
    if (all->file.n == 0)
        return true;
    qsort(all->file.at, all->file.n, sizeof *all->file.at, ranks_cmp_file);
    for (size_t i = 0; i < all->file.n; i += all->of.at[all->of.n - 1].n) {
        struct group *g = zf_vec_push(&all->of, err);

        if (!g)
            return false;
        *g = ranks_group(all, i);
    }
    qsort(all->of.at, all->of.n, sizeof *all->of.at, ranks_cmp_first);
    return true;
}

/* The number of ranks that saved. */
static uint64_t ranks_world(const struct group *g)
{
    return g->file->name.world ? g->file->name.world : g->max + 1;
}

/* True if no group lacks a file. */
static bool ranks_complete(const struct groups *all)
{
    for (size_t i = 0; i < all->of.n; i++) {
        const struct group *g = &all->of.at[i];

        if (g->mixed || g->twice || g->n_ranks != ranks_world(g))
            return false;
    }
    return true;
}

static bool ranks_has_safetensors(struct zf_store *st)
{
    for (struct zf_entries l = zf_store_entries(st, ""); l.e < l.end; l.e++)
        if (l.e->kind == ZF_ENTRY_FILE && zf_st_file_named(l.e->name))
            return true;
    return false;
}

/* The first intact torch.save file of the group that contains tensors, or NULL. */
static const char *ranks_sound_one(struct zf_store *st, const struct group *g,
                                   const struct zf_limits *lim)
{
    for (size_t i = 0; i < g->n; i++)
        if (zf_torch_set_holds(st, g->file[i].path, lim))
            return g->file[i].path;
    return NULL;
}

static bool ranks_probe(const struct zf_save *save, const struct zf_open_opts *o,
                        struct zf_probe *out, struct zf_err *err)
{
    zf_auto(groups) struct groups all = {0};

    out->fit = ZF_FIT_NO;
    if (!ranks_look(save, &all, err))
        return false;
    /* Incomplete leftovers of another run must not hide complete weights;
     * without these, open() reports the missing files. */
    if (!save->file && !ranks_complete(&all) && ranks_has_safetensors(save->store))
        return true;
    for (size_t i = 0; i < all.of.n && out->fit != ZF_FIT_PROOF; i++) {
        const char *name = all.of.at[i].role == ZF_ROLE_WEIGHTS
                               ? ranks_sound_one(save->store, &all.of.at[i], o->lim)
                               : NULL;

        if (name) {
            out->fit = ZF_FIT_PROOF;
            snprintf(out->why, sizeof out->why, "one file a rank, such as %.80s", name);
        }
    }
    return true;
}

/* Checks that all ranks from 0 on have a file, as many as the world size in the names. */
static bool ranks_check_group(const struct group *g, bool degraded, struct zf_build *b,
                              struct zf_err *err)
{
    const char *first = g->file->path;
    uint64_t want = ranks_world(g);

    if (g->mixed) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "there are files of several world sizes (one is %.80s): two saves are mixed",
                       first);
    }
    if (g->twice) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "%.80s and %.80s belong to the same rank: two saves are mixed",
                       g->twice[-1].path, g->twice->path);
    }
    if (g->max >= want) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "there is a file of rank %" PRIu64 ", but by %.80s there are %" PRIu64
                       " ranks",
                       g->max, first, want);
    }
    if (g->n_ranks == want)
        return true;
    if (degraded) {
        return zf_build_note(b, err, "only %" PRIu64 " of %" PRIu64 " ranks have a file like %s",
                             g->n_ranks, want, first);
    }
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "only %" PRIu64 " of %" PRIu64 " ranks have a file like %.80s", g->n_ranks, want,
                   first);
}

/* Compares the groups' numbers of ranks with that of `most`.  A difference is an error (two saves are mixed) if the
 * names give the world size; else it is noted, because some files may not be written by every rank. */
static bool ranks_compare(const struct groups *all, const struct group *most, struct zf_build *b,
                          struct zf_err *err)
{
    const uint64_t want = ranks_world(most);

    for (size_t i = 0; i < all->of.n; i++) {
        const struct group *g = &all->of.at[i];

        if (ranks_world(g) == want)
            continue;
        if (g->file->name.world && most->file->name.world) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "%.80s and %.80s give different numbers of ranks: two saves are mixed",
                           g->file->path, most->file->path);
        }
        if (!zf_build_note(b, err,
                           "only %" PRIu64 " of %" PRIu64
                           " ranks have a file like %.80s; the number of ranks is from %.80s",
                           g->n_ranks, want, g->file->path, most->file->path))
            return false;
    }
    return true;
}

/* Checks that exactly one group has weights, and sets *world to its number of ranks. */
static bool ranks_check_groups(const struct groups *all, bool degraded, uint32_t *world,
                               struct zf_build *b, struct zf_err *err)
{
    const struct group *weights = NULL, *most = NULL;

    for (size_t i = 0; i < all->of.n; i++) {
        const struct group *g = &all->of.at[i];

        most = most && ranks_world(most) >= ranks_world(g) ? most : g;
        if (g->role == ZF_ROLE_WEIGHTS && weights) {
            return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                           "there are files of several checkpoints here. Point at %.80s or %.80s",
                           weights->file->path, g->file->path);
        }
        weights = g->role == ZF_ROLE_WEIGHTS ? g : weights;
        if (!ranks_check_group(g, degraded, b, err))
            return false;
    }
    if (!weights)
        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE, "there are no weight files of ranks here");
    uint64_t n = ranks_world(weights);
    if (n > RANKS_MAX) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "there are %" PRIu64 " ranks, more than %d", n,
                       RANKS_MAX);
    }
    *world = (uint32_t)n;
    return ranks_compare(all, most, b, err);
}

/* Announces to the set which files will be opened, in order. */
static bool ranks_expect(struct zf_torch_set *s, struct groups *all, struct zf_err *err)
{
    for (size_t g = 0; g < all->of.n; g++) {
        for (size_t i = 0; i < all->of.at[g].n; i++) {
            const char **path = zf_vec_push(&all->path, err);

            if (!path)
                return false;
            *path = all->of.at[g].file[i].path;
        }
    }
    return zf_torch_set_expect(s, all->path.at, all->path.n, err);
}

/* Opens the files of each group, rank by rank.  Degraded: a file that cannot be opened is noted and treated as missing,
 * if at least one other can be opened. */
static bool ranks_add_files(struct zf_torch_set *s, const struct groups *all, struct zf_build *b,
                            struct zf_err *err)
{
    struct zf_err first = {.code = ZF_OK};
    size_t added = 0;

    for (size_t g = 0; g < all->of.n; g++) {
        for (size_t i = 0; i < all->of.at[g].n; i++) {
            const struct rank_file *f = &all->of.at[g].file[i];

            if (zf_torch_set_add(s, f->path, all->of.at[g].role,
                                 zf_coord_data((uint32_t)f->name.rank), err)) {
                added++;
                continue;
            }
            first = first.code == ZF_OK ? *err : first;
            if (!zf_forgive(b, err))
                return false;
        }
    }
    if (added == 0)
        *err = first;
    return added > 0;
}

/* True for a file that trainers save once, next to the ranks' files. */
static bool ranks_is_companion(const char *name)
{
    struct rank_name r;

    return zf_torch_set_named(name) && zf_torch_set_role(name) != ZF_ROLE_WEIGHTS &&
           !ranks_parse(name, &r);
}

static bool ranks_open_ranks(const struct zf_save *save, const struct zf_open_opts *o,
                             struct zf_build *b, struct zf_err *err)
{
    zf_auto(groups) struct groups all = {0}; /* borrowed by the set */
    zf_auto(torch_set) struct zf_torch_set *s = NULL;
    struct zf_mesh mesh = {0};

    return ranks_look(save, &all, err) &&
           ranks_check_groups(&all, o->degraded, &mesh.size[ZF_AXIS_DATA], b, err) &&
           (s = zf_torch_set_new(b, save->store, &mesh, false, o->lim, err)) &&
           ranks_expect(s, &all, err) && ranks_add_files(s, &all, b, err) &&
           zf_torch_set_place(s, err) &&
           (save->file || zf_companions_add_those(save->store, o, b, ranks_is_companion, err));
}

const struct zf_format zf_format_ranks = {
    .name = "ranks",
    .summary = "one torch.save file per rank: DTensors and ShardedTensors (verl, NeMo-RL, FSDP)",
    .refines = "torch",
    .one_file = true,
    .shards = true,
    .whole = true,
    .probe = ranks_probe,
    .open = ranks_open_ranks,
};
