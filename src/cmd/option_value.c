/* SPDX-License-Identifier: Apache-2.0 */
#include "option_value.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zf/base/num.h>
#include <zf/base/path.h>
#include <zf/view.h>

const struct option_row option_rows[N_OPTION_ROWS] = {
#define OPT(name, kind, field, where, meta, help)                                                  \
    {name, kind, offsetof(struct opts, field), where, meta, help},
#include "options.def"
#undef OPT
};

/* Not given.  A number that was never set must differ from one that was set to its default. */
#define UNSET UINT64_MAX

struct opts opts_default(void)
{
    return (struct opts){
        .shard_size = UNSET,
        .uid = UNSET,
        .gid = UNSET,
        .umask = UNSET,
        .max_threads = UNSET,
        .max_read = UNSET,
        .read_ahead = UNSET,
        .connections = UNSET,
        .cache_mem = UNSET,
        .cache_size = UNSET,
        .entry_timeout = NAN,
        .attr_timeout = NAN,
        .timeout = NAN,
        .lim = zf_limits_default(),
    };
}

static void options_list_fini(struct opt_list *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        free(l->at[i]);
    }
    zf_vec_fini(l);
}

void opts_fini(struct opts *o)
{
    for (size_t i = 0; i < N_OPTION_ROWS; i++) {
        void *field = (char *)o + option_rows[i].at;

        if (option_rows[i].kind == TEXT) {
            free(*(char **)field);
            *(char **)field = NULL;
        } else if (option_rows[i].kind == LIST || option_rows[i].kind == PASS ||
                   option_rows[i].kind == WORDS) {
            options_list_fini(field);
        }
    }
}

bool opts_passes(const struct opts *o, const char *word)
{
    for (uint32_t i = 0; i < o->pass.n; i++) {
        if (strcmp(o->pass.at[i], word) == 0) {
            return true;
        }
    }
    return false;
}

static bool options_append(struct opt_list *l, const char *text, struct zf_err *err)
{
    char **copy = zf_vec_push(l, err);

    return copy && ((*copy = strdup(text)) || zf_fail_sys(err, "keep an option"));
}

/* words: a|b|c. */
static bool options_check_word(const char *name, const char *words, const char *value,
                               struct zf_err *err)
{
    char all[100] = "";
    size_t n = 0;

    for (const char *w = words, *end; *w; w = *end ? end + 1 : end) {
        end = strchrnul(w, '|');
        if (strlen(value) == (size_t)(end - w) && strncmp(w, value, (size_t)(end - w)) == 0) {
            return true;
        }
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%.*s",
                              w == words ? ""
                              : *end     ? ", "
                                         : " or ",
                              (int)(end - w), w);
    }
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s is %s, found \"%s\"", name, all, value);
}

static bool options_set_text(char **field, const struct option_row *r, const char *value,
                             struct zf_err *err)
{
    if (!*value) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s needs a value: %s=%s", r->name, r->name,
                       r->meta);
    }
    if (strchr(r->meta, '|') && !options_check_word(r->name, r->meta, value, err)) {
        return false;
    }
    if (*field && strcmp(*field, value) != 0) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s is given twice, as \"%s\" and as \"%s\"",
                       r->name, *field, value);
    }
    char *copy = strdup(value);
    if (!copy) {
        return zf_fail_sys(err, "keep an option");
    }
    free(*field);
    *field = copy;
    return true;
}

static bool options_find_owner(const struct option_row *r, const char *name, uint64_t *out)
{
    if (r->kind == USER) {
        const struct passwd *u = getpwnam(name);

        *out = u ? u->pw_uid : 0;
        return u != NULL;
    }
    const struct group *g = getgrnam(name);
    *out = g ? g->gr_gid : 0;
    return g != NULL;
}

