/* SPDX-License-Identifier: Apache-2.0 */
/* Llama as Meta releases it: consolidated.NN.pth, one torch.save file for each tensor-parallel rank, and
 * params.json beside them.  One such file alone is format torch's.  docs/formats/consolidated.md. */
#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/torch_ahead.h>
#include <zf/assemble/torch_files.h>
#include <zf/assemble/torch_place.h>
#include <zf/assemble/tp_rules.h>
#include <zf/format.h>

#include "llama.h"

extern const struct zf_format zf_format_consolidated;

#define RANKS_MOST 1000
#define RANK_NAME 32 /* bytes of "consolidated.NN.pth" and of "mp_rank_NN" */

static void consolidated_name(char out[RANK_NAME], uint32_t rank)
{
    (void)snprintf(out, RANK_NAME, "consolidated.%02u.pth", rank);
}

/* The number of such files that follow each other from 00 on; *n_all: of all of them. */
static bool consolidated_count(struct zf_store *st, uint32_t *n_out, uint32_t *n_all,
                               struct zf_err *err)
{
    const struct zf_entry *e;
    char name[RANK_NAME];
    unsigned rank;
    size_t n;

    *n_out = *n_all = 0;
    if (!zf_store_list(st, "", &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) { /* in natural order */
        if (sscanf(e[i].name, "consolidated.%3u.pth", &rank) != 1 || rank >= RANKS_MOST) {
            continue;
        }
        consolidated_name(name, rank);
        if (strcmp(name, e[i].name) == 0) {
            *n_out += rank == *n_out;
            *n_all = rank + 1;
        }
    }
    return true;
}

static bool consolidated_probe(const struct zf_save *save, const struct zf_open_opts *o,
                               struct zf_probe *out, struct zf_err *err)
{
    char name[RANK_NAME];
    uint32_t n, all;

    (void)o;
    out->fit = ZF_FIT_NO;
    if (!consolidated_count(save->store, &n, &all, err)) {
        return false;
    }
    for (uint32_t r = 0; all > 1 && r < all && out->fit == ZF_FIT_NO; r++) {
        consolidated_name(name, r);
        if (zf_store_find(save->store, name) && zf_torch_set_sniff(save->store, name)) {
            out->fit = ZF_FIT_PROOF;
            (void)snprintf(out->why, sizeof out->why,
                           "consolidated.NN.pth of %u tensor-parallel ranks", all);
        }
    }
    return true;
}

/* ---- reading the ranks ---- */

struct consolidated {
    struct zf_store *st;
    const struct zf_open_opts *o;
    struct zf_build *b;
    struct zf_arena *a;
    uint32_t n;                      /* ranks */
    const char **path;               /* [n] files */
    const char **tree;               /* [n] where each is drafted: "mp_rank_NN" */
    bool lost;                       /* a file could not be read, in a degraded build */
    const struct zf_tp_rules *rules; /* or NULL */
    struct llama_width width;
};

static bool consolidated_names(struct consolidated *c, struct zf_err *err)
{
    c->path = zf_arena_get(c->a, c->n, sizeof *c->path, err);
    c->tree = c->path ? zf_arena_get(c->a, c->n, sizeof *c->tree, err) : NULL;
    for (uint32_t r = 0; c->tree && r < c->n; r++) {
        char name[RANK_NAME];

        consolidated_name(name, r);
        c->path[r] = zf_arena_str(c->a, name, strlen(name), err);
        c->tree[r] = c->path[r] ? zf_arena_fmt(c->a, err, "mp_rank_%02u", r) : NULL;
        if (!c->tree[r]) {
            return false;
        }
    }
    return c->tree != NULL;
}

/* Drafts a rank's tensors in its tree; plain values are the first rank's. */
static bool consolidated_place(struct consolidated *c, uint32_t rank, struct zf_torch *t,
                               struct zf_err *err)
{
    const struct zf_place_file f = {.torch = t, .path = c->path[rank]};
    zf_auto(names) struct zf_names *names = zf_names_new(err);

