/* SPDX-License-Identifier: Apache-2.0 */
/* Llama as released by Meta: consolidated.NN.pth, one torch.save file per tensor-parallel rank, and
 * params.json.  A single such file is opened by format torch.  docs/formats/consolidated.md. */
#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/llama.h>
#include <zf/assemble/numbered.h>
#include <zf/assemble/torch_ahead.h>
#include <zf/assemble/torch_files.h>
#include <zf/assemble/torch_place.h>
#include <zf/assemble/tp_rules.h>
#include <zf/format.h>

extern const struct zf_format zf_format_consolidated;

enum { CONSOLIDATED_RANKS_MAX = 1000 };

static const char consolidated_files[] = "consolidated.%02t.pth";

static bool consolidated_probe(const struct zf_save *save, const struct zf_open_opts *o,
                               struct zf_probe *out, struct zf_err *err)
{
    zf_auto(numbered) struct zf_numbered l = {.dir = NULL};

    (void)o;
    out->fit = ZF_FIT_NO;
    if (!zf_numbered_list(save->store, "", consolidated_files, &l, err))
        return false;
    uint32_t all = l.file.n ? l.file.at[l.file.n - 1].number[0] + 1 : 0;
    for (size_t i = 0; all > 1 && i < l.file.n && out->fit == ZF_FIT_NO; i++) {
        if (zf_torch_set_sniff(save->store, l.file.at[i].name)) {
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
    struct zf_ranks file;
    const char **tree; /* [file.n] the set of each file's draft: "mp_rank_NN" */
    struct zf_torch_ahead ahead;
    bool lost;                       /* a file could not be read, in a degraded build */
    const struct zf_tp_rules *rules; /* or NULL */
    struct zf_llama_width width;
};

static bool consolidated_names(struct consolidated *c, struct zf_err *err)
{
    if (c->file.n > CONSOLIDATED_RANKS_MAX) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "there are %u tensor-parallel ranks, more than %d", c->file.n,
                       CONSOLIDATED_RANKS_MAX);
    }
    c->tree = zf_arena_get(c->a, c->file.n, sizeof *c->tree, err);
    for (uint32_t r = 0; c->tree && r < c->file.n; r++) {
        c->tree[r] = zf_arena_fmt(c->a, err, "mp_rank_%02u", r);
        if (!c->tree[r])
            return false;
    }
    return c->tree != NULL;
}

/* Drafts a rank's tensors in its tree; other values are taken from the first rank. */
static bool consolidated_place(struct consolidated *c, uint32_t rank, struct zf_torch *t,
                               struct zf_err *err)
{
    const struct zf_place_file f = {.torch = t, .path = c->file.path[rank]};
    zf_auto(names) struct zf_names *names = zf_names_new(err);

    if (!names || !zf_build_prefix(c->b, c->tree[rank], err))
        return false;
    bool placed = zf_place_add_names(names, &f, c->o->lim, err) &&
                  zf_place_all(c->b, names, &f, c->o->lim, err);
    struct zf_err ignored; /* cannot fail: an empty prefix needs no memory */
    return zf_build_prefix(c->b, "", &ignored) && placed &&
           (rank > 0 || zf_state_add(c->b, &f, NULL, c->o->lim, err)) &&
           zf_place_note_unread(c->b, &f, err);
}

static bool consolidated_read(void *ctx, uint64_t rank, struct zf_err *err)
{
    struct consolidated *c = ctx;
    zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&c->ahead, c->file.path[rank], err);
    bool ok = t && (consolidated_place(c, (uint32_t)rank, t, err) ||
                    zf_err_in(err, "%s", c->file.path[rank]));

    c->lost = c->lost || !ok;
    return ok;
}

static bool consolidated_read_all(struct consolidated *c, struct zf_err *err)
{
    c->ahead = (struct zf_torch_ahead){.st = c->st, .lim = c->o->lim};
    bool ok = zf_torch_ahead_begin(&c->ahead, c->file.path, c->file.n, err) &&
              zf_read_each(c->b, c->file.n, consolidated_read, c, NULL, NULL, err);
    zf_torch_ahead_fini(&c->ahead);
    return ok;
}

/* ---- joining them ---- */

static bool consolidated_cut(void *ctx, const struct zf_tree_tensor *t, struct zf_cut *out,
                             struct zf_err *err)
{
    struct consolidated *c = ctx;
    struct zf_cut_rule rule = {.kind = ZF_CUT_COPIES};
    bool ok = c->rules
                  ? t->ndim == 0 || zf_tp_rules_find(c->rules, t->name, t->name_len, &rule, err)
                  : zf_llama_cut(&c->width, t, &rule, err);

    return ok && zf_cut_lay(&rule, t->ndim, t->shard, t->n_ranks, c->a, out, err);
}

static bool consolidated_done(void *ctx, struct zf_err *err)
{
    const struct consolidated *c = ctx;

    return c->rules || c->width.proved ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "no tensor proves that there are only %u ranks. Give the rules with -o "
                   "tp_rules=FILE",
                   c->file.n);
}

/* Reads the widths, unless the user gives rules for joining.  why: why they are unknown, or "". */
static bool consolidated_widths(struct consolidated *c, char why[520], struct zf_err *err)
{
    static const char norm[] = "norm.weight";
    const struct zf_spot spot = {"", norm, sizeof norm - 1};
    const struct zf_draft *d = zf_build_find_below(c->b, c->tree[0], spot);

    why[0] = '\0';
    if (c->rules)
        return true;
    if (!d || zf_draft_type(d).ndim != 1) {
        (void)snprintf(why, 520, "there is no \"%s\", which Llama has", norm);
        return true;
    }
    if (zf_llama_width_read(c->st, zf_draft_type(d).shape[0], c->o->lim, &c->width, err))
        return true;
    if (err->code != ZF_E_FORMAT)
        return false;
    (void)snprintf(why, 520, "%.40s: %.460s", err->path, err->msg);
    zf_err_clear(err);
    return true;
}

static bool consolidated_join(struct consolidated *c, struct zf_err *err)
{
    struct zf_tree_join join = {.b = c->b,
                                .tree = c->tree,
                                .n_stages = 1,
                                .n_ranks = c->file.n,
                                .cut = consolidated_cut,
                                .done = consolidated_done,
                                .ctx = c,
                                .told = c->rules != NULL};
    char why[520];

    if (c->lost)
        return zf_tree_stay(c->b, c->file.n, "the file of a rank cannot be read", err);
    if (!consolidated_widths(c, why, err))
        return false;
    return why[0] ? zf_tree_stay(c->b, c->file.n, why, err) : zf_tree_join_or_stay(&join, err);
}

static bool consolidated_open(const struct zf_save *save, const struct zf_open_opts *o,
                              struct zf_build *b, struct zf_err *err)
{
    struct consolidated c = {.st = save->store, .o = o, .b = b};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(o->lim->model_memory, err);
    zf_auto(tp_rules) struct zf_tp_rules *rules =
        a && o->tp_rules ? zf_tp_rules_load(o->tp_rules, err) : NULL;
    c.a = a;
    c.rules = rules;
    return a && (rules || !o->tp_rules) &&
           zf_ranks_list(c.st, a, "", consolidated_files, 0, &c.file, err) &&
           (o->degraded || zf_ranks_complete(&c.file, err)) && consolidated_names(&c, err) &&
           consolidated_read_all(&c, err) && consolidated_join(&c, err);
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
