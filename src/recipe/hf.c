/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <zf/recipe/hf.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"
#include "plan.h"

/* A plan with its recipe, on the heap. */
struct trial {
    struct recipe *r;
    struct plan plan;
};

static void hf_trial_free(struct trial *t)
{
    if (t) {
        plan_fini(&t->plan);
        recipe_free(t->r);
        free(t);
    }
}

static void zf_auto_trial(struct trial **t)
{
    hf_trial_free(*t);
}

/* State shared by all recipes that are tried. */
struct look {
    struct said files;
    struct given given;
    char family[64]; /* the shared front part that fits this checkpoint; "" = none */
    bool brief;      /* stops at the first that fits, and skips its rules */
};

static void zf_auto_look(struct look *l)
{
    said_fini(&l->files);
    given_fini(&l->given);
}

static bool hf_look(struct look *l, const struct zf_checkpoint *c, const struct zf_limits *lim,
                    struct zf_err *err)
{
    *l = (struct look){.files = {.c = c, .lim = lim}};
    return given_init(&l->given, c, lim, err);
}

static struct trial *hf_trial_make(const char *name, const char *text, size_t n, struct look *l,
                                   struct zf_err *err)
{
    struct trial *t = calloc(1, sizeof *t);

    if (!t)
        return zf_null(zf_fail_sys(err, "read a recipe"));
    t->r = recipe_parse(name, text, n, library_find, NULL, err);
    if (!t->r || !run_recipe(&t->plan, t->r, &l->given, &l->files, l->brief, err)) {
        hf_trial_free(t);
        return NULL;
    }
    return t;
}

/* Runs the recipe that the user asked for. */
static struct trial *hf_named(const struct zf_hf_opts *o, struct look *look, struct zf_err *err)
{
    const char *text = o->text ? o->text : library_find(NULL, o->name);

    if (!text || (!o->text && o->name[0] == '_')) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                      "there is no recipe %.64s. List them: zerofs recipes CKPT; name a file with "
                      "a slash: -o recipe=./NAME",
                      o->name);
        return NULL;
    }
    return hf_trial_make(o->name, text, o->text ? o->n_text : strlen(text), look, err);
}

/* Whether the shared part that many recipes start with fits; if not, they need not be read. */
struct front {
    char name[64]; /* the last part that was tried */
    bool fits;
};

/* The name of the shared part that the recipe starts with; false: it starts with its own lines. */
static bool hf_front_name(const char *text, char name[64])
{
    while (*text == '#' || strncmp(text, "recipe ", 7) == 0) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    const bool uses = strncmp(text, "use ", 4) == 0;
    (void)snprintf(name, 64, "%.*s", uses ? (int)strcspn(text + 4, " \n") : 0,
                   uses ? text + 4 : "");
    return uses;
}

static bool hf_front_fits(struct front *f, const char *text, struct look *look, bool *out,
                          struct zf_err *err)
{
    char name[64];

    *out = !hf_front_name(text, name);
    if (*out)
        return true;
    if (strcmp(name, f->name) != 0) {
        const char *part = library_find(NULL, name);
        zf_auto(trial) struct trial *t =
            part ? hf_trial_make(name, part, strlen(part), look, err) : NULL;

        if (part && !t)
            return false;
        (void)snprintf(f->name, sizeof f->name, "%s", name);
        f->fits = !t || t->plan.fits;
        if (t && f->fits)
            (void)snprintf(look->family, sizeof look->family, "%s", name + (name[0] == '_'));
    }
    *out = f->fits;
    return true;
}

/* *out: the only built-in recipe that fits; NULL: none fits, or several do (a note says which). */
static bool hf_fitting(struct zf_checkpoint *c, struct look *look, struct trial **out,
                       struct zf_err *err)
{
    zf_auto(trial) struct trial *found = NULL;
    const struct library_text *l;
    struct front front = {.name = ""};

