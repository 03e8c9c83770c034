/* SPDX-License-Identifier: Apache-2.0 */
/* A recipe worked out for one checkpoint: settings, names and tensors that it sees, axes that it moves, and the plan that comes of it. */
#ifndef RECIPE_PLAN_H
#define RECIPE_PLAN_H

#include <zf/base/out.h>
#include <zf/base/vec.h>
#include <zf/codec/json.h>
#include <zf/model/map.h>
#include <zf/model/model.h>

#include "parse.h"

/* ---- said ------------------------------------------------------------------------------------ */

#define MAX_DOCUMENTS 64

struct said {
    const struct zf_checkpoint *c;
    const struct zf_limits *lim;
    struct document {
        char *path;   /* owned, as the values are */
        json_t *root; /* NULL = there is none, or it cannot be read */
    } doc[MAX_DOCUMENTS];
    uint32_t n;
    struct zf_err why; /* why one could not be read; its code is ZF_OK where all could */
    char clash[300];   /* files that are read as one say different things; "" = they do not */
};

void said_fini(struct said *s);
static inline void zf_auto_said(struct said *s)
{
    said_fini(s);
}

/* The document at `path` of the checkpoint; YAML as JSON would be, but without what is empty.  Borrowed; NULL: there is
 * none that can be read. */
json_t *said_file(struct said *s, const char *path);
/* The same of all whose paths begin as `path`, which ends with '*', as one object; its names have '_' for '-'. */
json_t *said_files(struct said *s, const char *path);
/* Adds the file's settings to root, which must be an object of said_files().  A value that is there already and is
 * another: s->clash. */
bool said_also(struct said *s, json_t *root, const char *path);

/* The value at prefix.path, or NULL.  Names may hold dots themselves, or be positions in lists; '-' in them is as good
 * as '_'.  Borrowed. */
json_t *said_find(json_t *root, const char *prefix, const char *path);
/* Is there any value at or below prefix ("" = the root)? */
bool said_any(json_t *root, const char *prefix);

/* ---- names ----------------------------------------------------------------------------------- */

#define MAX_LOOPS 4

/* The indices of a recipe, and where each stands. */
struct loops {
    uint32_t n;
    struct loop {
        const char *name;
        uint64_t value, end; /* end: how many there are */
        bool open;           /* it may be used */
        bool one;            /* always this value: a name has as many tensors with it as without */
    } at[MAX_LOOPS];
};

/* The bits of the indices that name[n] has.  Errors: ZF_E_FORMAT braces that hold none of them. */
bool names_loops(const struct loops *l, const char *name, size_t n, uint32_t *bits_out,
                 struct zf_err *err) ZF_CHECKED;
/* Replaces them by their values.  False: one is not open, or a sum is negative. */
bool names_fill(const struct loops *l, const char *name, size_t n, struct zf_out *out);

/* ---- given ----------------------------------------------------------------------------------- */

/* The tensors of the root by the names that a recipe sees: without wrappers. */
struct given_name {
    const char *name;
    uint32_t tensor;
};
struct given {
    const struct zf_set *set, *stored; /* stored: NULL = none */
    struct given_name *at; /* sorted by name once given_sort was called; NULL: as in the set */
    uint32_t n;
    uint64_t stripped;          /* names that lost something */
    const struct given *shared; /* `at` is that one's; NULL: its own */
    struct zf_arena *arena;     /* names that are not the tensors' own; NULL = none */
    bool sorted;
    uint32_t twice; /* at[twice] and the one before have one name; 0 = none has */
};

/* Takes off what FSDP, torch.compile and the like put into names, and sorts them; a set without that is in order, and
 * nothing is copied.  Borrows c.
 * Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool given_init(struct given *s, const struct zf_checkpoint *c, const struct zf_limits *lim,
                struct zf_err *err) ZF_CHECKED;
/* Name and tensor at place i < n. */
const char *given_name_of(const struct given *s, uint32_t i);
uint32_t given_number(const struct given *s, uint32_t i);
/* Does a name begin so?  Pre: sorted. */
bool given_begins(const struct given *s, const char *prefix, size_t n);
/* The same names, borrowed for as long as nothing is taken off them. */
struct given given_share(const struct given *s);
void given_fini(struct given *s);
static inline void zf_auto_given(struct given *s)
{
    given_fini(s);
}
/* Takes the text off the front of all names if each of them has it, and one begins with `before` (NULL: whatever they
 * begin with).  Errors: ZF_E_NOMEM. */
bool given_strip(struct given *s, const char *front, const char *before,
                 struct zf_err *err) ZF_CHECKED;
