/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs export: plans which files to write, shows progress, and reports at the end which files were written and which
 * were not.  src/export does the copying. */
#include "export.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <zf/base/vec.h>
#include <zf/view.h>

#include "open.h"
#include "print.h"
#include "progress.h"
#include "where.h"

/* The most unreadable files that are listed; a missing shard may affect thousands. */
#define MOST_LINES 100

struct export_unread {
    uint32_t file; /* index in the plan; never a hard link to an earlier file */
    char *why;
};

struct exporting {
    struct zf_export_opts o;
    const struct zf_export *x;
    /* The destination as the user gave it: for a single file it may be the new name. */
    const char *given;
    bool quiet;
    int code; /* exit code of the first failure that does not concern a single file */
    zf_vec(struct export_unread) unread;
    int unread_code; /* exit code of the first in `unread` */
    struct progress line;
};

static void zf_auto_exporting(struct exporting *e)
{
    for (size_t k = 0; k < e->unread.n; k++)
        free(e->unread.at[k].why);
    zf_vec_fini(&e->unread);
}

/* The running export, for the signal handler; NULL: it has ended. */
static struct zf_export *volatile stop_export;
static volatile sig_atomic_t stop_signal;

static void export_on_signal(int sig)
{
    struct zf_export *x = stop_export;

    stop_signal = sig;
    if (x)
        zf_export_stop(x);
}

/* The first signal ends the export cleanly, the second one kills the process. */
static void export_catch_signals(struct zf_export *x)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction sa = {.sa_handler = export_on_signal,
                           .sa_flags = (int)SA_RESETHAND | SA_RESTART};

    stop_export = x;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct sigaction old;

        /* Keep signals ignored that the parent process ignores, as nohup(1) does. */
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void)sigaction(ends[i], &sa, NULL);
    }
    /* Exceeding the file size limit is then an error of write(2), like a full disk. */
    (void)signal(SIGXFSZ, SIG_IGN);
}

/* ---- files that could not be read -------------------------------------------------------------- */

/* Notes an unreadable file; if memory runs out, only the exit code. */
static void export_add_unread(void *ctx, uint32_t file, const struct zf_err *err)
{
    struct exporting *e = ctx;
    char text[1024];
    struct zf_err memory;
    struct export_unread *to = zf_vec_push(&e->unread, &memory);

    if (to)
        *to = (struct export_unread){file, strdup(zf_err_text(err, text, sizeof text))};
    e->unread_code = e->unread_code ? e->unread_code : zf_err_exit(err);
}

static int export_by_file(const void *a, const void *b)
{
    const struct export_unread *x = a, *y = b;

    return (x->file > y->file) - (x->file < y->file);
}

/* Prints "3 of 18 files could not be exported:" and a line for each, links included. */
static void export_print_unread(struct exporting *e)
{
    const struct zf_export_plan *p = e->o.plan;
    uint32_t failed = 0, lines = 0;

    if (e->unread.n == 0)
        return;
    qsort(e->unread.at, e->unread.n, sizeof *e->unread.at, export_by_file);
    for (size_t k = 0; k < e->unread.n; k++)
        for (uint32_t i = e->unread.at[k].file; i != UINT32_MAX; i = p->file[i].next_link)
            failed++;
    (void)fprintf(stderr, "zerofs: %" PRIu32 " of %" PRIu32 " files could not be exported:\n",
                  failed, p->n);
    for (size_t k = 0; k < e->unread.n && lines < MOST_LINES; k++) {
        const struct export_unread *u = &e->unread.at[k];

        for (uint32_t i = u->file; i != UINT32_MAX && lines < MOST_LINES;
             i = p->file[i].next_link) {
            lines++;
            (void)fputs("  ", stderr);
            print_name(stderr, p->file[i].from);
            (void)fprintf(stderr, ": %s\n", u->why ? u->why : "cannot be read");
        }
    }
    if (failed > lines)
        (void)fprintf(stderr, "  and %" PRIu32 " more\n", failed - lines);
}

/* True if all unread files need bytes that the checkpoint has lost: then another run would not help. */
static bool export_all_lost(const struct exporting *e)
{
    bool lost = true;

    for (size_t k = 0; k < e->unread.n; k++)
        lost = lost && e->o.plan->file[e->unread.at[k].file].st.lost;
    return lost;
}

/* ---- progress ---------------------------------------------------------------------------------- */

static void export_print_failure(void *ctx, const struct zf_err *err)
{
    struct exporting *e = ctx;

    progress_clear(&e->line);
    const int code = cmd_fail(err);
    e->code = e->code ? e->code : code;
}

/* Bytes that an earlier run copied count as done but not for the speed, which would be far too high at the beginning of
 * a resumed export. */
static void export_print_progress(void *ctx)
{
    struct exporting *e = ctx;
    const struct zf_export_count c = zf_export_count(e->x);
    const struct progress_at at = {.bytes = c.bytes,
                                   .all = e->o.plan->bytes,
                                   .moved = c.bytes - c.kept,
                                   .what = "file",
                                   .item = c.begun ? c.begun - 1 : 0,
                                   .items = e->o.plan->n};

    progress_show(&e->line, &at);
}

