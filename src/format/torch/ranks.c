/* SPDX-License-Identifier: Apache-2.0 */
/* One torch.save file a rank, joined: DTensors (verl, NeMo-RL: model_world_size_W_rank_R.pt),
 * ShardedTensors (FSDP1 and OLMo: rankR.pt).  docs/formats/ranks.md says what is where. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/st_files.h>
#include <zf/assemble/torch_files.h>
#include <zf/base/vec.h>
#include <zf/format.h>

extern const struct zf_format zf_format_ranks;

#define RANKS_MAX 1000000

/* A file name taken apart: <stem>[world_size_<W>_]rank[_]<R><tail>. */
struct rank_name {
    size_t stem;    /* bytes in front of "rank" or "world_size_" */
    uint64_t rank;  /* R */
    uint64_t world; /* W, 0 = not said */
    const char *tail;
};

/* Reads decimal digits; *p moves behind them.
 * False when there is none or the number is too large. */
static bool ranks_number(const char **p, uint64_t *out)
{
    size_t n = strspn(*p, "0123456789");

    if (n == 0 || n > 7) {
        return false;
    }
    *out = strtoull(*p, NULL, 10);
    *p += n;
    return true;
}

/* The last "rank" in name that is followed by digits and an ending. */
static bool ranks_parse(const char *name, struct rank_name *out)
{
    static const char size_word[] = "world_size_";
    const char *at = NULL, *p;

    for (const char *next = name; (next = strstr(next, "rank")); next++) {
        at = next;
    }
    if (!at || (at > name && at[-1] != '_' && at[-1] != '.' && at[-1] != '-')) {
        return false;
    }
    *out = (struct rank_name){.stem = (size_t)(at - name)};
    p = at + 4;
    p += *p == '_' || *p == '-';
    if (!ranks_number(&p, &out->rank) || *p != '.' || !zf_torch_set_named(name)) {
        return false;
    }
    out->tail = p;
    const char *size = strstr(name, size_word);
    p = size ? size + sizeof size_word - 1 : NULL;
    if (size && size < at && ranks_number(&p, &out->world) && p + 1 == at) {
        out->stem = (size_t)(size - name);
    }
    return true;
}

/* What the files of one stem hold. */
static enum zf_torch_role ranks_role_of(const char *name, size_t stem)
{
    return stem > 0 ? zf_torch_set_role(name) : ZF_ROLE_WEIGHTS;
}

/* The files of one stem. */
struct group {
    const char *first; /* name of the file with the least rank; borrowed from the listing */
    struct rank_name name;
    uint64_t n, max; /* files, greatest rank */
    enum zf_torch_role role;
};

enum { GROUPS_MAX = 16 };

struct groups {
    struct group group[GROUPS_MAX];
    size_t n;
};

static bool ranks_same_group(const struct group *g, const char *name, const struct rank_name *r)
{
    return g->name.stem == r->stem && strncmp(g->first, name, r->stem) == 0 &&
           strcmp(g->name.tail, r->tail) == 0 && (g->name.world != 0) == (r->world != 0);
}

/* Adds one file to its group.  A second world size in one group sets *mixed. */
static void ranks_sort_in(struct groups *all, const char *name, const struct rank_name *r,
                          bool *mixed)
{
    for (size_t i = 0; i < all->n; i++) {
        struct group *g = &all->group[i];

        if (ranks_same_group(g, name, r)) {
            *mixed = *mixed || g->name.world != r->world;
            g->n++;
            g->max = r->rank > g->max ? r->rank : g->max;
            return;
        }
    }
    if (all->n < GROUPS_MAX) {
        all->group[all->n++] = (struct group){.first = name,
                                              .name = *r,
                                              .n = 1,
                                              .max = r->rank,
                                              .role = ranks_role_of(name, r->stem)};
    }
}

/* The groups of the directory; of several that hold weights, the one whose file was pointed at. */
static bool ranks_look(const struct zf_save *save, struct groups *all, bool *mixed,
                       struct zf_err *err)
{
    const char *file = save->file;
    struct rank_name r, want;
    const struct zf_entry *e;
    size_t n;

