/* SPDX-License-Identifier: Apache-2.0 */
/* Paths are built lazily: only for a leaf whose path may be needed, and only the part that is new.  A
 * file can hold millions of values in a few megabytes, and naming one costs several times as much as
 * reading it.  The walk is a stack of open values; the outermost n_named of them have the name of
 * their current child in the path already. */
#include <zf/assemble/torch_visit.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/out.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>

/* How the children of a value are named. */
enum naming {
    BY_STEP, /* by a new step of the path */
    BY_DOT,  /* appended to the last step: inside an object */
    BY_NONE, /* not at all: the tables of a module */
};

/* The rest of one value that is being visited; its current child is next - 1. */
struct frame {
    const struct zf_pv *v;
    uint64_t next, n;
    bool mapping, tensors; /* tensors: one was seen inside */
    bool many;             /* the value may be referenced again */
    uint64_t shown;        /* number of times the value was shown before */
    enum naming naming;
    size_t key_len, n_steps, last_len; /* sizes of the path to the value, once a child was named */
};

/* The state of a value; for one with tensors a count, from SEEN_TENSORS up.  It is shown wherever it
 * is referenced, within a limit: n lists that each hold the next one twice would make 2^n tensors. */
enum { SEEN_NOT, SEEN_OPEN, SEEN_EMPTY, SEEN_TENSORS };
struct seen {
    UT_hash_handle hh; /* key: the value's address */
    uint64_t state;
};
#define SHOWN_MAX 65536

/* A number in a list can be an optimizer's entry only below at least this many steps. */
#define ENTRY_STEPS 3

/* Containers of up to this many plain values are skipped without opening them. */
#define FLAT_MAX 4

struct step_at {
    size_t at, n;
    bool index;
};

struct visit_walk {
    struct zf_torch *torch;
    const struct zf_limits *lim;
    struct zf_visit *visit;
    struct zf_out key; /* the steps' texts, concatenated */
    zf_vec(struct step_at) at;
    zf_vec(struct zf_step) step; /* the same, for the callback */
    bool prefixed;               /* the first step is the caller's */
    struct zf_out name;
    zf_vec(struct frame) frame;
    size_t n_named; /* number of outermost frames whose child's name is in the path */
    struct seen *seen;
    uint64_t n_tensors;
};

static void visit_walk_fini(struct visit_walk *w)
{
    zf_auto_out(&w->key);
    zf_auto_out(&w->name);
    zf_table_free(w->seen);
    zf_vec_fini(&w->at);
    zf_vec_fini(&w->step);
    zf_vec_fini(&w->frame);
}

static bool visit_add_step(struct visit_walk *w, const char *p, size_t n, bool index,
                           struct zf_err *err)
{
    struct step_at *s = zf_vec_push(&w->at, err);

    if (!s || !zf_vec_room(&w->step, w->at.n, err))
        return false;
    *s = (struct step_at){.at = w->key.n, .n = n, .index = index};
    zf_out_add(&w->key, p, n);
    return zf_out_ok(&w->key, err);
}

static bool visit_extend_step(struct visit_walk *w, const char *p, size_t n, struct zf_err *err)
{
    struct step_at *last = &w->at.at[w->at.n - 1];

    last->n += n + 1;
    zf_out_str(&w->key, ".");
    zf_out_add(&w->key, p, n);
    return zf_out_ok(&w->key, err);
}

static bool visit_name_child(struct visit_walk *w, enum naming how, const char *p, size_t n,
                             bool index, struct zf_err *err)
{
    if (how == BY_NONE)
        return true;
    return how == BY_DOT && w->at.n > 0 ? visit_extend_step(w, p, n, err)
                                        : visit_add_step(w, p, n, index, err);
}

/* The text of a key that is not a text, as Python prints it if that is simple. */
static void visit_odd_key(struct zf_out *out, const struct zf_pv *key, uint64_t i)
{
    char buf[256];
    int64_t number;
    double real;
    bool yes;

    if (zf_pv_kind(key) == ZF_PV_BOOL && zf_pv_bool(key, &yes))
        (void)snprintf(buf, sizeof buf, "%s", yes ? "True" : "False");
    else if (zf_pv_int(key, &number))
        (void)snprintf(buf, sizeof buf, "%" PRId64, number);
    else if (zf_pv_float(key, &real))
        (void)snprintf(buf, sizeof buf, "%.17g", real);
    else if (zf_pv_kind(key) == ZF_PV_GLOBAL)
        (void)snprintf(buf, sizeof buf, "%s.%s", zf_pv_module(key), zf_pv_name(key));
    else if (zf_pv_kind(key) == ZF_PV_NONE)
        (void)snprintf(buf, sizeof buf, "None");
    else
        (void)snprintf(buf, sizeof buf, "key%" PRIu64, i);
    zf_out_str(out, buf);
}

