/* SPDX-License-Identifier: Apache-2.0 */
/* How options are found in -o lists and on the command line, and listed by --help. */
#include "options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/nearest.h>
#include <zf/view.h>

#include "option_value.h"

/* ---- options of other programs, which come along in fstab and from mount(8) ---- */

/* Words of fstab(5), mount(8), systemd and mount.fuse3(8) that mean nothing to a read-only view
 * which is cached anyway; a "=" means any value. */
static const char foreign_words[] =
    " ro defaults auto noauto user user= nouser users nousers owner noowner group nogroup _netdev"
    " nofail comment= helper= uhelper= exec noexec suid nosuid dev nodev atime noatime relatime"
    " norelatime strictatime nostrictatime diratime nodiratime lazytime nolazytime async sync"
    " dirsync iversion noiversion mand nomand symfollow loud silent default_permissions"
    " kernel_cache auto_cache noauto_cache ac_attr_timeout= negative_timeout= noforget remember="
    " use_ino readdir_ino async_read sync_read big_writes large_read hard_remove clone_fd"
    " max_idle_threads= ";

/* Does the word ask for nothing that a read-only view could do differently? */
static bool options_ignored(const char *word)
{
    char key[64];
    int n = (int)(strcspn(word, "=") + (strchr(word, '=') != NULL));

    return strncmp(word, "x-", 2) == 0 || strncmp(word, "X-", 2) == 0 ||
           (!strchr(word, ' ') && (size_t)n < sizeof key - 2 &&
            snprintf(key, sizeof key, " %.*s ", n, word) > 0 && strstr(foreign_words, key));
}

/* Words that mount(8) knows and a view of a checkpoint cannot follow. */
static const struct {
    const char *word, *why;
} foreign_no[] = {
    {"rw", "a view of a checkpoint is read-only"},
    {"remount", "the options of a mount stay as they are; unmount it and mount it again"},
};

/* Why a word that mount(8) knows cannot be followed, or NULL. */
static const char *options_refused(const char *word)
{
    for (size_t i = 0; i < sizeof foreign_no / sizeof foreign_no[0]; i++) {
        if (strcmp(word, foreign_no[i].word) == 0) {
            return foreign_no[i].why;
        }
    }
    return NULL;
}

/* ---- our own, in lists and on the command line ---- */

/* The first n bytes of word name no option. */
static bool options_unknown_option(const char *word, size_t n, bool mounting, struct zf_err *err)
{
    char name[101], hint[160];

    (void)snprintf(name, sizeof name, "%.*s", (int)(n < 100 ? n : 100), word);
    zf_auto(nearest) struct zf_nearest near = {.want = name};
    for (size_t i = 0; i < N_OPTION_ROWS; i++) {
        if (option_rows[i].where != MOUNT || mounting) {
            zf_nearest_offer(&near, option_rows[i].name);
        }
    }
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "no option is called \"%s\"%s", name,
                   zf_nearest_text(&near, hint, sizeof hint));
}

/* last: the row of the word in front, kept between calls. */
static bool options_apply_word(struct opts *o, char *word, bool mounting,
                               const struct option_row **last, struct zf_err *err)
{
    const struct option_row *before = *last;

    /* "-o show=raw,npy": the comma that separates options separates these words, too; but behind
     * another word "auto" can only be that of fstab(5). */
    if (before && before->kind == WORDS && zf_show_word(word) && strcmp(word, "auto") != 0) {
        return option_set(o, before, word, err);
    }
    *last = NULL;
    const char *refused = options_refused(word);
    if (refused) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s: %s", word, refused);
    }
    if (options_ignored(word)) {
        return true;
    }
    char *eq = strchr(word, '=');
    size_t n = eq ? (size_t)(eq - word) : strlen(word);
    for (size_t i = 0; i < N_OPTION_ROWS; i++) {
        if (strlen(option_rows[i].name) != n || memcmp(option_rows[i].name, word, n) != 0) {
            continue;
        }
        if (option_rows[i].where == MOUNT && !mounting) {
            return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s is an option of zerofs mount alone",
                           option_rows[i].name);
        }
        *last = &option_rows[i];
        return option_set(o, &option_rows[i], eq ? eq + 1 : NULL, err);
    }
    return options_unknown_option(word, n, mounting, err);
}

bool opts_list(struct opts *o, const char *list, bool mounting, struct zf_err *err)
{
    zf_auto(mem) char *word = malloc(strlen(list) + 1);
    const struct option_row *last = NULL;

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

/* Is this row in the command's --help?  What only matters for a tree is accepted, and without
 * effect, by `info` too, so that one list of options serves all commands. */
static bool options_listed(const struct cmd *self, const struct option_row *r)
{
    return self->takes != TAKES_NONE && (int)r->where <= (int)self->takes;
}

static bool options_accepted(const struct cmd *self, const struct option_row *r)
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
    struct option longs[MAX_OWN + N_OPTION_ROWS + 2];
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
    for (size_t i = 0; i < N_OPTION_ROWS; i++) {
        if (options_accepted(self, &option_rows[i])) {
            t->longs[n++] = (struct option){option_rows[i].name,
                                            option_rows[i].meta ? required_argument : no_argument,
                                            NULL, ROW_BASE + (int)i};
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
            ok = option_set(o, &option_rows[c - ROW_BASE], optarg, &err);
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
    for (size_t i = 0; i < N_OPTION_ROWS; i++) {
        char left[64];

        if (!options_listed(self, &option_rows[i])) {
            continue;
        }
        (void)snprintf(left, sizeof left, "%s%s%s", option_rows[i].name,
                       option_rows[i].meta ? "=" : "",
                       option_rows[i].meta ? option_rows[i].meta : "");
        (void)fprintf(to, "  %-22s %s\n", left, option_rows[i].help);
    }
}