    *out = NULL;
    for (uint32_t i = 0; (l = library_at(i)); i++) {
        bool may = false;

        if (l->name[0] != '_' && !hf_front_fits(&front, l->text, look, &may, err))
            return false;
        if (!may)
            continue;
        zf_auto(trial) struct trial *t =
            hf_trial_make(l->name, l->text, strlen(l->text), look, err);
        if (!t)
            return false;
        if (t->plan.fits && look->brief) {
            *out = zf_give(t);
            return true;
        }
        /* A recipe without problems is preferred to one that has some. */
        if (!t->plan.fits || (found && plan_bad(&t->plan)))
            continue;
        if (found && !plan_bad(&found->plan)) {
            look->family[0] = '\0';
            return make_note(c, ZF_NOTE_HF, err,
                             "hf/ is not a model: the recipes %.60s and %.60s both fit. Select one "
                             "with -o recipe=NAME",
                             found->r->name, t->r->name);
        }
        hf_trial_free(found);
        found = zf_give(t);
    }
    *out = zf_give(found);
    return true;
}

/* The checkpoint without the user's selection (-o only= and the like), whose settings are read once for all recipes. */
struct whole {
    struct zf_checkpoint all;
    struct look look;
    bool ready;
};

static void zf_auto_whole(struct whole *w)
{
    zf_auto_look(&w->look);
}

/* If the recipe (o->name, or NULL: exactly one) would fit without the user's selection (-o only= and the like), writes
 * a sentence to out that says so, to be appended to another; else out is empty. */
static bool hf_blame_with(struct whole *w, const struct zf_checkpoint *c,
                          const struct zf_hf_opts *o, char out[200], struct zf_err *err)
{
    zf_auto(trial) struct trial *t = NULL;

    out[0] = '\0';
    if (!c->selection)
        return true;
    if (!w->ready) {
        w->all = *c;
        w->all.set = c->unselected;
        w->all.n_sets = c->n_unselected;
        if (!hf_look(&w->look, &w->all, o->lim, err))
            return false;
        w->ready = true;
    }
    if (o->name)
        t = hf_named(o, &w->look, err);
    if (o->name ? !t : !hf_fitting(&w->all, &w->look, &t, err))
        return false;
    if (t && !plan_bad(&t->plan))
        (void)snprintf(out, 200, ". Without %.90s the recipe %.60s fits", c->selection, t->r->name);
    return true;
}

static bool hf_blame(const struct zf_checkpoint *c, const struct zf_hf_opts *o, char out[200],
                     struct zf_err *err)
{
    zf_auto(whole) struct whole whole = {.ready = false};

    return hf_blame_with(&whole, c, o, out, err);
}

/* The first problem, without the prefix "recipe:line:column: ", which only authors of recipes need. */
static const char *hf_sentence(const struct plan *p)
{
    const char *text = p->problem.at[0], *at = text + strcspn(text, ": ");

    for (int i = 0; i < 2 && at; i++)
        at = *at == ':' && isdigit((unsigned char)at[1]) ? at + 1 + strspn(at + 1, "0123456789")
                                                         : NULL;
    return at && strncmp(at, ": ", 2) == 0 ? at + 2 : text;
}

/* Makes the model with a recipe that the user did not ask for: a problem only becomes a note. */
static bool hf_model(struct zf_checkpoint *c, struct look *look, const struct trial *t, bool fits,
                     struct zf_err *err)
{
    const struct zf_hf_opts one = {.lim = look->files.lim, .name = t ? t->r->name : NULL};
    char blame[200];

    if (fits && look->files.why.code != ZF_OK) {
        *err = look->files.why;
        return false;
    }
    if (t && !plan_bad(&t->plan))
        return make_model(c, &t->plan, err);
    if (!hf_blame(c, &one, blame, err))
        return false;
    if (t) {
        c->hf_refused = true;
        /* A setting of the wrong type may be found before the model's class is known. */
        return make_note(c, ZF_NOTE_HF, err, "hf/ is %s%.60s: %.300s%s",
                         t->plan.arch ? "not the model " : "not converted by a recipe",
                         t->plan.arch ? t->plan.arch : "", hf_sentence(&t->plan), blame);
    }
    if (look->files.why.code != ZF_OK) {
        return make_note(
            c, ZF_NOTE_HF, err,
            "hf/ is not converted by a recipe: settings are unreadable, %.200s: %.200s",
            look->files.why.path, look->files.why.msg);
    }
    if (blame[0])
        return make_note(c, ZF_NOTE_HF, err, "hf/ is not converted by a recipe%s", blame);
    return !look->family[0] ||
           make_note(c, ZF_NOTE_HF, err,
                     "hf/ is not converted by a recipe: its tensors and settings belong to %.60s, "
                     "but none of its recipes fits. See why: zerofs recipes CKPT",
                     look->family);
}

