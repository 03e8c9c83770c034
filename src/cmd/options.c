/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/base/name.h>
#include <zf/base/num.h>
#include <zf/base/out.h>
#include <zf/base/path.h>
#include <zf/view.h>

/* ---- the table --------------------------------------------------------------------------------- */

enum { MODEL = OPTS_MODEL, BYTES = OPTS_BYTES, SHOWN = OPTS_SHOWN };
enum {
#define CMD(id, function, name, least, most, needs, args, summary) id = 1 << CMD_##id,
#include "table.def"
#undef CMD
    TREE = MOUNT | LS | CAT | SHOW | STAT | MAP | EXPORT,
    CKPT = TREE | INFO | TAGS | NEWEST | DIFF | VERIFY | RECIPES | RECIPE
};

const struct option_row option_rows[N_OPTIONS] = {
#define OPT(name, kind, field, dflt, commands, counts, meta, help)                                 \
    {name, 0, false, kind, offsetof(struct opts, field), dflt, commands, counts, meta, help},
#define OWN(letter, name, kind, field, commands, meta, help)                                       \
    {name, letter, true, kind, offsetof(struct opts, field), NULL, commands, 0, meta, help},
#include "options.def"
#undef OPT
#undef OWN
};

static unsigned options_bit(const struct cmd *c)
{
    return 1u << (c - cmd_table);
}

bool option_listed(const struct cmd *c, const struct option_row *r)
{
    return r->commands & options_bit(c);
}

bool option_accepts(const struct cmd *c, const struct option_row *r)
{
    return option_listed(c, r) || (!r->own && r->commands != MOUNT && (options_bit(c) & CKPT));
}

bool option_lists(const struct cmd *c)
{
    return options_bit(c) & CKPT;
}

static bool options_is_list(const struct option_row *r)
{
    return r->kind == LIST || r->kind == WORDS || r->kind == PASS;
}

static void *options_field(const struct opts *o, const struct option_row *r)
{
    return (char *)(uintptr_t)o + r->at;
}

struct opts opts_default(void)
{
    return (struct opts){.lim = zf_limits_default()};
}

void opts_fini(struct opts *o)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *r = &option_rows[i];
        char **text = options_field(o, r);
        struct opt_list *list = options_field(o, r);

        if (r->kind == TEXT || r->kind == PATH || r->kind == NAMED) {
            free(*text);
            *text = NULL;
        }
        while (options_is_list(r) && list->n)
            free(list->at[--list->n]);
        if (options_is_list(r))
            zf_vec_fini(list);
    }
}

uint32_t opts_jobs(const struct opts *o)
{
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    return (uint32_t)(o->jobs ? o->jobs : cpus > 0 ? (uint64_t)cpus : 1);
}

bool opts_passes(const struct opts *o, const char *word)
{
    for (uint32_t i = 0; i < o->pass.n; i++)
        if (strcmp(o->pass.at[i], word) == 0)
            return true;
    return false;
}

/* ---- values ------------------------------------------------------------------------------------ */

/* The position of `value` among words (a|b|c), counted from 0, or -1. */
static int options_place(const char *words, const char *value)
{
    int i = 0;

    for (const char *end; *words; words = *end ? end + 1 : end, i++) {
        end = strchrnul(words, '|');
        if (strlen(value) == (size_t)(end - words) &&
            strncmp(words, value, (size_t)(end - words)) == 0)
            return i;
    }
    return -1;
}

static bool options_owner(enum option_kind kind, const char *name, uint64_t *out)
{
    const struct passwd *u = kind == USER ? getpwnam(name) : NULL;
    const struct group *g = kind == GROUP ? getgrnam(name) : NULL;

    *out = u ? u->pw_uid : g ? g->gr_gid : 0;
    return u || g;
}

static bool options_seconds(const char *value, uint64_t *out)
{
    const double most = 1.8e10; /* seconds, so that ns fit in 64 bits */
    char *end;
    double v = strtod(value, &end);

    if (end == value || *end != '\0' || !(v >= 0) || isinf(v))
        return false;
    *out = (uint64_t)((v < most ? v : most) * 1e9 + 0.5);
    return true;
}

