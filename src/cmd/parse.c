/* SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/nearest.h>
#include <zf/find.h>
#include <zf/view.h>

#include "page.h"

/* ---- options of other programs, which come from fstab and mount(8) ----------------------------- */

/* Options of fstab(5), mount(8), systemd and mount.fuse3(8) that make no difference to a read-only view,
 * which is cached anyway; a "=" stands for any value. */
static const char foreign_words[] =
    " ro defaults auto noauto user user= nouser users nousers owner noowner group nogroup _netdev"
    " nofail comment= helper= uhelper= exec noexec suid nosuid dev nodev atime noatime relatime"
    " norelatime strictatime nostrictatime diratime nodiratime lazytime nolazytime async sync"
    " dirsync iversion noiversion mand nomand symfollow loud silent default_permissions"
    " kernel_cache auto_cache noauto_cache ac_attr_timeout= negative_timeout= noforget remember="
    " use_ino readdir_ino async_read sync_read big_writes large_read hard_remove clone_fd"
    " max_idle_threads= ";

/* True if the option makes no difference and is ignored. */
static bool parse_ignored(const char *word)
{
    char key[64];
    int n = (int)(strcspn(word, "=") + (strchr(word, '=') != NULL));

    return strncmp(word, "x-", 2) == 0 || strncmp(word, "X-", 2) == 0 ||
           (!strchr(word, ' ') && (size_t)n < sizeof key - 2 &&
            snprintf(key, sizeof key, " %.*s ", n, word) > 0 && strstr(foreign_words, key));
}

/* Options of mount(8) that a view of a checkpoint does not support. */
static const struct {
    const char *word, *why;
} foreign_no[] = {
    {"rw", "zerofs mounts are read-only"},
    {"remount", "the options of a mount cannot be changed. Unmount it and mount it again"},
};

/* Why an option of mount(8) is not supported, or NULL. */
static const char *parse_refused(const char *word)
{
    for (size_t i = 0; i < sizeof foreign_no / sizeof foreign_no[0]; i++)
        if (strcmp(word, foreign_no[i].word) == 0)
            return foreign_no[i].why;
    return NULL;
}

/* ---- lists and the command line ---------------------------------------------------------------- */

/* Fails because the first n bytes of word are the name of no option. */
static bool parse_unknown_option(const char *word, size_t n, const struct cmd *c,
                                 struct zf_err *err)
{
    char name[101], hint[160];

    (void)snprintf(name, sizeof name, "%.*s", (int)(n < 100 ? n : 100), word);
    zf_auto(nearest) struct zf_nearest near = {.want = name};
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (!option_rows[i].own && option_accepts(c, &option_rows[i]))
            zf_nearest_offer(&near, option_rows[i].name);
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "there is no option \"%s\"%s", name,
                   zf_nearest_text(&near, hint, sizeof hint));
}

/* Applies a word of a list; last: the row of the word before it, kept between calls. */
static bool parse_apply_word(struct opts *o, const struct cmd *c, char *word,
                             const struct option_row **last, struct zf_err *err)
{
    const struct option_row *before = *last;

    /* "-o show=raw,npy": a comma separates options and also the words of one; but "auto" after
     * another word can only be the option of fstab(5). */
    if (before && before->kind == WORDS && zf_show_word(word) && strcmp(word, "auto") != 0)
        return option_give(o, before, word, err);
    *last = NULL;
    const char *refused = parse_refused(word);
    if (parse_ignored(word) || (o->by_mount8 && strcmp(word, "rw") == 0))
        return true;
    if (refused)
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s: %s", word, refused);
    char *eq = strchr(word, '=');
    size_t n = eq ? (size_t)(eq - word) : strlen(word);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *r = &option_rows[i];

        if (r->own || strlen(r->name) != n || memcmp(r->name, word, n) != 0)
            continue;
        if (!option_accepts(c, r)) {
            return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s is an option of zerofs mount alone",
                           r->name);
        }
        *last = r;
        return option_give(o, r, eq ? eq + 1 : NULL, err);
    }
    return parse_unknown_option(word, n, c, err);
}

bool opts_list(struct opts *o, const struct cmd *c, const char *list, struct zf_err *err)
{
    zf_auto(mem) char *word = malloc(strlen(list) + 1);
    const struct option_row *last = NULL;

    if (!word)
        return zf_fail_sys(err, "read options");
    for (const char *p = list;; p++) {
        size_t n = 0;

        for (; *p && *p != ','; p++) {
            /* "\\," is a comma; any other backslash belongs to the value (a regex). */
            p += p[0] == '\\' && p[1] == ',';
            word[n++] = *p;
        }
        word[n] = '\0';
        if (n && !parse_apply_word(o, c, word, &last, err))
            return false;
        if (!*p)
            return true;
    }
}

/* getopt_long's values for long options; those of letters are the letters. */
#define HELP 999
#define FIRST_ROW 1000

struct getopt_tables {
    char letters[4 + 2 * N_OPTIONS];
    struct option longs[N_OPTIONS + 2];
};