    return names && zf_build_prefix(c->b, c->tree[rank], err) &&
           zf_place_see(names, &f, c->o->lim, err) &&
           zf_place_all(c->b, names, &f, c->o->lim, err) && zf_build_prefix(c->b, "", err) &&
           (rank > 0 || zf_state_add(c->b, &f, NULL, c->o->lim, err)) &&
           zf_place_note_unread(c->b, &f, err);
}

/* Degraded: a file that cannot be read is noted, as long as another one can. */
static bool consolidated_read(struct consolidated *c, struct zf_err *err)
{
    struct zf_torch_ahead ahead = {.st = c->st, .lim = c->o->lim};
    struct zf_err first = {.code = ZF_OK};
    uint32_t n_read = 0;
    bool ok = zf_torch_ahead_begin(&ahead, c->path, c->n, err);

    for (uint32_t r = 0; ok && r < c->n; r++) {
        zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&ahead, c->path[r], err);

        if (t) {
            n_read++;
            ok = consolidated_place(c, r, t, err) || zf_err_in(err, "%s", c->path[r]);
            continue;
        }
        first = first.code == ZF_OK ? *err : first;
        ok = zf_forgive(c->b, err);
        c->lost = true;
    }
    zf_torch_ahead_fini(&ahead);
    if (ok && n_read == 0) {
        *err = first;
    }
    return ok && n_read > 0;
}

/* ---- joining them ---- */

static bool consolidated_cut(void *ctx, const struct zf_tree_tensor *t, struct zf_cut *out,
                             struct zf_err *err)
{
    struct consolidated *c = ctx;
    struct zf_cut_rule rule = {.kind = ZF_CUT_COPIES};
    bool ok = c->rules
                  ? t->ndim == 0 || zf_tp_rules_find(c->rules, t->name, t->name_len, &rule, err)
                  : llama_cut(&c->width, t, &rule, err);

    return ok && zf_cut_lay(&rule, t->ndim, t->shard, t->n_ranks, c->a, out, err);
}

static bool consolidated_done(void *ctx, struct zf_err *err)
{
    const struct consolidated *c = ctx;

    return c->rules || c->width.proved ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "no tensor proves that there are %u ranks and not more", c->n);
}

/* The widths, unless the user says how ranks are joined.  *why: why they are not known, or NULL. */
static bool consolidated_widths(struct consolidated *c, char why[520], struct zf_err *err)
{
    static const char norm[] = "norm.weight";
    const struct zf_spot spot = {"", norm, sizeof norm - 1};
    const struct zf_draft *d = zf_build_find_below(c->b, c->tree[0], spot);

    why[0] = '\0';
    if (c->rules) {
        return true;
    }
    if (!d || zf_draft_type(d).ndim != 1) {
        (void)snprintf(why, 520, "there is no \"%s\", as Llama has one", norm);
        return true;
    }
    if (llama_width_read(c->st, zf_draft_type(d).shape[0], c->o->lim, &c->width, err)) {
        return true;
    }
    if (err->code != ZF_E_FORMAT) {
        return false;
    }
    (void)snprintf(why, 520, "%.40s: %.460s", err->path, err->msg);
    zf_err_clear(err);
    return true;
}

static bool consolidated_join(struct consolidated *c, struct zf_err *err)
{
    struct zf_tree_join join = {.b = c->b,
                                .tree = c->tree,
                                .n_stages = 1,
                                .n_ranks = c->n,
                                .cut = consolidated_cut,
                                .done = consolidated_done,
                                .ctx = c,
                                .told = c->rules != NULL};
    char why[520];

    if (c->lost) {
        return zf_tree_stay(c->b, c->n, "the file of a rank cannot be read", err);
    }
    if (!consolidated_widths(c, why, err)) {
        return false;
    }
    return why[0] ? zf_tree_stay(c->b, c->n, why, err) : zf_tree_join_or_stay(&join, err);
}

static bool consolidated_open(const struct zf_save *save, const struct zf_open_opts *o,
                              struct zf_build *b, struct zf_err *err)
{
    struct consolidated c = {.st = save->store, .o = o, .b = b};
    uint32_t n;

    if (!consolidated_count(save->store, &n, &c.n, err)) {
        return false;
    }
    if (n < c.n && !o->degraded) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "consolidated.%02u.pth is missing, though there is consolidated.%02u.pth", n,
                       c.n - 1);
    }
    zf_auto(arena) struct zf_arena *a = zf_arena_new(o->lim->model_memory, err);
    zf_auto(tp_rules) struct zf_tp_rules *rules =
        a && o->tp_rules ? zf_tp_rules_load(o->tp_rules, err) : NULL;
    c.a = a;
    c.rules = rules;
    return a && (rules || !o->tp_rules) && consolidated_names(&c, err) &&
           consolidated_read(&c, err) && consolidated_join(&c, err);
}

const struct zf_format zf_format_consolidated = {
    .name = "consolidated",
    .summary = "consolidated.NN.pth: the tensor-parallel ranks of Meta's Llama",
    .refines = "torch",
    .tp_rules = true,
    .whole = true,
    .probe = consolidated_probe,
    .open = consolidated_open,
};