    all->n = 0;
    *mixed = false;
    if (!zf_store_list(save->store, "", &e, &n, err)) {
        return false;
    }
    if (file && !ranks_parse(file, &want)) {
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        if (!ranks_parse(e[i].name, &r)) { /* what is no file is refused when it is opened */
            continue;
        }
        /* Pointed at a file: its own group, and what has the same scheme but is no weights. */
        struct group asked = {.first = file, .name = want};
        if (!file || ranks_same_group(&asked, e[i].name, &r) ||
            (want.world != 0 && r.world == want.world &&
             ranks_role_of(e[i].name, r.stem) != ZF_ROLE_WEIGHTS)) {
            ranks_sort_in(all, e[i].name, &r, mixed);
        }
    }
    return true;
}

/* Do all groups have their files? */
static bool ranks_complete(const struct groups *all, bool mixed)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct group *g = &all->group[i];

        if ((mixed && g->name.world) || g->n != (g->name.world ? g->name.world : g->max + 1)) {
            return false;
        }
    }
    return true;
}

static bool ranks_has_safetensors(struct zf_store *st)
{
    for (struct zf_entries l = zf_store_entries(st, ""); l.e < l.end; l.e++) {
        if (l.e->kind == ZF_ENTRY_FILE && zf_st_file_named(l.e->name)) {
            return true;
        }
    }
    return false;
}

/* The first file of the group that torch.save wrote, with tensors in it, or NULL. */
static const char *ranks_sound_one(struct zf_store *st, const struct group *g,
                                   const struct zf_limits *lim)
{
    struct rank_name r;

    for (struct zf_entries l = zf_store_entries(st, ""); l.e < l.end; l.e++) {
        if (ranks_parse(l.e->name, &r) && ranks_same_group(g, l.e->name, &r) &&
            zf_torch_set_holds(st, l.e->name, lim)) {
            return l.e->name;
        }
    }
    return NULL;
}

static bool ranks_probe(const struct zf_save *save, const struct zf_open_opts *o,
                        struct zf_probe *out, struct zf_err *err)
{
    struct groups all;
    bool mixed;

    out->fit = ZF_FIT_NO;
    if (!ranks_look(save, &all, &mixed, err)) {
        return false;
    }
    /* What is left of another run does not hide whole weights;
     * alone, open() says what is missing. */
    if (!save->file && !ranks_complete(&all, mixed) && ranks_has_safetensors(save->store)) {
        return true;
    }
    for (size_t i = 0; i < all.n; i++) {
        const char *name = all.group[i].role == ZF_ROLE_WEIGHTS
                               ? ranks_sound_one(save->store, &all.group[i], o->lim)
                               : NULL;

        if (name && out->fit != ZF_FIT_PROOF) {
            out->fit = ZF_FIT_PROOF;
            snprintf(out->why, sizeof out->why, "one file a rank, such as %.80s", name);
        }
    }
    return true;
}

/* All ranks from 0 on must have a file, and as many as the names say. */
static bool ranks_check_group(const struct group *g, bool mixed, bool degraded, struct zf_build *b,
                              struct zf_err *err)
{
    uint64_t want = g->name.world ? g->name.world : g->max + 1;

    if (mixed && g->name.world) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "there are files of several world sizes (one is %.80s): files of two saves",
                       g->first);
    }
    if (g->max >= want) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "there is a file of rank %" PRIu64 ", but %.80s says %" PRIu64 " ranks",
                       g->max, g->first, want);
    }
    if (g->n == want) {
        return true;
    }
    if (degraded) {
        return zf_build_note(b, err, "%" PRIu64 " of %" PRIu64 " ranks have a file like %s", g->n,
                             want, g->first);
    }
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "only %" PRIu64 " of %" PRIu64 " ranks have a file like %.80s", g->n, want,
                   g->first);
}

/* Exactly one group may hold weights; the world size of the others must be the same. */
static bool ranks_check_groups(const struct groups *all, bool mixed, bool degraded, uint32_t *world,
                               struct zf_build *b, struct zf_err *err)
{
    const struct group *weights = NULL;

