/* SPDX-License-Identifier: Apache-2.0 */
/* A recipe evaluated for one checkpoint: its settings, names and tensors, the axes it moves, and the resulting plan. */
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
        char *path;   /* owned, like the values */
        json_t *root; /* NULL = no such file, or it cannot be read */
    } doc[MAX_DOCUMENTS];
    uint32_t n;
    struct zf_err why; /* why a file could not be read; code ZF_OK if all could */
    char clash[300];   /* how files that are read as one contradict each other; "" = they do not */
};

void said_fini(struct said *s);
static inline void zf_auto_said(struct said *s)
{
    said_fini(s);
}

/* The document at `path` in the checkpoint; YAML is converted to JSON, without empty values.  Borrowed; NULL: no such
 * file, or it cannot be read. */
json_t *said_file(struct said *s, const char *path);
/* All documents whose paths match `path`, which ends with '*', as one object; '-' in its names becomes '_'. */
json_t *said_files(struct said *s, const char *path);
/* Adds the file's settings to root, which must be an object of said_files().  If a setting already has another value,
 * sets s->clash. */
bool said_also(struct said *s, json_t *root, const char *path);

/* The value at prefix.path, or NULL.  Names may contain dots, or be list indices; '-' in them matches '_'.
 * Borrowed. */
json_t *said_find(json_t *root, const char *prefix, const char *path);
/* Is there any value at or below prefix ("" = the root)? */
bool said_any(json_t *root, const char *prefix);

/* ---- names ----------------------------------------------------------------------------------- */

#define MAX_LOOPS 4

/* The indices of a recipe, and their current values. */
struct loops {
    uint32_t n;
    struct loop {
        const char *name;
        uint64_t value, end; /* end: number of values */
        bool open;           /* it may be used at present */
        bool one;            /* has only this value, so it does not multiply tensors */
    } at[MAX_LOOPS];
};

/* A bit for each index used in name[n].  Errors: ZF_E_FORMAT braces without an index. */
bool names_loops(const struct loops *l, const char *name, size_t n, uint32_t *bits_out,
                 struct zf_err *err) ZF_CHECKED;
/* Writes name[n] with its indices replaced by their values.  False: one is not open, or a sum is negative. */
bool names_fill(const struct loops *l, const char *name, size_t n, struct zf_out *out);

/* ---- given ----------------------------------------------------------------------------------- */

/* A tensor of the root, by the name that a recipe sees: without wrappers. */
struct given_name {
    const char *name;
    uint32_t tensor;
};
struct given {
    const struct zf_set *set, *stored; /* stored: NULL = none */
    struct given_name *at;             /* sorted by name after given_sort; NULL: same as the set */
    uint32_t n;
    uint64_t stripped;          /* number of names from which a wrapper was removed */
    const struct given *shared; /* the owner of `at`; NULL: this one */
    struct zf_arena *arena;     /* memory of changed names; NULL = none */
    bool sorted;
    uint32_t twice; /* at[twice] has the same name as the one before; 0 = no duplicates */
};

/* Removes what FSDP, torch.compile and the like insert into names, and sorts them; if there is nothing to remove, the
 * set is already sorted, and nothing is copied.  Borrows c.
 * Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool given_init(struct given *s, const struct zf_checkpoint *c, const struct zf_limits *lim,
                struct zf_err *err) ZF_CHECKED;
/* Name and tensor at place i < n. */
const char *given_name_of(const struct given *s, uint32_t i);
uint32_t given_number(const struct given *s, uint32_t i);
/* Does a name start with prefix[n]?  Pre: sorted. */
bool given_begins(const struct given *s, const char *prefix, size_t n);
/* A copy that borrows the names of s until they are changed. */
struct given given_share(const struct given *s);
void given_fini(struct given *s);
static inline void zf_auto_given(struct given *s)
{
    given_fini(s);
}
/* Removes the prefix `front` from all names if each of them has it, and one starts with `before` (NULL: no such
 * condition).  Errors: ZF_E_NOMEM. */
bool given_strip(struct given *s, const char *front, const char *before,
                 struct zf_err *err) ZF_CHECKED;
/* Sorts by name.  Errors: ZF_E_FORMAT two tensors have the same name now. */
bool given_sort(struct given *s, struct zf_err *err) ZF_CHECKED;
/* The tensor's number in the set, or UINT32_MAX.  Pre: sorted. */
uint32_t given_find(const struct given *s, const char *name);
/* The tensor shown for tensor i: the one in stored/ with its name and shape, if any, else itself. */
const struct zf_tensor *given_tensor(const struct given *s, uint32_t i);

/* ---- axes ------------------------------------------------------------------------------------ */

/* An axis has n nested levels of steps, outermost first. */
struct axis {
    uint32_t n;
    uint64_t size[MAX_NAMES], stride[MAX_NAMES];
};
struct axes {
    uint64_t first; /* element of the tensor */
    uint32_t n;
    struct axis at[MAX_AXES];
};

/* The size of a name; 0: not known; false: its value is not a size. */
typedef bool axes_size_fn(void *ctx, const char *name, uint64_t *out, struct zf_err *err);

/* The axes of a contiguous tensor.  Errors: ZF_E_LIMIT too many dimensions. */
bool axes_init(struct axes *x, uint32_t ndim, const uint64_t *shape, struct zf_err *err) ZF_CHECKED;
/* Rearranges the axes by the pattern.  Errors: ZF_E_FORMAT the axes do not fit the pattern, a size does not divide, or
 * is neither known nor implied by the others. */
