/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates the lines of a recipe, one after the other. */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"

#define MAX_VARS 256

/* ---- lines ------------------------------------------------------------------------------------ */

static bool run_settings(struct plan *p, struct zf_err *err)
{
    const struct line *l = p->line;
    const bool all = l->name[strlen(l->name) - 1] == '*';
    json_t *root = p->root ? NULL
                   : all   ? said_files(p->files, l->name)
                           : said_file(p->files, l->name);

    if (root && all && p->files->clash[0])
        return plan_problem(p, l->at, err, "%s", p->files->clash);
    if (root && said_any(root, l->text)) {
        p->root = root;
        p->file = l->name;
        p->prefix = l->text;
    }
    return true;
}

/* also FILE: adds a file to settings that were merged from several files. */
static bool run_also(struct plan *p, struct zf_err *err)
{
    const struct line *l = p->line;

    if (!p->root || p->file[strlen(p->file) - 1] != '*')
        return true;
    if (!said_also(p->files, p->root, l->name))
        return plan_problem(p, l->at, err, "%.60s holds no settings", l->name);
    return !p->files->clash[0] || plan_problem(p, l->at, err, "%s", p->files->clash);
}

static bool run_need(struct plan *p, struct zf_err *err)
{
    const struct expr_ask ask = ask_begin(p);
    bool so;

    if (!expr_true(p->line->expr, &ask, &so, err)) {
        p->fits = false;
        return plan_wrong(p, p->line->at, err);
    }
    p->fits = so;
    return so || plan_problem(p, p->line->at, err, "%s", p->line->text);
}

static bool run_refuse(struct plan *p, struct zf_err *err)
{
    const struct expr_ask ask = ask_begin(p);
    bool so;

    if (!expr_true(p->line->expr, &ask, &so, err))
        return plan_wrong(p, p->line->at, err);
    return !so || plan_problem(p, p->line->at, err, "%s", p->line->text);
}

static bool run_note(struct plan *p, struct zf_err *err)
{
    const struct expr_ask ask = ask_begin(p);
    bool so;

    if (!expr_true(p->line->expr, &ask, &so, err))
        return plan_wrong(p, p->line->at, err);
    return !so || json_array_append_new(p->notes, zf_json_text(p->line->text)) == 0 ||
           zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a note");
}

static bool run_check(struct plan *p, struct zf_err *err)
{
    const struct expr_ask ask = ask_begin(p);
    zf_auto(json) json_t *left = NULL;
    zf_auto(json) json_t *right = NULL;

    if (!expr_sides(p->line->expr, &ask, &left, &right, err))
        return plan_wrong(p, p->line->at, err);
    if (!left) {
        bool so;

        if (!expr_true(p->line->expr, &ask, &so, err))
            return plan_wrong(p, p->line->at, err);
        return so || plan_problem(p, p->line->at, err, "%s", p->line->text);
    }
    if (expr_equal(left, right))
        return true;
    zf_auto(mem) char *a = text_json(left, JSON_COMPACT);
    zf_auto(mem) char *b = text_json(right, JSON_COMPACT);
    return plan_problem(p, p->line->at, err, "%s: %.60s and %.60s", p->line->text, a ? a : "?",
                        b ? b : "?");
}

/* Sets the variable of the line; takes ownership of value. */
static bool run_set(struct plan *p, json_t *value, struct zf_err *err)
{
    struct var *v = p->var.n < MAX_VARS ? zf_vec_push(&p->var, err) : NULL;

    if (!v) {
        json_decref(value);
        return p->var.n < MAX_VARS
                   ? false
                   : plan_problem(p, p->line->at, err, "more than %d names", MAX_VARS);
    }
    *v = (struct var){p->line->name, value, p->from ? p->from : "", p->line->kind == LINE_SIZE};
    return true;
}

static bool run_let(struct plan *p, struct zf_err *err)
{
    const struct line *l = p->line;
    const struct expr_ask ask = ask_begin(p);
    bool wanted = true;
    uint64_t n;

    if (ask_var(p, l->name))
        return true; /* an earlier line set it */
    if (l->cond && !expr_true(l->cond, &ask, &wanted, err))
        return plan_wrong(p, p->line->at, err);
    if (!wanted)
        return true;
    p->from = NULL;
    json_t *v = expr_value(l->expr, &ask, err);
    if (!v)
        return plan_wrong(p, p->line->at, err);
    if (l->kind == LINE_SIZE && (!zf_json_u64(v, &n) || n == 0)) {
        zf_auto(mem) char *is = text_json(v, JSON_COMPACT);
        const bool none = json_is_null(v);

        json_decref(v);
        return plan_problem(p, l->at, err,
                            none ? "the size %.40s is not recorded%s%.200s"
                                 : "the size %.40s is not a number of elements: %s%.60s",
                            l->name, none && l->text ? ": " : "",
                            none ? (l->text ? l->text : "") : (is ? is : "?"));
    }
    return run_set(p, v, err);
}