static bool options_number(const struct option_row *r, const char *value, uint64_t *out)
{
    const uint64_t most = r->kind == OCTAL ? 0777 : r->kind == JOBS ? 256 : UINT32_MAX - 1;
    char *end;

    if (r->kind == WORD) {
        int place = options_place(r->meta, value);

        *out = (uint64_t)place;
        return place >= 0;
    }
    if (r->kind == SECONDS || r->kind == SIZE)
        return r->kind == SIZE ? zf_num_size(value, out) : options_seconds(value, out);
    if (!isdigit((unsigned char)*value))
        return options_owner(r->kind, value, out);
    errno = 0;
    *out = strtoull(value, &end, r->kind == OCTAL ? 8 : 10);
    return errno == 0 && *end == '\0' && *out >= (r->kind == JOBS) && *out <= most;
}

/* Indexed by kind, starting with WORD. */
static const char *const options_needs[] = {
    "one of",
    "a size such as 5G",
    "a number of seconds",
    "a number",
    "a number from 1 to 256",
    "an octal mode up to 777",
    "a number or the name of a user",
    "a number or the name of a group",
};

static bool options_append(struct opt_list *l, const char *text, struct zf_err *err)
{
    char **copy = zf_vec_push(l, err);

    return copy && ((*copy = strdup(text)) || zf_fail_sys(err, "keep an option"));
}

static bool options_set_text(char **field, const struct option_row *r, const char *value,
                             bool again, struct zf_err *err)
{
    if (!*value) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s needs a value: %s=%s", r->name, r->name,
                       r->meta);
    }
    if (again && strcmp(*field, value) != 0) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s is given twice, as \"%s\" and as \"%s\"",
                       r->name, *field, value);
    }
    char *copy = strdup(value);
    if (!copy)
        return zf_fail_sys(err, "keep an option");
    free(*field);
    *field = copy;
    return true;
}

static bool options_set_number(uint64_t *field, const struct option_row *r, const char *value,
                               bool again, struct zf_err *err)
{
    uint64_t v;

    if (!options_number(r, value, &v)) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s needs %s%s%s, found \"%s\"", r->name,
                       options_needs[r->kind - WORD], r->kind == WORD ? " " : "",
                       r->kind == WORD ? r->meta : "", value);
    }
    if (again && *field != v) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s is given twice, with different values",
                       r->name);
    }
    *field = v;
    return true;
}

/* Sets the field of an option; again: it was given before. */
static bool options_set(struct opts *o, const struct option_row *r, const char *value, bool again,
                        struct zf_err *err)
{
    void *field = options_field(o, r);

    if (r->meta && !value) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s needs a value: %s=%s", r->name, r->name,
                       r->meta);
    }
    if (!r->meta && value)
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s takes no value", r->name);
    if (r->kind == FLAG) {
        *(bool *)field = true;
        return true;
    }
    if (options_is_list(r)) {
        /* For libfuse options the word is the option's name. */
        return options_append(field, r->kind == PASS ? r->name : value, err);
    }
    return r->kind < WORD ? options_set_text(field, r, value, again, err)
                          : options_set_number(field, r, value, again, err);
}

/* value: NULL if there was no '='. */
bool option_give(struct opts *o, const struct option_row *r, const char *value, struct zf_err *err)
{
    bool again = o->given[r - option_rows];

    o->given[r - option_rows] = true;
    return options_set(o, r, value, again, err);
}

/* Makes a path absolute, because a daemon leaves its working directory.  A missing path is reported when it is
 * opened, or created then, for a cache; but if the option also takes words, a missing path without '/' is a
 * misspelt word. */
static bool options_make_absolute(char **path, const struct option_row *r, struct zf_err *err)
{
    const bool word = *path && options_place(r->meta, *path) >= 0;
    char *real = *path && !word ? realpath(*path, NULL) : NULL;

    if (real) {
        free(*path);
        *path = real;
        return true;
    }
    if (*path && !word && strchr(r->meta, '|') && !strchr(*path, '/')) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "%s=%s: expected %s; there is no directory of that name (./%s makes one)",
                       r->name, *path, r->meta, *path);
    }
    return !*path || word || zf_path_absolute(path, err);
}

static bool options_complete_value(struct opts *o, const struct option_row *r, struct zf_err *err)
{
    if (!o->given[r - option_rows]) {
        if (r->dflt && !options_set(o, r, r->dflt, false, err))
            return false;
        if (r->kind == USER || r->kind == GROUP)
            *(uint64_t *)options_field(o, r) = r->kind == USER ? getuid() : getgid();
    }
    const char *text = r->kind == NAMED ? *(char *const *)options_field(o, r) : NULL;
    const bool path = r->kind == PATH || (text && strchr(text, '/'));
    return !path || options_make_absolute(options_field(o, r), r, err);
}