bool axes_rearrange(struct axes *x, const struct pattern *p, axes_size_fn *size, void *ctx,
                    struct zf_err *err) ZF_CHECKED;
/* Keeps positions [from, to) of axis k.  Errors: ZF_E_FORMAT out of range, or a joined axis cannot be cut there. */
bool axes_cut(struct axes *x, uint32_t k, uint64_t from, uint64_t to,
              struct zf_err *err) ZF_CHECKED;
/* Removes axis k, which has one position. */
void axes_drop(struct axes *x, uint32_t k);
uint64_t axis_size(const struct axis *a);
/* Number of elements. */
uint64_t axes_count(const struct axes *x);
/* The sizes and strides of all axes: each nested level counts as one, those of size 1 are left out. */
bool axes_strided(const struct axes *x, uint32_t elem, struct zf_strided *out,
                  struct zf_err *err) ZF_CHECKED;

/* ---- prove ----------------------------------------------------------------------------------- */
/* Proves that rules use every element of a tensor exactly once. */

/* One part of a tensor that a rule uses. */
struct use {
    uint32_t tensor;
    uint32_t line; /* of the recipe: the rule */
    struct zf_strided part;
};

/* Do the parts of a tensor of `all` elements cover each of them once?
 * Errors: ZF_E_FORMAT an element is in no part or in two (*twice_out: the second part), or the parts are cut so
 * differently that this cannot be decided. */
bool prove_once(const struct use *use, uint32_t n, uint64_t all, uint64_t most, uint32_t *twice_out,
                struct zf_err *err) ZF_CHECKED;

/* ---- plan ------------------------------------------------------------------------------------ */
/* A recipe evaluated for one checkpoint: the tensors it makes, as views of the checkpoint's tensors, and the model's
 * config.json.  Only settings, and the few tensors that a recipe asks about, are read. */

/* A tensor to be made. */
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

/* A variable of the recipe. */
struct var {
    const char *name;
    json_t *value; /* owned */
    char *from; /* the file and setting, or the tensor, it was taken from; "" = only the recipe */
    bool size;
};

struct plan {
    const struct recipe *r;
    struct said *files; /* borrowed */
    const struct zf_limits *lim;
    struct zf_arena *a;
    struct given src;
    json_t *root; /* borrowed: the settings that were found */
    const char *file, *prefix;
    json_t *
        outside; /* an existing Hugging Face config.json, in the checkpoint or from side=; or NULL */
    const char *outside_path;
    zf_vec(struct var) var;
    struct loops loops;
    zf_vec(struct target) target;
    zf_vec(struct use) use;
    const char *arch;
    json_t *config;         /* owned; NULL: no line sets a key */
    json_t *filled;         /* owned: outside, plus the fields it lacks; NULL: it lacks none */
    json_t *left_out;       /* owned: names, with the reasons */
    json_t *notes;          /* owned: sentences that a user should know */
    bool fits;              /* all conditions of the recipe hold */
    zf_vec(char *) problem; /* what is wrong: sentences, with file:line:column */
    char *from; /* the settings and tensors that the current expression used; in the arena */
    const struct line *line; /* the line being evaluated */
};

void plan_fini(struct plan *p);
static inline void zf_auto_plan(struct plan *p)
{
    plan_fini(p);
}

/* Notes a problem of the current line, at byte `at` of its text; SIZE_MAX: the message names its place.  False: out of
 * memory. */
bool plan_problem(struct plan *p, size_t at, struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5))) ZF_CHECKED;
/* Turns a failure of the recipe or the checkpoint into a problem: at its own place, the path of text_fail, or else at
 * byte `at`.  False: it is a lack of memory, which remains a failure. */
bool plan_wrong(struct plan *p, size_t at, struct zf_err *err) ZF_CHECKED;
/* Are there any problems so far? */
bool plan_bad(const struct plan *p);

/* ---- run ------------------------------------------------------------------------------------- */

/* Evaluates the recipe; p->fits and p->problem hold the result.  brief: skips its rules, which do not decide whether it
 * fits.
 * Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool run_recipe(struct plan *p, const struct recipe *r, const struct given *given,
                struct said *files, bool brief, struct zf_err *err) ZF_CHECKED;

/* ---- expand ---------------------------------------------------------------------------------- */

/* Adds the targets of p->line, a rule, or the parts that p->line drops; errors become problems of the plan.
 * Errors: ZF_E_NOMEM, ZF_E_LIMIT tensors. */
bool expand_line(struct plan *p, struct zf_err *err) ZF_CHECKED;

/* ---- close ----------------------------------------------------------------------------------- */

/* Checks that targets have different names, and that every tensor of the checkpoint is used once, or left out by name;
 * violations become problems of the plan.  Errors: ZF_E_NOMEM. */
bool close_plan(struct plan *p, struct zf_err *err) ZF_CHECKED;

/* ---- make ------------------------------------------------------------------------------------ */

/* Sets c->hf, and adds hf/config.json (unless one exists), hf/recipe.json and a note.
 * Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool make_model(struct zf_checkpoint *c, const struct plan *p, struct zf_err *err) ZF_CHECKED;
/* Adds a note.  Errors: ZF_E_NOMEM. */
bool make_note(struct zf_checkpoint *c, enum zf_note_kind kind, struct zf_err *err, const char *fmt,
               ...) __attribute__((format(printf, 4, 5))) ZF_CHECKED;

#endif
