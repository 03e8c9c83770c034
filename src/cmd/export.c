/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs export: plans which files to write, shows progress, and reports at the end what is written and what is left.  How
 * files are copied: src/export. */
#include "export.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "open.h"
#include "where.h"

struct exporting {
    struct zf_export_opts o;
    const char
        *given; /* the destination as the user named it: of a single file perhaps its new name */
    bool quiet;
    int code; /* of the first failure that is not about one file */
    struct export_failed failed;
    struct export_progress progress;
};

/* Only the export that is going on can be reached from a handler; NULL: it has ended. */
static struct zf_export *volatile stop_export;
static volatile sig_atomic_t stop_signal;

static void export_on_signal(int sig)
{
    struct zf_export *x = stop_export;

    stop_signal = sig;
    if (x)
        zf_export_stop(x);
}

/* The first signal ends the export in good order, the second at once. */
static void export_catch_signals(struct zf_export *x)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction sa = {.sa_handler = export_on_signal,
                           .sa_flags = (int)SA_RESETHAND | SA_RESTART};

    stop_export = x;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct sigaction old;

        /* Whoever started us under nohup(1) meant it. */
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void)sigaction(ends[i], &sa, NULL);
    }
    /* A file that grows too large is an error like a full disk. */
    (void)signal(SIGXFSZ, SIG_IGN);
}

static void export_add_unread(void *ctx, uint32_t file, const struct zf_err *err)
{
    struct exporting *e = ctx;

    export_failed_add(&e->failed, file, err);
}

static void export_print_failure(void *ctx, const struct zf_err *err)
{
    struct exporting *e = ctx;

    progress_clear(&e->progress.line);
    const int code = cmd_fail(err);
    e->code = e->code ? e->code : code;
}

static void export_print_progress(void *ctx)
{
    struct exporting *e = ctx;

    export_progress_show(&e->progress);
}

/* After the last copy. */
static int export_conclude(struct exporting *e, struct zf_export *x)
{
    struct zf_err err;

    if (stop_signal) {
        (void)fputs("zerofs export: stopped; the same command goes on from here\n", stderr);
        /* Whoever waits for us learns the true reason. */
        (void)signal(stop_signal, SIG_DFL);
        (void)raise(stop_signal);
    }
    export_failed_print(&e->failed, e->o.plan);
    if (e->code == EXIT_OK && export_failed_for_good(&e->failed, e->o.plan)) {
        if (!zf_export_finish(x, &err))
            return cmd_fail(&err);
        if (!e->quiet && e->failed.of.n == 0)
            export_progress_close(&e->progress, e->given);
    }
    return e->code ? e->code : e->failed.code;
}

static int export_to(struct exporting *e)
{
    struct zf_err err;
    zf_auto(export) struct zf_export *x = zf_export_open(&e->o, &err);

    if (!x)
        return cmd_fail(&err);
    export_catch_signals(x);
    e->progress.x = x;
    e->progress.plan = e->o.plan;
    progress_start(&e->progress.line, !e->quiet);
    zf_export_run(x);
    progress_clear(&e->progress.line);
    const int code = export_conclude(e, x);
    export_failed_fini(&e->failed);
    stop_export = NULL;
    return code;
}

/* As for cp(1): is dest the name a single file is to get, rather than the directory for it? */
static bool export_names_file(struct zf_tree *tree, const char *path, const char *dest)
{
    struct zf_stat file;
    struct stat st;
    size_t n = strlen(dest);

    return n > 0 && dest[n - 1] != '/' && (stat(dest, &st) != 0 || !S_ISDIR(st.st_mode)) &&
           zf_tree_walk(tree, path, &file) && file.kind == ZF_NODE_FILE;
}

/* The directory a path lies in; malloc'ed. */
static char *export_parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return !slash ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* One file may be given another name: then *dir_out is the directory that it is to be in.  Errors: ZF_E_NOMEM. */
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

/* words [n]: the checkpoint, paths in its tree, the destination. */
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
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct exporting e = {.o = {.force = o->force,
                                .sums = o->sha256,
                                .jobs = o->jobs    ? (uint32_t)o->jobs
                                        : cpus < 1 ? 1
                                        : cpus > 4 ? 4
                                                   : (uint32_t)cpus,
                                .unread = export_add_unread,
                                .failed = export_print_failure,
                                .tick = export_print_progress},
                          .quiet = o->quiet};

    e.o.ctx = &e;
    return export_words(&e, o, word, n);
}