static bool run_index(struct plan *p, struct zf_err *err)
{
    const struct expr_ask ask = ask_begin(p);
    struct loop *l = &p->loops.at[p->loops.n];
    uint64_t end;

    if (p->loops.n == MAX_LOOPS)
        return plan_problem(p, p->line->at, err, "more than %d indices", MAX_LOOPS);
    if (!expr_u64(p->line->expr, &ask, &end, err))
        return plan_wrong(p, p->line->at, err);
    if (end > p->lim->tensors) {
        return plan_problem(p, p->line->at, err, "the index goes up to %llu (limit tensors)",
                            (unsigned long long)end);
    }
    *l = (struct loop){.name = p->line->name, .end = end};
    if (p->line->one)
        *l = (struct loop){.name = p->line->name, .value = end, .one = true, .open = true};
    p->loops.n++;
    return true;
}

/* list NAME = EXPR for INDEX if COND */
static bool run_list(struct plan *p, struct zf_err *err)
{
    const struct line *l = p->line;
    const struct expr_ask ask = ask_begin(p);
    struct loop *at = NULL;
    json_t *list = json_array();

    for (uint32_t i = 0; i < p->loops.n; i++) {
        const bool is = strcmp(p->loops.at[i].name, l->text) == 0 && !p->loops.at[i].one;

        at = is ? &p->loops.at[i] : at;
    }
    bool ok = list && at;
    for (uint64_t i = 0; ok && i < at->end; i++) {
        bool wanted = true;

        at->open = true;
        at->value = i;
        ok = !l->cond || expr_true(l->cond, &ask, &wanted, err);
        json_t *v = ok && wanted ? expr_value(l->expr, &ask, err) : NULL;
        ok = ok && (!wanted || (v && json_array_append_new(list, v) == 0));
    }
    if (at)
        at->open = false;
    if (!ok) {
        json_decref(list);
        return at ? plan_wrong(p, p->line->at, err)
                  : plan_problem(p, l->at, err, "there is no index %.40s", l->text);
    }
    return run_set(p, list, err);
}

/* Puts value, of which it takes ownership, at a dotted key. */
static bool run_put(json_t *config, const char *key, json_t *value)
{
    char part[128];

    for (const char *dot; (dot = strchr(key, '.')) && (size_t)(dot - key) < sizeof part;
         key = dot + 1) {
        memcpy(part, key, (size_t)(dot - key));
        part[dot - key] = '\0';
        json_t *in = json_object_get(config, part);
        if (!json_is_object(in)) {
            in = json_object();
            if (!in || json_object_set_new_nocheck(config, part, in) != 0) {
                json_decref(value);
                return false;
            }
        }
        config = in;
    }
    return value && json_object_set_new_nocheck(config, key, value) == 0;
}

/* Fills in a field that an existing config.json lacks: otherwise the class would use its own default.
 * inner: the key of a rotary setting in transformers 5, which may also have one per kind of layer. */
static bool run_fill(struct plan *p, const char *key, const char *inner, json_t *value,
                     struct zf_err *err)
{
    if (strncmp(key, "rope_theta", 10) == 0 || strncmp(key, "rope_scaling.", 13) == 0) {
        if (json_is_object(said_find(p->outside, "", "rope_parameters.full_attention")))
            return true;
        if (json_is_object(said_find(p->outside, "", "rope_parameters")))
            key = inner;
    }
    p->filled = p->filled ? p->filled : json_deep_copy(p->outside);
    return (p->filled && run_put(p->filled, key, json_incref(value))) ||
           zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for config.json");
}

/* Compares a field of an existing config.json with value; fills it in if it is missing. */
static bool run_compare(struct plan *p, const char *key, json_t *value, struct zf_err *err)
{
    char inner[160];
    json_t *other = said_find(p->outside, "", key);

    (void)snprintf(inner, sizeof inner, "rope_parameters.%.100s",
                   strncmp(key, "rope_scaling.", 13) == 0 ? key + 13 : key);
    other = other ? other : said_find(p->outside, "", inner);
    if (json_is_null(value))
        return true;
    if (!other || json_is_null(other))
        return run_fill(p, key, inner, value, err);
    if (expr_equal(other, value))
        return true;
    zf_auto(mem) char *a = text_json(value, JSON_COMPACT);
    zf_auto(mem) char *b = text_json(other, JSON_COMPACT);
    return plan_problem(p, p->line->at, err,
                        "%.60s is %.60s in the checkpoint, but %.60s in config.json", key,
                        a ? a : "?", b ? b : "?");
}