/* The text of key i: a tuple is written one level deep, "(torch.bfloat16, torch.float32)". */
static void visit_key_text(struct zf_out *out, const struct zf_pv *key, uint64_t i)
{
    uint64_t n;
    enum zf_pv_kind kind = zf_pv_kind(key);
    const char *p = kind == ZF_PV_STR || kind == ZF_PV_BYTES ? zf_pv_text(key, &n) : NULL;

    if (p) {
        zf_out_add(out, p, n);
        return;
    }
    if (kind != ZF_PV_TUPLE) {
        visit_odd_key(out, key, i);
        return;
    }
    zf_out_str(out, "(");
    for (uint64_t k = 0; k < zf_pv_len(key); k++) {
        const struct zf_pv *item = zf_pv_item(key, k);

        zf_out_str(out, k > 0 ? ", " : "");
        p = zf_pv_kind(item) == ZF_PV_STR ? zf_pv_text(item, &n) : NULL;
        if (p)
            zf_out_add(out, p, n);
        else
            visit_odd_key(out, item, k);
    }
    zf_out_str(out, ")");
}

/* Is it the (dict, slots) pair of an object with __slots__? */
static bool visit_is_attributes(const struct zf_pv *state)
{
    for (uint64_t i = 0; i < zf_pv_len(state); i++) {
        const struct zf_pv *half = zf_pv_item(state, i);

        if (!zf_pv_is_map(half) && zf_pv_kind(half) != ZF_PV_NONE)
            return false;
    }
    return zf_pv_len(state) == 2;
}

/* The value whose children count as those of v (of an instance, its attributes); NULL: v is plain. */
static const struct zf_pv *visit_inside(const struct zf_pv *v, enum naming *naming)
{
    *naming = BY_STEP;
    switch (zf_pv_kind(v)) {
    case ZF_PV_DICT:
    case ZF_PV_LIST:
    case ZF_PV_TUPLE:
    case ZF_PV_SET:
        return v;
    case ZF_PV_CALL:
        break;
    default:
        return NULL;
    }
    if (zf_pv_is_map(v) || zf_pv_is_seq(v))
        return v;
    if (zf_pv_is(v, NULL, "BytesIO") || zf_pv_is(v, "_codecs", "encode"))
        return NULL; /* bytes are a plain value */
    const struct zf_pv *state = zf_pv_state(v);
    if (zf_pv_is_map(state)) {
        *naming = BY_DOT;
        return state;
    }
    if (zf_pv_kind(state) == ZF_PV_TUPLE) {
        *naming = visit_is_attributes(state) ? BY_NONE : BY_DOT;
        return state;
    }
    return zf_pv_args(v);
}

static bool visit_is_table_of_module(const struct frame *f, const struct zf_out *name)
{
    static const char *const table[] = {"_parameters", "_buffers", "_modules"};

    if (f->naming != BY_DOT)
        return false;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(zf_out_text(name), table[i]) == 0)
            return true;
    return false;
}

static bool visit_push(struct visit_walk *w, const struct zf_pv *v, struct frame *f,
                       struct zf_err *err)
{
    if (w->frame.n >= w->lim->pickle_depth) {
        return zf_fail_limit(err, ZF_LIMIT_pickle_depth, ZF_OFF_NONE,
                             "values are nested deeper than the limit pickle_depth=%" PRIu64,
                             w->lim->pickle_depth);
    }
    if (!zf_vec_room(&w->frame, 1, err))
        return false;
    f->v = v;
    f->n = zf_pv_len(v);
    f->mapping = zf_pv_is_map(v);
    w->frame.at[w->frame.n++] = *f;
    return true;
}

/* Cuts the path back to that of the value itself. */
static void visit_restore(struct visit_walk *w, const struct frame *f)
{
    w->at.n = f->n_steps;
    zf_out_cut(&w->key, f->key_len);
    if (w->at.n > 0)
        w->at.at[w->at.n - 1].n = f->last_len;
}

