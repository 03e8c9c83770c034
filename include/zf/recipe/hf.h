/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the Hugging Face model of a training checkpoint by renaming, cutting, joining and re-ordering its tensors, as
 * recipes say (zerofs-recipe(5)).  Reads no tensors except those that a recipe compares. */
#ifndef ZF_RECIPE_HF_H
#define ZF_RECIPE_HF_H

#include <zf/base/limits.h>
#include <zf/model/model.h>

struct zf_hf_opts {
    const struct zf_limits *lim;
    const char *name; /* the recipe's name, or the file of `text`; NULL = the recipe that fits */
    const char *text; /* the file's contents, terminated; NULL = a built-in recipe */
    size_t n_text;
    bool
        fits; /* zf_hf_begin found one: settings that can no longer be read are a failure, not a note */
};

/* Sets c->hf and adds hf/config.json, hf/recipe.json and a note.  Without a name, only if exactly one recipe fits, and
 * if its settings contradict the tensors, adds only the note.
 * Errors: ZF_E_USAGE there is no recipe of that name; ZF_E_FORMAT the named one does not fit, or is invalid
 * (file:line:column); ZF_E_NOMEM, ZF_E_LIMIT; with o->fits also those of reading. */
bool zf_hf_model(struct zf_checkpoint *c, const struct zf_hf_opts *o,
                 struct zf_err *err) ZF_CHECKED;

/* For making the model later: *later_out is true if a recipe fits by its settings and names, so that zf_hf_model must
 * be called at some time; no rules are applied yet.  Otherwise, does everything that zf_hf_model would do.
 * o->name must be NULL.  Errors: as zf_hf_model. */
bool zf_hf_begin(struct zf_checkpoint *c, const struct zf_hf_opts *o, bool *later_out,
                 struct zf_err *err) ZF_CHECKED;

/* A built-in recipe and whether it fits. */
struct zf_hf_fit {
    const char *name, *title;
    bool fits; /* it is for such a checkpoint */
    const char
        *why; /* what is wrong with the checkpoint for it, or why it does not fit; NULL = nothing */
};
typedef bool zf_hf_fit_fn(void *ctx, const struct zf_hf_fit *fit);
/* Calls fn for each recipe, by name.  Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool zf_hf_each(const struct zf_checkpoint *c, const struct zf_limits *lim, zf_hf_fit_fn *fn,
                void *ctx, struct zf_err *err) ZF_CHECKED;

/* Calls fn for each problem of a recipe (o->name) with this checkpoint.  *n_out: the number of tensors that it makes.
 * Errors: as zf_hf_model, except for problems reported to fn. */
bool zf_hf_check(const struct zf_checkpoint *c, const struct zf_hf_opts *o,
                 void (*fn)(void *ctx, const char *problem), void *ctx, uint64_t *n_out,
                 struct zf_err *err) ZF_CHECKED;

#endif