    for (size_t i = 0; i < all->n; i++) {
        const struct group *g = &all->group[i];

        if (g->role == ZF_ROLE_WEIGHTS && weights) {
            return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                           "there are files of several checkpoints here: point at %.80s or %.80s",
                           weights->first, g->first);
        }
        weights = g->role == ZF_ROLE_WEIGHTS ? g : weights;
        if (!ranks_check_group(g, mixed, degraded, b, err)) {
            return false;
        }
    }
    if (!weights) {
        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE, "there are no ranks' files of weights here");
    }
    uint64_t n = weights->name.world ? weights->name.world : weights->max + 1;
    if (n > RANKS_MAX) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "%" PRIu64 " ranks are more than %d", n,
                       RANKS_MAX);
    }
    *world = (uint32_t)n;
    return true;
}

struct rank_file {
    enum zf_torch_role role;
    struct zf_coord at;
};

struct rank_files {
    zf_vec(struct rank_file) of;
    zf_vec(const char *) name; /* borrowed from the listing */
};

/* The files of the groups, rank by rank in each. */
static bool ranks_list_files(struct zf_store *st, const struct groups *all, struct rank_files *out,
                             struct zf_err *err)
{
    const struct zf_entry *e;
    struct rank_name r;
    size_t n;

    if (!zf_store_list(st, "", &e, &n, err)) {
        return false;
    }
    for (size_t g = 0; g < all->n; g++) {
        for (size_t i = 0; i < n; i++) { /* natural order: ranks ascend */
            if (!ranks_parse(e[i].name, &r) || !ranks_same_group(&all->group[g], e[i].name, &r)) {
                continue;
            }
            struct rank_file *f = zf_vec_push(&out->of, err);
            const char **name = f ? zf_vec_push(&out->name, err) : NULL;
            if (!name) {
                return false;
            }
            *name = e[i].name;
            *f = (struct rank_file){all->group[g].role, zf_coord_data((uint32_t)r.rank)};
        }
    }
    return true;
}

/* Opens the files.  Degraded: a file that cannot be opened is noted and as good as missing, as long
 * as another one can. */
static bool ranks_add_files(struct zf_torch_set *s, const struct rank_files *files,
                            struct zf_build *b, struct zf_err *err)
{
    struct zf_err first = {.code = ZF_OK};
    size_t added = 0;

    if (!zf_torch_set_expect(s, files->name.at, files->name.n, err)) {
        return false;
    }
    for (size_t i = 0; i < files->of.n; i++) {
        const struct rank_file *f = &files->of.at[i];

        if (zf_torch_set_add(s, files->name.at[i], f->role, f->at, err)) {
            added++;
            continue;
        }
        first = first.code == ZF_OK ? *err : first;
        if (!zf_forgive(b, err)) {
            return false;
        }
    }
    if (added == 0) {
        *err = first;
    }
    return added > 0;
}

static bool ranks_open_ranks(const struct zf_save *save, const struct zf_open_opts *o,
                             struct zf_build *b, struct zf_err *err)
{
    struct zf_torch_set *s = NULL;
    struct rank_files files = {0};
    struct zf_mesh mesh = {0};
    struct groups all;
    bool mixed;

    bool ok = ranks_look(save, &all, &mixed, err) &&
              ranks_check_groups(&all, mixed, o->degraded, &mesh.size[ZF_AXIS_DATA], b, err) &&
              ranks_list_files(save->store, &all, &files, err) &&
              (s = zf_torch_set_new(b, save->store, &mesh, false, o->lim, err)) &&
              ranks_add_files(s, &files, b, err) && zf_torch_set_place(s, err);
    zf_torch_set_free(s);
    zf_vec_fini(&files.of);
    zf_vec_fini(&files.name);
    return ok;
}

const struct zf_format zf_format_ranks = {
    .name = "ranks",
    .summary = "one torch.save file a rank: DTensors and ShardedTensors (verl, NeMo-RL, FSDP)",
    .refines = "torch",
    .one_file = true,
    .shards = true,
    .probe = ranks_probe,
    .open = ranks_open_ranks,
};