/* Leaves the innermost value and records whether it held tensors. */
static bool visit_pop(struct visit_walk *w, struct zf_err *err)
{
    struct frame *f = &w->frame.at[--w->frame.n];

    if (f->many) {
        struct seen *s = zf_table_make_id(w->seen, (uintptr_t)f->v, err);

        if (!s)
            return false;
        s->state = f->tensors ? SEEN_TENSORS + f->shown + 1 : SEEN_EMPTY;
    }
    if (w->frame.n > 0)
        w->frame.at[w->frame.n - 1].tensors |= f->tensors;
    if (w->n_named > w->frame.n) {
        visit_restore(w, f);
        w->n_named--;
    }
    return true;
}

static void visit_child_text(struct zf_out *out, const struct frame *f, uint64_t i)
{
    zf_out_cut(out, 0);
    if (f->mapping)
        visit_key_text(out, zf_pv_key(f->v, i), i);
    else
        zf_out_dec(out, i);
}

/* Completes the path to the current child of the innermost value. */
static bool visit_name_all(struct visit_walk *w, struct zf_err *err)
{
    for (; w->n_named < w->frame.n; w->n_named++) {
        struct frame *f = &w->frame.at[w->n_named];
        struct zf_out *name = &w->name;

        f->key_len = w->key.n;
        f->n_steps = w->at.n;
        f->last_len = w->at.n ? w->at.at[w->at.n - 1].n : 0;
        visit_child_text(name, f, f->next - 1);
        if (!zf_out_ok(name, err))
            return false;
        enum naming how = visit_is_table_of_module(f, name) ? BY_NONE : f->naming;
        if (!visit_name_child(w, how, zf_out_text(name), name->n, !f->mapping, err))
            return false;
    }
    return true;
}

static bool visit_leaf(struct visit_walk *w, const struct zf_pv *v, enum zf_torch_kind kind,
                       struct zf_err *err)
{
    const struct frame *top = w->frame.n ? &w->frame.at[w->frame.n - 1] : NULL;
    bool in_list = kind == ZF_TORCH_NOT && top && !top->mapping;

    if (in_list && !zf_pv_is_number(v)) {
        w->visit->n_unnamed++; /* bytes are shown under a text key only */
        return true;
    }
    if (!visit_name_all(w, err))
        return false;
    if (in_list && top->n_steps < ENTRY_STEPS) {
        w->visit->n_unnamed++;
        return true;
    }
    for (size_t i = 0; i < w->at.n; i++) {
        w->step.at[i] = (struct zf_step){.p = zf_out_text(&w->key) + w->at.at[i].at,
                                         .n = w->at.at[i].n,
                                         .index = w->at.at[i].index};
    }
    struct zf_leaf leaf = {
        .path = {.step = w->step.at, .n = (uint32_t)w->at.n}, .kind = kind, .value = v};
    if (kind != ZF_TORCH_NOT) {
        if (w->frame.n > 0)
            w->frame.at[w->frame.n - 1].tensors = true;
        if (++w->n_tensors > w->lim->tensors) {
            return zf_fail_limit(err, ZF_LIMIT_tensors, ZF_OFF_NONE,
                                 "more tensors in one file than the limit tensors=%" PRIu64,
                                 w->lim->tensors);
        }
    }
    return w->visit->fn(w->visit->ctx, &leaf, err);
}

/* Marks a value as open; *fresh_out: false if it is open already, or known to hold nothing. */
static bool visit_remember(struct visit_walk *w, const struct zf_pv *in, struct frame *f,
                           bool *fresh_out, struct zf_err *err)
{
    struct seen *s = zf_table_make_id(w->seen, (uintptr_t)in, err);

    if (!s)
        return false;
    *fresh_out = s->state != SEEN_OPEN && s->state != SEEN_EMPTY;
    f->shown = s->state > SEEN_TENSORS ? s->state - SEEN_TENSORS : 0;
    if (f->shown >= SHOWN_MAX) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "one value occurs in more than %d places of the file", SHOWN_MAX);
    }
    s->state = *fresh_out ? SEEN_OPEN : s->state;
    return true;
}

/* Is v a built-in container of Python, and so not a tensor? */
static bool visit_is_container(const struct zf_pv *v)
{
    switch (zf_pv_kind(v)) {
    case ZF_PV_DICT:
    case ZF_PV_LIST:
    case ZF_PV_TUPLE:
    case ZF_PV_SET:
        return true;
    default:
        return false;
    }
}

/* Shows v, or enters it.  outer: the naming in its container. */
static bool visit_enter(struct visit_walk *w, const struct zf_pv *v, enum naming outer,
                        struct zf_err *err)
{
    enum zf_torch_kind kind = visit_is_container(v) ? ZF_TORCH_NOT : zf_torch_kind(w->torch, v);
    struct frame f = {0};
    const struct zf_pv *in = kind == ZF_TORCH_NOT ? visit_inside(v, &f.naming) : NULL;

