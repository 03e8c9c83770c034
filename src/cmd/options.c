/* SPDX-License-Identifier: Apache-2.0 */
/* options.def has a row an option: field, type, bounds, which commands take it.  An option is
 * read, checked, printed in --help and reported in mount.json by its row alone. */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <math.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zf/base/num.h>
#include <zf/base/path.h>
#include <zf/view.h>

#include "foreign.h"
#include <zf/base/nearest.h>

enum options_kind { FLAG, TEXT, LIST, SIZE, SECONDS, COUNT, OCTAL, USER, GROUP, PASS, WORDS };
enum where { ANY, TREE, MOUNT }; /* in the order of enum cmd_takes */

struct options_row {
    const char *name;
    enum options_kind kind;
    size_t at;
    enum where where;
    const char *meta, *help;
};

static const struct options_row rows[] = {
#define OPT(name, kind, field, where, meta, help)                                                  \
    {name, kind, offsetof(struct opts, field), where, meta, help},
#include "options.def"
#undef OPT
};
#define N_ROWS (sizeof rows / sizeof rows[0])

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
        .connections = UNSET, .cache_mem = UNSET, .cache_size = UNSET,
        .entry_timeout = NAN,
        .attr_timeout = NAN,
        .timeout = NAN,
        .lim = zf_limits_default(),
    };
}

static void options_list_fini(struct opt_list *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        free(l->v[i]);
    }
    free(l->v);
}

void opts_fini(struct opts *o)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        void *field = (char *)o + rows[i].at;

        if (rows[i].kind == TEXT) {
            free(*(char **)field);
            *(char **)field = NULL;
        } else if (rows[i].kind == LIST || rows[i].kind == PASS || rows[i].kind == WORDS) {
            options_list_fini(field);
            *(struct opt_list *)field = (struct opt_list){0};
        }
    }
}

bool opts_passes(const struct opts *o, const char *word)
{
    for (uint32_t i = 0; i < o->pass.n; i++) {
        if (strcmp(o->pass.v[i], word) == 0) {
            return true;
        }
    }
    return false;
}

/* The table's "not given" becomes what the commands use. */
static bool options_settle(struct opts *o, struct zf_err *err)
{
    struct {
        uint64_t *field, dflt;
    } const numbers[] = {
        {&o->shard_size, 0},  {&o->uid, getuid()}, {&o->gid, getgid()},        {&o->umask, 0},
        {&o->max_threads, 0}, {&o->max_read, 0},   {&o->read_ahead, 1u << 20},
        {&o->connections, 0}, {&o->cache_mem, 0}, {&o->cache_size, 10ull << 30},
    };
    /* Nothing in the tree ever changes. */
    const double for_ever = 1e9;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        *numbers[i].field = *numbers[i].field == UNSET ? numbers[i].dflt : *numbers[i].field;
    }
    o->entry_timeout = isnan(o->entry_timeout) ? for_ever : o->entry_timeout;
    o->timeout = isnan(o->timeout) ? 0 : o->timeout;
    o->attr_timeout = isnan(o->attr_timeout) ? for_ever : o->attr_timeout;
    if (opts_passes(o, "allow_other") && opts_passes(o, "allow_root")) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "allow_other and allow_root contradict each other");
    }
    if (o->all_tags && o->tag) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "all_tags and tag=%s contradict each other", o->tag);
    }
    /* A daemon leaves the directory it was started in.  A missing path is reported when it is
     * opened. */
    char **path[] = {&o->side, &o->tp_rules, &o->cacert, &o->local_cache};
    for (size_t i = 0; i < sizeof path / sizeof path[0]; i++) {
        char *real = *path[i] ? realpath(*path[i], NULL) : NULL;

        if (real) {
            free(*path[i]);
            *path[i] = real;
        }
    }
    if (o->model_cache && strcmp(o->model_cache, "auto") != 0 &&
        strcmp(o->model_cache, "off") != 0 && !zf_path_absolute(&o->model_cache, err)) {
        return false;
    }
    for (uint32_t i = 0; i < o->show.n; i++) {
        if (!zf_show_add(&o->shown, o->show.v[i], err)) {
            return false;
        }
    }
    o->shown = o->shown ? o->shown : ZF_SHOW_AUTO;
    for (uint32_t i = 0; i < o->limit.n; i++) {
        if (!zf_limits_set(&o->lim, o->limit.v[i], err)) {
            return false;
        }
    }
    return true;
}

static bool options_append(struct opt_list *l, const char *text, struct zf_err *err)
{
    char **v = realloc(l->v, (l->n + 1) * sizeof *v);

    if (!v) {
        return zf_fail_sys(err, "keep an option");
    }
    l->v = v;
    l->v[l->n] = strdup(text);
    if (!l->v[l->n]) {
        return zf_fail_sys(err, "keep an option");
    }
    l->n++;
    return true;
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
                              w == words ? "" : *end ? ", " : " or ", (int)(end - w), w);
    }
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s is %s, found \"%s\"", name, all, value);
}