bool opts_finish(struct opts *o, struct zf_err *err)
{
    if (opts_passes(o, "allow_other") && opts_passes(o, "allow_root")) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "allow_other and allow_root contradict each other");
    }
    if (o->current && (o->tag || o->all_tags || o->degraded)) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "current selects the newest whole save itself. Leave out %s",
                       o->tag        ? "tag="
                       : o->all_tags ? "all_tags"
                                     : "degraded");
    }
    if (o->all_tags && o->tag) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "all_tags and tag=%s contradict each other",
                       o->tag);
    }
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (!options_complete_value(o, &option_rows[i], err))
            return false;
    for (uint32_t i = 0; i < o->show.n; i++)
        if (!zf_show_add(&o->shown, o->show.at[i], err))
            return false;
    o->shown = o->shown ? o->shown : ZF_SHOW_AUTO;
    for (uint32_t i = 0; i < o->limit.n; i++)
        if (!zf_limits_set(&o->lim, o->limit.at[i], err))
            return false;
    return true;
}

/* ---- options in force -------------------------------------------------------------------------- */

static const char *options_number_text(const struct option_row *r, uint64_t v, char out[40])
{
    const char *word = r->meta;

    if (r->kind == SECONDS) {
        (void)snprintf(out, 40, "%g", (double)v / 1e9);
    } else if (r->kind == WORD) {
        for (uint64_t i = 0; i < v; i++)
            word = strchr(word, '|') + 1;
        (void)snprintf(out, 40, "%.*s", (int)strcspn(word, "|"), word);
    } else {
        (void)snprintf(out, 40, r->kind == OCTAL ? "%llo" : "%llu", (unsigned long long)v);
    }
    return out;
}

static void options_each_value(const struct option_row *r, const struct opts *o, bool given,
                               opts_fn *fn, void *ctx)
{
    const void *field = options_field(o, r);
    const struct opt_list *list = field;
    char number[40];

    if (r->kind == FLAG || r->kind == PASS) { /* several rows share the list of PASS */
        if (r->kind == FLAG ? *(const bool *)field : opts_passes(o, r->name))
            fn(ctx, r->name, NULL);
    } else if (r->kind == TEXT || r->kind == PATH || r->kind == NAMED) {
        if (*(char *const *)field)
            fn(ctx, r->name, *(char *const *)field);
    } else if (options_is_list(r)) {
        for (uint32_t i = 0; i < list->n; i++)
            fn(ctx, r->name, list->at[i]);
    } else if (r->kind != WORD || given || *(const uint64_t *)field) {
        fn(ctx, r->name, options_number_text(r, *(const uint64_t *)field, number));
    }
}

void opts_each(const struct opts *o, unsigned counts, opts_fn *fn, void *ctx)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        bool given = (counts & OPTS_GIVEN) && o->given[i];

        if (!option_rows[i].own && (given || (option_rows[i].counts & counts)))
            options_each_value(&option_rows[i], o, given, fn, ctx);
    }
}

/* Adds name and value with their terminating NULs, which separate them unambiguously. */
static void options_add(void *ctx, const char *name, const char *value)
{
    zf_out_add(ctx, name, strlen(name) + 1);
    zf_out_add(ctx, value ? value : "", value ? strlen(value) + 1 : 0);
    zf_out_u8(ctx, value != NULL);
}

/* Adds size and times of a file, not of a directory: its times change with any file added to it, and the files that are
 * read from it are tracked separately. */
static void options_add_file(struct zf_out *to, const char *path)
{
    struct stat st;

    if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        zf_out_le64(to, (uint64_t)st.st_size);
        zf_out_le64(to, (uint64_t)st.st_mtim.tv_sec);
        zf_out_le64(to, (uint64_t)st.st_mtim.tv_nsec);
        zf_out_le64(to, (uint64_t)st.st_ctim.tv_sec);
        zf_out_le64(to, (uint64_t)st.st_ctim.tv_nsec);
    }
}

bool opts_digest(const struct opts *o, unsigned counts, uint8_t out[32], struct zf_err *err)
{
    zf_auto(out) struct zf_out text = {0};

    opts_each(o, counts, options_add, &text);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const enum option_kind kind = option_rows[i].kind;

        if ((kind == PATH || kind == NAMED) && (option_rows[i].counts & counts))
            options_add_file(&text, *(char *const *)options_field(o, &option_rows[i]));
    }
    zf_sha256(zf_out_text(&text), text.n, out);
    return zf_out_ok(&text, err);
}