static void parse_fill_tables(struct getopt_tables *t, const struct cmd *c)
{
    char *letter = stpcpy(t->letters, option_lists(c) ? "o:h" : "h");
    size_t n = 0;

    for (int i = 0; i < N_OPTIONS; i++) {
        const struct option_row *r = &option_rows[i];

        if (option_accepts(c, r) && r->letter) {
            *letter++ = r->letter;
            letter = stpcpy(letter, r->meta ? ":" : "");
        }
        if (option_accepts(c, r) && r->name) {
            t->longs[n++] = (struct option){r->name, r->meta ? required_argument : no_argument,
                                            NULL, FIRST_ROW + i};
        }
    }
    *letter = '\0';
    t->longs[n] = (struct option){"help", no_argument, NULL, HELP};
    t->longs[n + 1] = (struct option){0};
}

/* The row of the option that getopt_long found, or NULL. */
static const struct option_row *parse_found(const struct cmd *c, int found)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (option_accepts(c, &option_rows[i]) &&
            (found == FIRST_ROW + i || (option_rows[i].letter && found == option_rows[i].letter)))
            return &option_rows[i];
    return NULL;
}

static int parse_unknown_flag(const struct cmd *c, const struct getopt_tables *t, const char *word)
{
    char name[64], hint[160];

    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    zf_auto(nearest) struct zf_nearest near = {.want = name};
    for (const struct option *o = t->longs; strncmp(word, "--", 2) == 0 && o->name; o++) {
        char flag[64];

        (void)snprintf(flag, sizeof flag, "--%s", o->name);
        if (strcmp(flag, name) == 0) {
            return cmd_usage(
                c, strchr(word, '=') ? "option %s takes no value" : "option %s needs a value",
                name);
        }
        zf_nearest_offer(&near, flag);
    }
    return cmd_usage(c, "unknown option %s%s", word, zf_nearest_text(&near, hint, sizeof hint));
}

static int parse_help(const struct cmd *c)
{
    (void)printf("Usage: zerofs %s %s\n%s\n\n", c->name, c->args, c->summary);
    opts_help(stdout, c);
    return cmd_finish(EXIT_OK);
}

int opts_parse(struct opts *o, const struct cmd *c, int argc, char **argv, int *operands)
{
    struct getopt_tables t;
    struct zf_err err;
    int found;

    parse_fill_tables(&t, c);
    optind = 1;
    opterr = 0;
    while ((found = getopt_long(argc, argv, t.letters, t.longs, NULL)) != -1) {
        const struct option_row *r = parse_found(c, found);

        if (!r && (found == HELP || found == 'h'))
            return parse_help(c);
        if (!r && found != 'o')
            return parse_unknown_flag(c, &t, argv[optind - 1]);
        if (!(r ? option_give(o, r, optarg, &err) : opts_list(o, c, optarg, &err)))
            return cmd_usage(c, "%s", err.msg);
    }
    *operands = optind;
    int n = argc - optind;
    if (n < c->least || n > c->most)
        return cmd_usage(c, "needs %s, found %d word%s", c->needs, n, n == 1 ? "" : "s");
    return opts_finish(o, &err) ? -1 : cmd_usage(c, "%s", err.msg);
}

/* ---- help and completion ----------------------------------------------------------------------- */

static void parse_help_row(FILE *to, const struct option_row *r)
{
    const char letter[] = {'-', r->letter, '\0'};
    char left[64];

    (void)snprintf(left, sizeof left, "%s%s%s%s%s%s",
                   !r->own     ? ""
                   : r->letter ? letter
                               : "    ",
                   r->own && r->letter && r->name ? ", " : "", r->own && r->name ? "--" : "",
                   r->name ? r->name : "",
                   !r->meta  ? ""
                   : r->name ? "="
                             : " ",
                   r->meta ? r->meta : "");
    const struct page p = page_of(to, COLOR_NEVER);
    const int used = fprintf(to, "  %-22s ", left);
    page_hang(&p, used > 0 ? (size_t)used : 0, r->help);
}

static void parse_help_rows(FILE *to, const struct cmd *c, bool own)
{
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (option_rows[i].own == own && option_listed(c, &option_rows[i]))
            parse_help_row(to, &option_rows[i]);
}

void opts_help(FILE *to, const struct cmd *c)
{
    parse_help_rows(to, c, true);
    if (option_lists(c))
        (void)fputs("\nOptions, as -o NAME[=VALUE][,...] or --NAME[=VALUE]:\n", to);
    parse_help_rows(to, c, false);
}

/* Prints the words that an option takes, for shells; for format= the names of all formats. */
static void parse_complete_values(FILE *to, const struct option_row *r)
{
    const char *name =
        r->name && !r->own && strcmp(r->name, "format") == 0 ? zf_find_format(0) : NULL;

    (void)fputs(name ? name : r->meta ? r->meta : "", to);
    for (size_t i = 1; name && (name = zf_find_format(i)); i++)
        (void)fprintf(to, "|%s", name);
    (void)fputc('\n', to);
}

void opts_complete(FILE *to, const struct cmd *c)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *r = &option_rows[i];
        const char *is = r->meta ? "=" : "";

        if (option_accepts(c, r) && r->letter) {
            (void)fprintf(to, "-%c\t%s\t", r->letter, r->help);
            parse_complete_values(to, r);
        }
        if (option_accepts(c, r) && r->name) {
            (void)fprintf(to, "%s%s%s\t%s\t", r->own ? "--" : "", r->name, is, r->help);
            parse_complete_values(to, r);
        }
    }
    (void)fputs("--help\tlist the options\t\n", to);
}