static bool options_set_text(char **field, const struct options_row *r, const char *value,
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

static bool options_find_owner(const struct options_row *r, const char *name, uint64_t *out)
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

static bool options_parse_number(const struct options_row *r, const char *value, uint64_t *out)
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

static bool options_set_number(uint64_t *field, const struct options_row *r, const char *value,
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

static bool options_set_seconds(double *field, const struct options_row *r, const char *value,
                                struct zf_err *err)
{
    char *end;
    double v = strtod(value, &end);

    if (end == value || *end != '\0' || !(v >= 0) || isinf(v)) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s needs a number of seconds, found \"%s\"",
                       r->name, value);
    }
    *field = v;
    return true;
}

/* value: NULL when there was no '='. */
static bool options_apply(struct opts *o, const struct options_row *r, const char *value,
                          struct zf_err *err)
{
    void *field = (char *)o + r->at;
    char text[256];

    if (!r->meta != !value) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       r->meta ? "%s needs a value: %s=%s" : "%s takes no value", r->name, r->name,
                       r->meta);
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

/* The first n bytes of word name no option. */
static bool options_unknown_option(const char *word, size_t n, bool mounting, struct zf_err *err)
{
    char name[101], hint[160];

    (void)snprintf(name, sizeof name, "%.*s", (int)(n < 100 ? n : 100), word);
    zf_auto(nearest) struct zf_nearest near = {.want = name};
    for (size_t i = 0; i < N_ROWS; i++) {
        if (rows[i].where != MOUNT || mounting) {
            zf_nearest_offer(&near, rows[i].name);
        }
    }
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "no option is called \"%s\"%s", name,
                   zf_nearest_text(&near, hint, sizeof hint));
}

/* last: the row of the word in front, kept between calls. */
static bool options_apply_word(struct opts *o, char *word, bool mounting,
                               const struct options_row **last, struct zf_err *err)
{
    const struct options_row *before = *last;

    /* "-o show=raw,npy": the comma that separates options separates these words, too; but behind
     * another word "auto" can only be that of fstab(5). */
    if (before && before->kind == WORDS && zf_show_word(word) && strcmp(word, "auto") != 0) {
        return options_append(&o->show, word, err);
    }
    *last = NULL;
    const char *refused = foreign_refused(word);
    if (refused) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s: %s", word, refused);
    }
    if (foreign_ignored(word)) {
        return true;
    }
    char *eq = strchr(word, '=');
    size_t n = eq ? (size_t)(eq - word) : strlen(word);
    for (size_t i = 0; i < N_ROWS; i++) {
        if (strlen(rows[i].name) != n || memcmp(rows[i].name, word, n) != 0) {
            continue;
        }
        if (rows[i].where == MOUNT && !mounting) {
            return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s is an option of zerofs mount alone",
                           rows[i].name);
        }
        *last = &rows[i];
        return options_apply(o, &rows[i], eq ? eq + 1 : NULL, err);
    }
    return options_unknown_option(word, n, mounting, err);
}

bool opts_list(struct opts *o, const char *list, bool mounting, struct zf_err *err)
{
    zf_auto(mem) char *word = malloc(strlen(list) + 1);
    const struct options_row *last = NULL;

    if (!word) {
        return zf_fail_sys(err, "read options");
    }
    for (const char *p = list;; p++) {
        size_t n = 0;

        for (; *p && *p != ','; p++) {
            /* "\," is a comma; every other backslash is the value's own (a regex). */
            p += p[0] == '\\' && p[1] == ',';
            word[n++] = *p;
        }
        word[n] = '\0';
        if (n && !options_apply_word(o, word, mounting, &last, err)) {
            return false;
        }
        if (!*p) {
            return true;
        }
    }
}

static bool options_mounting(const struct cmd *self)
{
    return self->takes == TAKES_MOUNT;
}

/* Is this row in the command's --help?  What only matters for a tree is accepted, and without effect, by `info` too,
 * so that one list of options serves all commands. */
static bool options_listed(const struct cmd *self, const struct options_row *r)
{
    return self->takes != TAKES_NONE && (int)r->where <= (int)self->takes;
}

static bool options_accepted(const struct cmd *self, const struct options_row *r)
{
    return self->takes != TAKES_NONE && (r->where != MOUNT || options_mounting(self));
}

/* getopt_long's values: own flags first, then the table's rows. */
#define HELP 999 /* and 'h', unless the command has that for something else */
#define OWN_BASE 1000
#define ROW_BASE 2000
#define MAX_OWN 16

struct getopt_tables {
    char letters[4 + 2 * MAX_OWN];
    struct option longs[MAX_OWN + N_ROWS + 2];
};