    if (!in)
        return visit_leaf(w, v, kind, err);
    f.many = zf_pv_many(v) || zf_pv_many(in);
    if (f.many) {
        bool fresh;

        if (!visit_remember(w, in, &f, &fresh, err))
            return false;
        if (!fresh)
            return true;
    }
    f.naming = outer == BY_DOT && f.naming == BY_STEP ? BY_DOT : f.naming;
    return visit_push(w, in, &f, err);
}

static const struct zf_pv *visit_child_at(const struct zf_pv *v, bool mapping, uint64_t i)
{
    return mapping ? zf_pv_val(v, i) : zf_pv_item(v, i);
}

/* The kinds of plain values below a container that never need a name.  A file can hold millions of
 * them, and making a name costs more than reading the value.  open: the number of open values, with
 * the container. */
static uint32_t visit_bare_kinds(const struct visit_walk *w, bool mapping, size_t open)
{
    uint32_t kinds = 1u << ZF_PV_NONE | 1u << ZF_PV_BOOL | 1u << ZF_PV_STR | 1u << ZF_PV_BIGINT |
                     1u << ZF_PV_GLOBAL | 1u << ZF_PV_EXT;

    /* Each open value adds at most one step, and the prefix is one. */
    if (!mapping && open - 1 + w->prefixed < ENTRY_STEPS)
        kinds |= 1u << ZF_PV_INT | 1u << ZF_PV_FLOAT;
    return kinds;
}

/* Is v a small container of values that need no name? */
static bool visit_is_flat(const struct visit_walk *w, const struct zf_pv *v)
{
    uint64_t n = zf_pv_len(v);

    if (n == 0 || n > FLAT_MAX || !visit_is_container(v) || zf_pv_many(v) ||
        w->frame.n >= w->lim->pickle_depth)
        return false;
    return zf_pv_span(v, 0, visit_bare_kinds(w, zf_pv_is_map(v), w->frame.n + 1)) == n;
}

/* Skips and counts children of the innermost value that need no name; true: none is left. */
static bool visit_skip_bare(struct visit_walk *w, struct frame *top)
{
    uint32_t kinds = visit_bare_kinds(w, top->mapping, w->frame.n);

    while (top->next < top->n) {
        uint64_t bare = zf_pv_span(top->v, top->next, kinds);
        uint64_t empty = zf_pv_span(top->v, top->next + bare, ZF_PV_EMPTY);
        const struct zf_pv *child = visit_child_at(top->v, top->mapping, top->next + bare + empty);
        uint64_t flat = visit_is_flat(w, child);

        w->visit->n_unnamed += bare + flat;
        top->next += bare + empty + flat;
        if (bare + empty + flat == 0)
            return false;
    }
    return true;
}

/* Goes on to the next child of the innermost value. */
static bool visit_advance(struct visit_walk *w, struct zf_err *err)
{
    struct frame *top = &w->frame.at[w->frame.n - 1];

    if (visit_skip_bare(w, top))
        return true;
    const struct zf_pv *child = visit_child_at(top->v, top->mapping, top->next++);
    if (w->n_named == w->frame.n) { /* the child before this one was named */
        visit_restore(w, top);
        w->n_named--;
    }
    /* Inside an object, all further names are appended. */
    return visit_enter(w, child, top->naming == BY_STEP ? BY_STEP : BY_DOT, err);
}

static bool visit_run(struct visit_walk *w, const struct zf_pv *v, const char *prefix,
                      struct zf_err *err)
{
    w->prefixed = prefix != NULL;
    if ((prefix && !visit_add_step(w, prefix, strlen(prefix), false, err)) ||
        !visit_enter(w, v, BY_STEP, err))
        return false;
    while (w->frame.n > 0) {
        struct frame *top = &w->frame.at[w->frame.n - 1];

        if (top->next < top->n ? !visit_advance(w, err) : !visit_pop(w, err))
            return false;
    }
    return true;
}

bool zf_torch_visit(struct zf_torch *t, const struct zf_pv *v, const char *prefix,
                    const struct zf_limits *lim, struct zf_visit *visit, struct zf_err *err)
{
    struct visit_walk w = {.torch = t, .lim = lim, .visit = visit};
    bool ok = visit_run(&w, v, prefix, err);

    visit_walk_fini(&w);
    return ok;
}