static bool run_config(struct plan *p, struct zf_err *err)
{
    const struct line *l = p->line;
    const struct expr_ask ask = ask_begin(p);
    bool wanted = true;

    if (l->cond && !expr_true(l->cond, &ask, &wanted, err))
        return plan_wrong(p, p->line->at, err);
    if (!wanted)
        return true;
    json_t *v = expr_value(l->expr, &ask, err);
    if (!v)
        return plan_wrong(p, p->line->at, err);
    if (l->kind == LINE_CONFIG && p->outside && !run_compare(p, l->name, v, err)) {
        json_decref(v);
        return false;
    }
    if (!run_put(p->config, l->name, v))
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for config.json");
    return true;
}

static bool run_model(struct plan *p, struct zf_err *err)
{
    const struct line *l = p->line;
    const struct expr_ask ask = ask_begin(p);
    bool wanted = !p->arch;

    if (wanted && l->cond && !expr_true(l->cond, &ask, &wanted, err))
        return plan_wrong(p, p->line->at, err);
    if (!wanted)
        return true;
    json_t *type = json_string(l->text);
    p->arch = l->name;
    if (p->outside && !run_compare(p, "model_type", type, err)) {
        json_decref(type);
        return false;
    }
    return (run_put(p->config, "model_type", type) &&
            json_object_set_new(p->config, "architectures", json_pack("[s]", l->name)) == 0) ||
           zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for config.json");
}

static bool run_work(struct plan *p, struct zf_err *err)
{
    switch (p->line->kind) {
    case LINE_TITLE:
        return true;
    case LINE_SETTINGS:
        return run_settings(p, err);
    case LINE_ALSO:
        return run_also(p, err);
    case LINE_STRIP:
        return given_strip(&p->src, p->line->name, p->line->text, err);
    case LINE_MODEL:
        return run_model(p, err);
    case LINE_NEED:
        return run_need(p, err);
    case LINE_REFUSE:
        return run_refuse(p, err);
    case LINE_NOTE:
        return run_note(p, err);
    case LINE_CHECK:
        return run_check(p, err);
    case LINE_LET:
    case LINE_SIZE:
        return run_let(p, err);
    case LINE_INDEX:
        return run_index(p, err);
    case LINE_LIST:
        return run_list(p, err);
    case LINE_CONFIG:
    case LINE_DEFAULT:
        return run_config(p, err);
    default:
        return expand_line(p, err);
    }
}

static bool run_line(struct plan *p, struct zf_err *err)
{
    const enum line_kind kind = p->line->kind;
    bool wanted = true;

    if (p->line->cond && (kind == LINE_NEED || kind == LINE_REFUSE || kind == LINE_CHECK ||
                          kind == LINE_NOTE || kind == LINE_SETTINGS)) {
        const struct expr_ask ask = ask_begin(p);

        if (!expr_true(p->line->cond, &ask, &wanted, err))
            return plan_wrong(p, p->line->at, err);
    }
    return !wanted || run_work(p, err);
}

static bool run_begin(struct plan *p, const struct recipe *r, const struct given *given,
                      struct said *files, struct zf_err *err)
{
    p->r = r;
    p->files = files;
    p->src = given_share(given);
    p->a = zf_arena_new(p->lim->model_memory, err);
    p->config = json_object();
    p->left_out = json_array();
    p->notes = json_array();
    p->fits = true;
    static const char *const place[] = {"config.json",
                                        "state/config.json"}; /* the second is from side= */
    for (size_t i = 0; !p->outside && i < sizeof place / sizeof place[0]; i++) {
        json_t *j = said_file(files, place[i]);

        if (json_object_get(j, "model_type") || json_object_get(j, "architectures")) {
            p->outside = j;
            p->outside_path = place[i];
        }
    }
    return p->a && p->config && p->left_out && p->notes;
}

bool run_recipe(struct plan *p, const struct recipe *r, const struct given *given,
                struct said *files, bool brief, struct zf_err *err)
{
    *p = (struct plan){.lim = files->lim};
    if (!run_begin(p, r, given, files, err))
        return false;
    for (uint32_t i = 0; i < r->n; i++) {
        const bool rule = r->line[i].kind == LINE_RULE || r->line[i].kind == LINE_DROP;

        p->line = &r->line[i];
        if (brief && (rule || p->line->kind == LINE_NOTE))
            continue;
        if (p->line->kind != LINE_STRIP && !given_sort(&p->src, err)) {
            p->fits = false; /* without unique names, nothing can be looked up */
            return plan_wrong(p, SIZE_MAX, err);
        }
        if (!run_line(p, err))
            return false;
        if (!p->fits || (plan_bad(p) && !rule))
            return true; /* later lines would only repeat the problem */
    }
    return brief || close_plan(p, err);
}