bool zf_hf_model(struct zf_checkpoint *c, const struct zf_hf_opts *o, struct zf_err *err)
{
    zf_auto(look) struct look look = {.given = {.set = NULL}};

    if (!hf_look(&look, c, o->lim, err))
        return false;
    zf_auto(trial) struct trial *t = NULL;
    char blame[200];
    if (!o->name)
        return hf_fitting(c, &look, &t, err) && hf_model(c, &look, t, o->fits, err);
    t = hf_named(o, &look, err);
    if (!t)
        return false;
    if (!plan_bad(&t->plan))
        return make_model(c, &t->plan, err);
    return hf_blame(c, o, blame, err) &&
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "recipe %.*s%s", 300 - (int)strlen(blame),
                   t->plan.problem.at[0], blame);
}

/* Does the checkpoint have an entry of its own where the model would be shown? */
static bool hf_is_taken(const struct zf_checkpoint *c)
{
    bool taken = false;

    for (uint32_t i = 0; !taken && i < c->n_sets; i++)
        taken = strncmp(c->set[i].path, "hf", 2) == 0 || strncmp(c->set[i].path, "as", 2) == 0;
    for (uint32_t i = 0; !taken && i < c->n_blobs; i++)
        taken = strncmp(c->blob[i].path, "hf/", 3) == 0 || strncmp(c->blob[i].path, "as/", 3) == 0;
    return taken;
}

bool zf_hf_begin(struct zf_checkpoint *c, const struct zf_hf_opts *o, bool *later_out,
                 struct zf_err *err)
{
    zf_auto(look) struct look look = {.given = {.set = NULL}};
    zf_auto(trial) struct trial *t = NULL;

    *later_out = false;
    if (hf_is_taken(c))
        return zf_hf_model(c, o, err);
    if (!hf_look(&look, c, o->lim, err))
        return false;
    look.brief = true;
    if (!hf_fitting(c, &look, &t, err))
        return false;
    *later_out = t != NULL;
    return t || hf_model(c, &look, NULL, false, err);
}

bool zf_hf_each(const struct zf_checkpoint *c, const struct zf_limits *lim, zf_hf_fit_fn *fn,
                void *ctx, struct zf_err *err)
{
    zf_auto(look) struct look look = {.given = {.set = NULL}};
    zf_auto(whole) struct whole whole = {.ready = false};
    const struct library_text *l;

    if (!hf_look(&look, c, lim, err))
        return false;
    for (uint32_t i = 0; (l = library_at(i)); i++) {
        if (l->name[0] == '_')
            continue;
        zf_auto(trial) struct trial *t =
            hf_trial_make(l->name, l->text, strlen(l->text), &look, err);
        const struct zf_hf_opts one = {.lim = lim, .name = l->name};
        char why[600] = "", blame[200] = "";
        if (!t || (plan_bad(&t->plan) && !hf_blame_with(&whole, c, &one, blame, err)))
            return false;
        if (plan_bad(&t->plan))
            (void)snprintf(why, sizeof why, "%.390s%s", t->plan.problem.at[0], blame);
        const struct zf_hf_fit fit = {
            .name = l->name, .title = t->r->title, .fits = t->plan.fits, .why = *why ? why : NULL};
        if (!fn(ctx, &fit))
            return true;
    }
    return true;
}

bool zf_hf_check(const struct zf_checkpoint *c, const struct zf_hf_opts *o,
                 void (*fn)(void *ctx, const char *problem), void *ctx, uint64_t *n_out,
                 struct zf_err *err)
{
    zf_auto(look) struct look look = {.given = {.set = NULL}};

    if (!hf_look(&look, c, o->lim, err))
        return false;
    zf_auto(trial) struct trial *t = hf_named(o, &look, err);
    char blame[200] = "";

    if (!t || (plan_bad(&t->plan) && !hf_blame(c, o, blame, err)))
        return false;
    *n_out = t->plan.target.n;
    for (size_t i = 0; i < t->plan.problem.n; i++)
        fn(ctx, t->plan.problem.at[i]);
    if (blame[0])
        fn(ctx, blame + strlen(". "));
    return true;
}