static bool options_parse_number(const struct option_row *r, const char *value, uint64_t *out)
{
    bool owner = r->kind == USER || r->kind == GROUP;
    uint64_t most = r->kind == OCTAL            ? 0777
                    : r->kind == COUNT || owner ? UINT32_MAX - 1
                                                : UINT64_MAX - 1;
    char *end;

    if (r->kind == SIZE) {
        return zf_num_size(value, out) && *out <= most;
    }
    if (!isdigit((unsigned char)*value)) {
        return owner && options_find_owner(r, value, out);
    }
    errno = 0;
    *out = strtoull(value, &end, r->kind == OCTAL ? 8 : 10);
    return errno == 0 && *end == '\0' && *out <= most;
}

static bool options_set_number(uint64_t *field, const struct option_row *r, const char *value,
                               struct zf_err *err)
{
    uint64_t v;

    if (!options_parse_number(r, value, &v)) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s needs %s, found \"%s\"", r->name,
                       r->kind == OCTAL   ? "an octal mode up to 777"
                       : r->kind == SIZE  ? "a size such as 5G"
                       : r->kind == USER  ? "a number or the name of a user"
                       : r->kind == GROUP ? "a number or the name of a group"
                                          : "a number",
                       value);
    }
    if (*field != UNSET && *field != v) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s is given twice, with different values",
                       r->name);
    }
    *field = v;
    return true;
}

static bool options_set_seconds(double *field, const struct option_row *r, const char *value,
                                struct zf_err *err)
{
    char *end;
    double v = strtod(value, &end);

    if (end == value || *end != '\0' || !(v >= 0) || isinf(v)) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s needs a number of seconds, found \"%s\"",
                       r->name, value);
    }
    if (!isnan(*field) && (*field < v || *field > v)) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s is given twice, with different values",
                       r->name);
    }
    *field = v;
    return true;
}

_Static_assert(N_OPTION_ROWS <= 64, "given has a bit a row");

bool option_set(struct opts *o, const struct option_row *r, const char *value, struct zf_err *err)
{
    void *field = (char *)o + r->at;
    char text[256];

    o->given |= (uint64_t)1 << (r - option_rows);

    if (r->meta && !value) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s needs a value: %s=%s", r->name, r->name,
                       r->meta);
    }
    if (!r->meta && value) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s takes no value", r->name);
    }
    switch (r->kind) {
    case FLAG:
        *(bool *)field = true;
        return true;
    case TEXT:
        return options_set_text(field, r, value, err);
    case LIST:
    case WORDS:
        return options_append(field, value, err);
    case SECONDS:
        return options_set_seconds(field, r, value, err);
    case PASS:
        (void)snprintf(text, sizeof text, value ? "%s=%s" : "%s", r->name, value);
        return options_append(field, text, err);
    case SIZE:
    case COUNT:
    case OCTAL:
    case USER:
    case GROUP:
        break;
    }
    return options_set_number(field, r, value, err);
}

static void options_fill_numbers(struct opts *o)
{
    struct {
        uint64_t *field, dflt;
    } const numbers[] = {
        {&o->shard_size, 0},        {&o->uid, getuid()},
        {&o->gid, getgid()},        {&o->umask, 0},
        {&o->max_threads, 0},       {&o->max_read, 0},
        {&o->read_ahead, 1u << 20}, {&o->connections, 0},
        {&o->cache_mem, 0},         {&o->cache_size, 10ull << 30},
    };
    /* Nothing in the tree ever changes. */
    const double for_ever = 1e9;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        *numbers[i].field = *numbers[i].field == UNSET ? numbers[i].dflt : *numbers[i].field;
    }
    o->entry_timeout = isnan(o->entry_timeout) ? for_ever : o->entry_timeout;
    o->attr_timeout = isnan(o->attr_timeout) ? for_ever : o->attr_timeout;
    o->timeout = isnan(o->timeout) ? 0 : o->timeout;
}

/* A daemon leaves the directory it was started in.  A path that is missing is reported when it is
 * opened; that of a cache may be made then. */
