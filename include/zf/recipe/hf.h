/* SPDX-License-Identifier: Apache-2.0 */
/* The Hugging Face model that a training checkpoint is, if its tensors are renamed, cut, joined and re-ordered: by
 * recipes, texts of zerofs-recipe(5).  No tensor is read for it but those that a recipe compares. */
#ifndef ZF_RECIPE_HF_H
#define ZF_RECIPE_HF_H

#include <zf/base/limits.h>
#include <zf/model/model.h>

struct zf_hf_opts {
    const struct zf_limits *lim;
    const char *name; /* the recipe, or the file that the text is from; NULL = the one that fits */
    const char *text; /* of that file, terminated; NULL = a recipe of zerofs */
    size_t n_text;
    bool
        fits; /* zf_hf_begin found one: settings that cannot be read any more are a failure, no note */
};

/* Sets c->hf and adds hf/config.json, hf/recipe.json and a note; without a name only where exactly one recipe fits,
 * and if its settings contradict the tensors only the note.
 * Errors: ZF_E_USAGE there is no recipe of that name; ZF_E_FORMAT the named one does not fit, or is wrong
 * (file:line:column); ZF_E_NOMEM, ZF_E_LIMIT; with o->fits those of reading, too. */
bool zf_hf_model(struct zf_checkpoint *c, const struct zf_hf_opts *o,
                 struct zf_err *err) ZF_CHECKED;

/* For a model that may be worked out later: *later_out says whether zf_hf_model, whenever it is called, has something to
 * do, as a recipe fits by its settings and names; no rule of any is worked out.  Else all is done that it would do.
 * o->name is NULL.  Errors: as zf_hf_model. */
bool zf_hf_begin(struct zf_checkpoint *c, const struct zf_hf_opts *o, bool *later_out,
                 struct zf_err *err) ZF_CHECKED;

/* A recipe of zerofs and whether it fits. */
struct zf_hf_fit {
    const char *name, *title;
    bool fits;       /* it is for such a checkpoint, */
    const char *why; /* and this is wrong with it, or why it is not; NULL = nothing */
};
typedef bool zf_hf_fit_fn(void *ctx, const struct zf_hf_fit *fit);
/* Calls fn for each recipe, by name.  Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool zf_hf_each(const struct zf_checkpoint *c, const struct zf_limits *lim, zf_hf_fit_fn *fn,
                void *ctx, struct zf_err *err) ZF_CHECKED;

/* Calls fn for all that is wrong with a recipe (o->name) for this checkpoint.  *n_out: the tensors it makes.
 * Errors: as zf_hf_model, but for what fn was told. */
bool zf_hf_check(const struct zf_checkpoint *c, const struct zf_hf_opts *o,
                 void (*fn)(void *ctx, const char *problem), void *ctx, uint64_t *n_out,
                 struct zf_err *err) ZF_CHECKED;

#endif