/* Errors: ZF_E_FORMAT two tensors have one name now. */
bool given_sort(struct given *s, struct zf_err *err) ZF_CHECKED;
/* The tensor's number in the set, or UINT32_MAX.  Pre: sorted. */
uint32_t given_find(const struct given *s, const char *name);
/* Tensor i as it is served: the one of stored/, where there is one of its name and shape. */
const struct zf_tensor *given_tensor(const struct given *s, uint32_t i);

/* ---- axes ------------------------------------------------------------------------------------ */

/* An axis is a number of steps, or steps of several lengths nested: the outer ones first. */
struct axis {
    uint32_t n;
    uint64_t size[MAX_NAMES], stride[MAX_NAMES];
};
struct axes {
    uint64_t first; /* element of the tensor */
    uint32_t n;
    struct axis at[MAX_AXES];
};

/* The size of a name, or 0 where it is not said; false: it is said, but is no size. */
typedef bool axes_size_fn(void *ctx, const char *name, uint64_t *out, struct zf_err *err);

/* A packed tensor as it is.  Errors: ZF_E_LIMIT too many dimensions. */
bool axes_init(struct axes *x, uint32_t ndim, const uint64_t *shape, struct zf_err *err) ZF_CHECKED;
/* Errors: ZF_E_FORMAT other axes than the pattern's, a size that does not divide, or is not said and cannot be
 * worked out. */
bool axes_rearrange(struct axes *x, const struct pattern *p, axes_size_fn *size, void *ctx,
                    struct zf_err *err) ZF_CHECKED;
/* Positions [from, to) of axis k.  Errors: ZF_E_FORMAT outside of it, or an axis that was joined and is not cut whole. */
bool axes_cut(struct axes *x, uint32_t k, uint64_t from, uint64_t to,
              struct zf_err *err) ZF_CHECKED;
/* Takes axis k away, which has one position. */
void axes_drop(struct axes *x, uint32_t k);
uint64_t axis_size(const struct axis *a);
/* Elements. */
uint64_t axes_count(const struct axes *x);
/* The sizes and strides of all, nested ones one by one, those of one position left out. */
bool axes_strided(const struct axes *x, uint32_t elem, struct zf_strided *out,
                  struct zf_err *err) ZF_CHECKED;

/* ---- prove ----------------------------------------------------------------------------------- */
/* That the parts of a tensor which rules take are all of it, and none twice. */

/* One part, by its elements. */
struct use {
    uint32_t tensor;
    uint32_t line; /* of the recipe: the rule */
    struct zf_strided part;
};

/* Do the parts of a tensor of `all` elements cover each of them once?
 * Errors: ZF_E_FORMAT some are in no part, some in two (*twice_out: the second of them), or the parts are cut so
 * differently that it cannot be told. */
bool prove_once(const struct use *use, uint32_t n, uint64_t all, uint64_t most, uint32_t *twice_out,
                struct zf_err *err) ZF_CHECKED;

/* ---- plan ------------------------------------------------------------------------------------ */
/* A recipe worked out for one checkpoint: the tensors that it makes, as places in those of the checkpoint, and the model's
 * config.json.  Nothing is read but settings, and the few tensors that a recipe asks about. */

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
    json_t *filled;         /* owned: outside with fields that it lacks; NULL: it lacks none */
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

/* ---- run ------------------------------------------------------------------------------------- */

/* Works the recipe out; p->fits and p->problem say how far it got.  brief: without its rules, which do not decide whether
 * it fits.
 * Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool run_recipe(struct plan *p, const struct recipe *r, const struct given *given,
                struct said *files, bool brief, struct zf_err *err) ZF_CHECKED;

/* ---- expand ---------------------------------------------------------------------------------- */

/* Adds the targets of p->line, a rule, or the parts that p->line drops; what is wrong becomes a problem.
 * Errors: ZF_E_NOMEM, ZF_E_LIMIT tensors. */
bool expand_line(struct plan *p, struct zf_err *err) ZF_CHECKED;

/* ---- close ----------------------------------------------------------------------------------- */

/* No two targets of a name; every tensor of the checkpoint used once, or left out by name.  What is wrong becomes a
 * problem.  Errors: ZF_E_NOMEM. */
bool close_plan(struct plan *p, struct zf_err *err) ZF_CHECKED;

/* ---- make ------------------------------------------------------------------------------------ */

/* Sets c->hf, and adds hf/config.json (unless there is another one), hf/recipe.json and a note.
 * Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool make_model(struct zf_checkpoint *c, const struct plan *p, struct zf_err *err) ZF_CHECKED;
/* Adds a note.  Errors: ZF_E_NOMEM. */
bool make_note(struct zf_checkpoint *c, enum zf_note_kind kind, struct zf_err *err, const char *fmt,
               ...) __attribute__((format(printf, 4, 5))) ZF_CHECKED;

#endif