static bool options_make_absolute(struct opts *o, struct zf_err *err)
{
    char **path[] = {&o->side, &o->tp_rules, &o->cacert, &o->local_cache};

    for (size_t i = 0; i < sizeof path / sizeof path[0]; i++) {
        char *real = *path[i] ? realpath(*path[i], NULL) : NULL;

        if (real) {
            free(*path[i]);
            *path[i] = real;
        }
    }
    return !o->model_cache || strcmp(o->model_cache, "auto") == 0 ||
           strcmp(o->model_cache, "off") == 0 || zf_path_absolute(&o->model_cache, err);
}

bool options_settle(struct opts *o, struct zf_err *err)
{
    options_fill_numbers(o);
    if (opts_passes(o, "allow_other") && opts_passes(o, "allow_root")) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "allow_other and allow_root contradict each other");
    }
    if (o->all_tags && o->tag) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "all_tags and tag=%s contradict each other",
                       o->tag);
    }
    if (!options_make_absolute(o, err)) {
        return false;
    }
    for (uint32_t i = 0; i < o->show.n; i++) {
        if (!zf_show_add(&o->shown, o->show.at[i], err)) {
            return false;
        }
    }
    o->shown = o->shown ? o->shown : ZF_SHOW_AUTO;
    for (uint32_t i = 0; i < o->limit.n; i++) {
        if (!zf_limits_set(&o->lim, o->limit.at[i], err)) {
            return false;
        }
    }
    return true;
}

static void options_each_text(const char *name, const char *value, void (*fn)(void *, const char *),
                              void *ctx)
{
    zf_auto(mem) char *text = NULL;

    if (asprintf(&text, "%s=%s", name, value) > 0) {
        fn(ctx, text);
    }
}

static void options_each_field(const struct option_row *r, const struct opts *o,
                               void (*fn)(void *, const char *), void *ctx)
{
    const void *field = (const char *)o + r->at;
    const struct opt_list *list = field;
    char number[40];

    switch (r->kind) {
    case FLAG:
        if (*(const bool *)field) {
            fn(ctx, r->name);
        }
        return;
    case TEXT:
        if (*(char *const *)field) {
            options_each_text(r->name, *(char *const *)field, fn, ctx);
        }
        return;
    case LIST:
    case WORDS:
        for (uint32_t i = 0; i < list->n; i++) {
            options_each_text(r->name, list->at[i], fn, ctx);
        }
        return;
    case PASS: /* several rows share the list */
        if (opts_passes(o, r->name)) {
            fn(ctx, r->name);
        }
        return;
    case SECONDS:
        (void)snprintf(number, sizeof number, "%g", *(const double *)field);
        break;
    case SIZE:
    case COUNT:
    case OCTAL:
    case USER:
    case GROUP:
        (void)snprintf(number, sizeof number, r->kind == OCTAL ? "%llo" : "%llu",
                       (unsigned long long)*(const uint64_t *)field);
        break;
    }
    options_each_text(r->name, number, fn, ctx);
}

/* Is it given as the word that it is without being given?  Of several the first one is. */
static bool options_is_default(const struct option_row *r, const struct opts *o)
{
    const char *const *text = (const void *)((const char *)o + r->at);
    size_t n = r->meta ? strcspn(r->meta, "|") : 0;

    return r->kind == TEXT && r->meta && r->meta[n] && *text && strlen(*text) == n &&
           strncmp(*text, r->meta, n) == 0;
}

void opts_each(const struct opts *o, bool given, void (*fn)(void *ctx, const char *text), void *ctx)
{
    for (size_t i = 0; i < N_OPTION_ROWS; i++) {
        if (given ? (o->given & (uint64_t)1 << i) != 0 : !options_is_default(&option_rows[i], o)) {
            options_each_field(&option_rows[i], o, fn, ctx);
        }
    }
}