/* Prints "19 files, 40.0 GiB in DEST; 2.1 GiB of them copied in 0:31 (1.2 GiB/s)". */
static void export_print_sum(const struct exporting *e)
{
    const struct zf_export_count c = zf_export_count(e->x);
    const double took = progress_took(&e->line);
    const uint64_t copied = c.bytes - c.kept;

    (void)fprintf(stderr, "%s, %s in ", number_of(e->o.plan->n, "file").text,
                  number_bytes(e->o.plan->bytes).text);
    print_name(stderr, e->given);
    if (copied == e->o.plan->bytes)
        (void)fputs("; copied in ", stderr);
    else
        (void)fprintf(stderr, "; %s of them copied in ", number_bytes(copied).text);
    (void)fprintf(stderr, "%u:%02u", (unsigned)took / 60, (unsigned)took % 60);
    if (copied && took > 1e-3)
        (void)fprintf(stderr, " (%s/s)", number_bytes((uint64_t)((double)copied / took)).text);
    (void)fputc('\n', stderr);
}

/* ---- the run ----------------------------------------------------------------------------------- */

/* Prints the results after the last copy and returns the exit code. */
static int export_conclude(struct exporting *e, struct zf_export *x)
{
    struct zf_err err;

    if (stop_signal) {
        (void)fputs("zerofs export: stopped. To continue, repeat the command\n", stderr);
        /* Ends by the signal, so that the parent process sees the reason. */
        (void)signal(stop_signal, SIG_DFL);
        (void)raise(stop_signal);
    }
    export_print_unread(e);
    if (e->code == EXIT_OK && export_all_lost(e)) {
        if (!zf_export_finish(x, &err))
            return cmd_fail(&err);
        if (!e->quiet && e->unread.n == 0)
            export_print_sum(e);
    }
    return e->code ? e->code : e->unread_code;
}

static int export_to(struct exporting *e)
{
    struct zf_err err;
    zf_auto(export) struct zf_export *x = zf_export_open(&e->o, &err);

    if (!x)
        return cmd_fail(&err);
    export_catch_signals(x);
    e->x = x;
    progress_start(&e->line, !e->quiet);
    zf_export_run(x);
    progress_clear(&e->line);
    const int code = export_conclude(e, x);
    stop_export = NULL;
    return code;
}

/* As with cp(1): true if dest is the new name of a single file rather than a directory for it. */
static bool export_names_file(struct zf_tree *tree, const char *path, const char *dest)
{
    struct zf_stat file;
    struct stat st;
    size_t n = strlen(dest);

    return n > 0 && dest[n - 1] != '/' && (stat(dest, &st) != 0 || !S_ISDIR(st.st_mode)) &&
           zf_tree_walk(tree, path, &file) && file.kind == ZF_NODE_FILE;
}

/* The parent directory of a path; malloc'ed. */
static char *export_parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return !slash ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* Sets the destination.  A single file may get a new name: then *dir_out (else NULL) is its directory.  Errors:
 * ZF_E_NOMEM. */
static bool export_aim(struct exporting *e, struct zf_export_plan *plan, char **words, int n,
                       char **dir_out, struct zf_err *err)
{
    const char *dest = words[n - 1], *slash = strrchr(dest, '/');

    *dir_out = NULL;
    e->o.dest = e->given = dest;
    if (n != 3 || !export_names_file(e->o.tree, words[1], dest))
        return true;
    *dir_out = export_parent_of(dest);
    if (!*dir_out)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    e->o.dest = *dir_out;
    zf_export_plan_rename(plan, slash ? slash + 1 : dest);
    return true;
}

/* Runs the export; words [n]: the checkpoint, paths in its tree, the destination. */
static int export_words(struct exporting *e, const struct opts *o, char **words, int n)
{
    zf_auto(export_plan) struct zf_export_plan plan = {0};
    zf_auto(mem) char *dir = NULL;
    struct zf_err err;

    zf_auto(tree) struct zf_tree *tree = open_asked(words[0], o, &err);
    if (!tree)
        return cmd_fail(&err);
    e->o.tree = tree;
    e->o.plan = &plan;
    e->o.ckpt = where_is_remote(words[0]) ? NULL : words[0];
    if (!zf_export_plan_make(&plan, tree, words + 1, n - 2, open_listing(tree, o, o->all), &err) ||
        !export_aim(e, &plan, words, n, &dir, &err) ||
        !export_verify(tree, &plan, o, !e->quiet, &err) ||
        !opts_digest(o, OPTS_BYTES, e->o.options, &err))
        return cmd_fail(&err);
    return export_to(e);
}

int cmd_export(const struct opts *o, int n, char **word)
{
    const uint32_t jobs = opts_jobs(o);
    zf_auto(exporting) struct exporting e = {.o = {.force = o->force,
                                                   .sums = o->sha256,
                                                   .jobs = o->jobs || jobs < 4 ? jobs : 4,
                                                   .unread = export_add_unread,
                                                   .failed = export_print_failure,
                                                   .tick = export_print_progress},
                                             .quiet = o->quiet};

    e.o.ctx = &e;
    return export_words(&e, o, word, n);
}
