/* SPDX-License-Identifier: Apache-2.0 */
/* A recipe worked out for one checkpoint: the tensors that it makes, as places in those of the checkpoint, and the model's
 * config.json.  Nothing is read but settings, and the few tensors that a recipe asks about. */
#ifndef RECIPE_PLAN_H
#define RECIPE_PLAN_H

#include <zf/base/vec.h>

#include "given.h"
#include "names.h"
#include "parse.h"
#include "prove.h"
#include "said.h"

/* A tensor that is made. */
struct target {
    char *name;    /* in the plan's arena */
    uint32_t line; /* of the recipe: its rule */
    enum zf_dtype dtype;
    uint32_t ndim;
    uint64_t *shape;
    uint32_t dim, n_parts; /* joined along dim */
    struct target_part {
        uint32_t tensor; /* of the root set */
        struct zf_strided how;
    } * part;
};

/* A value that has a name. */
struct var {
    const char *name;
    json_t *value; /* owned */
    char *from;    /* the file and setting, or the tensor, that said it; "" = only the recipe */
    bool size;
};

struct plan {
    const struct recipe *r;
    struct said *files; /* borrowed */
    const struct zf_limits *lim;
    struct zf_arena *a;
    struct given src;
    json_t *root; /* borrowed: the settings that were found, */
    const char *file, *prefix;
    json_t *
        outside; /* and a Hugging Face config.json that is there, of the checkpoint or of side=; or NULL */
    const char *outside_path;
    zf_vec(struct var) var;
    struct loops loops;
    zf_vec(struct target) target;
    zf_vec(struct use) use;
    const char *arch;
    json_t *config;         /* owned; NULL: no line makes one */
    json_t *left_out;       /* owned: names, and why */
    json_t *notes;          /* owned: sentences that a user should know */
    bool fits;              /* all that it needs is so; */
    zf_vec(char *) problem; /* and nothing is wrong with it: sentences, with file:line:column */
    char *from; /* the places that the expression asked which is worked out; in the arena */
    const struct line *line; /* the one that is worked out */
};

void plan_fini(struct plan *p);
static inline void zf_auto_plan(struct plan *p)
{
    plan_fini(p);
}

/* Notes what is wrong with the present line, at byte `at` of its text.  False: memory, or enough of them. */
bool plan_problem(struct plan *p, size_t at, struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5))) ZF_CHECKED;
/* Is anything wrong so far? */
bool plan_bad(const struct plan *p);

#endif