static void options_fill_tables(struct getopt_tables *t, const struct cmd *self,
                                const struct opt_flag *own)
{
    size_t at = 0, n = 0;

    *t = (struct getopt_tables){0};
    strcpy(t->letters, self->takes == TAKES_NONE ? "h" : "o:hv");
    at = strlen(t->letters);
    for (int i = 0; i < MAX_OWN && (own[i].letter || own[i].name); i++) {
        if (own[i].letter) {
            t->letters[at++] = own[i].letter;
            if (own[i].value) {
                t->letters[at++] = ':';
            }
        }
        if (own[i].name) {
            t->longs[n++] = (struct option){
                own[i].name, own[i].value ? required_argument : no_argument, NULL, OWN_BASE + i};
        }
    }
    for (size_t i = 0; i < N_ROWS; i++) {
        if (options_accepted(self, &rows[i])) {
            t->longs[n++] =
                (struct option){rows[i].name, rows[i].meta ? required_argument : no_argument, NULL,
                                ROW_BASE + (int)i};
        }
    }
    t->longs[n] = (struct option){"help", no_argument, NULL, HELP};
}

static void options_set_own(const struct opt_flag *f, char *value)
{
    if (f->value) {
        *f->value = value;
    } else {
        *f->set = true;
    }
}

static const struct opt_flag *options_own_of(const struct opt_flag *own, int c)
{
    for (int i = 0; i < MAX_OWN && (own[i].letter || own[i].name); i++) {
        if (c == OWN_BASE + i || (own[i].letter && c == own[i].letter)) {
            return &own[i];
        }
    }
    return NULL;
}

static int options_unknown_flag(const struct cmd *self, const struct getopt_tables *t,
                                const char *word)
{
    char name[64], hint[160];

    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    zf_auto(nearest) struct zf_nearest near = {.want = name};
    for (const struct option *o = t->longs; strncmp(word, "--", 2) == 0 && o->name; o++) {
        char flag[64];

        (void)snprintf(flag, sizeof flag, "--%s", o->name);
        /* Itself: known, but without its value. */
        if (strcmp(flag, name) != 0) {
            zf_nearest_offer(&near, flag);
        }
    }
    return cmd_usage(self, "option \"%s\" is unknown or lacks its value%s", word,
                     zf_nearest_text(&near, hint, sizeof hint));
}

int opts_parse(struct opts *o, const struct cmd *self, const struct opt_flag *own, int argc,
               char **argv, int *operands)
{
    struct getopt_tables t;
    struct zf_err err;
    int c;

    options_fill_tables(&t, self, own);
    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, t.letters, t.longs, NULL)) != -1) {
        const struct opt_flag *f = options_own_of(own, c);
        bool ok = true;

        if (f) {
            options_set_own(f, optarg);
        } else if (c == 'o') {
            ok = opts_list(o, optarg, options_mounting(self), &err);
        } else if (c == 'v') {
            o->verbose = true;
        } else if (c == HELP || c == 'h') {
            return cmd_help(self);
        } else if (c >= ROW_BASE) {
            ok = options_apply(o, &rows[c - ROW_BASE], optarg, &err);
        } else {
            return options_unknown_flag(self, &t, argv[optind - 1]);
        }
        if (!ok) {
            return cmd_usage(self, "%s", err.msg);
        }
    }
    *operands = optind;
    return options_settle(o, &err) ? -1 : cmd_usage(self, "%s", err.msg);
}

void opts_help(FILE *to, const struct cmd *self)
{
    if (self->takes == TAKES_NONE) {
        return;
    }
    (void)fputs("Options, as -o NAME[=VALUE][,...] or --NAME[=VALUE]:\n", to);
    for (size_t i = 0; i < N_ROWS; i++) {
        char left[64];

        if (!options_listed(self, &rows[i])) {
            continue;
        }
        (void)snprintf(left, sizeof left, "%s%s%s", rows[i].name, rows[i].meta ? "=" : "",
                       rows[i].meta ? rows[i].meta : "");
        (void)fprintf(to, "  %-22s %s\n", left, rows[i].help);
    }
}

static void options_each_text(const char *name, const char *value, void (*fn)(void *, const char *),
                              void *ctx)
{
    zf_auto(mem) char *text = NULL;

    if (asprintf(&text, "%s=%s", name, value) > 0) {
        fn(ctx, text);
    }
}

static void options_each_field(const struct options_row *r, const void *field,
                               void (*fn)(void *, const char *), void *ctx)
{
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
            options_each_text(r->name, list->v[i], fn, ctx);
        }
        return;
    case PASS: /* several rows share the list */
        for (uint32_t i = 0; i < list->n; i++) {
            if (strcmp(list->v[i], r->name) == 0) {
                fn(ctx, r->name);
                return;
            }
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

void opts_each(const struct opts *o, void (*fn)(void *ctx, const char *text), void *ctx)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        options_each_field(&rows[i], (const char *)o + rows[i].at, fn, ctx);
    }
}
