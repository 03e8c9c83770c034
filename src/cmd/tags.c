/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs tags: lists the saves of a run; several threads open each of them as a mount would. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zf/base/ahead.h>
#include <zf/base/vec.h>
#include <zf/codec/json.h>
#include <zf/find.h>
#include <zf/inspect/refer.h>

#include "info.h"
#include "open.h"
#include "opening.h"
#include "page.h"
#include "print.h"

/* What was found out about a save. */
struct tags_save {
    struct zf_err err; /* why it cannot be opened; code ZF_OK: it can */
    bool has_step, lost;
    int64_t step;
    time_t written;               /* modification time of its newest shard; 0: unknown */
    uint64_t files, bytes, ranks; /* ranks: 0 = unknown */
    char *tag;                    /* the tag of the opened checkpoint, or NULL */
};

struct tags {
    const char *run;
    const struct opts *o;
    struct zf_saves list;
    char *opened;            /* the save that is opened without -o tag=, or NULL */
    struct tags_save *known; /* result of that save, list item n_known; NULL once taken */
    size_t n_known;
    struct page page;
};

static void tags_save_free(void *p)
{
    struct tags_save *s = p;

    if (s) {
        free(s->tag);
        free(s);
    }
}

/* ---- one save ---------------------------------------------------------------------------------- */

static bool tags_count_files(struct tags_save *s, const struct zf_checkpoint *c, struct zf_err *err)
{
    zf_refer_list file = {0};
    const bool ok = zf_refer_files(c, &file, err);

    for (uint32_t i = 0; i < c->n_sets; i++)
        for (uint32_t k = 0; k < c->set[i].n; k++)
            s->lost = s->lost || c->set[i].tensor[k].lost;
    for (size_t i = 0; ok && i < file.n; i++) {
        struct zf_identity id;

        s->files++;
        s->bytes += file.at[i]->size;
        if (zf_source_identity(file.at[i], &id) && id.mtime.tv_sec > s->written)
            s->written = id.mtime.tv_sec;
    }
    zf_vec_fini(&file);
    return ok;
}

static bool tags_fill(struct tags_save *s, const struct zf_checkpoint *c, const struct opts *o,
                      struct zf_err *err)
{
    s->ranks = info_facts_ranks(c, o);
    s->has_step = c->has_step;
    s->step = c->step;
    s->tag = strdup(c->tag);
    if (!s->tag)
        return zf_fail_sys(err, "list saves");
    const bool ok = tags_count_files(s, c, err);
    s->written = s->written ? s->written : c->mtime.tv_sec;
    return ok;
}

static void *tags_make(void *ctx, uint64_t i, struct zf_err *err)
{
    struct tags *t = ctx;

    if (i == t->n_known && t->known) /* only one thread gets here */
        return zf_give(t->known);
    struct opts o = *t->o; /* borrows its strings */
    struct tags_save *s = calloc(1, sizeof *s);

    if (!s)
        return zf_null(zf_fail_sys(err, "list saves"));
    o.tag = *t->list.at[i].path ? t->list.at[i].path : NULL;
    o.recipe = (char *)"off"; /* the tensor names do not matter here */
    zf_auto(checkpoint) struct zf_checkpoint *c = open_checkpoint(t->run, &o, &s->err);
    if (c) {
        zf_err_clear(&s->err);
        if (!tags_fill(s, c, t->o, err)) {
            tags_save_free(s);
            return NULL;
        }
    }
    return s;
}

/* ---- the run ----------------------------------------------------------------------------------- */

/* Stores the result for c, if it is in the list, so that it is not opened again. */
static bool tags_know(struct tags *t, const struct zf_checkpoint *c, struct zf_err *err)
{
    while (t->n_known < t->list.n && strcmp(t->list.at[t->n_known].path, c->tag) != 0 &&
           *t->list.at[t->n_known].path)
        t->n_known++;
    if (t->n_known == t->list.n)
        return true;
    t->known = calloc(1, sizeof *t->known);
    return t->known ? tags_fill(t->known, c, t->o, err) : zf_fail_sys(err, "list saves");
}

/* Finds the save that is opened without -o tag=.  If the directory itself is a save, it is the only one listed. */
static bool tags_find_opened(struct tags *t, struct zf_err *err)
{
    struct opts o = *t->o; /* borrows its strings */
    struct zf_err ignored;

    o.recipe = (char *)"off";
    zf_auto(checkpoint) struct zf_checkpoint *c = open_checkpoint(t->run, &o, &ignored);

    if (c && (!c->tag[0] || t->list.n == 0)) {
        zf_saves_free(&t->list);
        struct zf_save_dir *own = zf_vec_push(&t->list, err);
        if (!own || !(own->path = strdup("")))
            return zf_fail_sys(err, "list saves");
    }
    t->opened = c ? strdup(c->tag) : NULL;
    return !c || (t->opened ? tags_know(t, c, err) : zf_fail_sys(err, "list saves"));
}

/* ---- printing ---------------------------------------------------------------------------------- */

static const char *tags_state(const struct tags_save *s)
{
    return s->err.code != ZF_OK ? "incomplete" : s->lost ? "damaged" : "whole";
}

static bool tags_is_opened(const struct tags *t, size_t i, const struct tags_save *s)
{
    return t->opened && (strcmp(t->opened, t->list.at[i].path) == 0 ||
                         (s->tag && strcmp(t->opened, s->tag) == 0));
}

static void tags_print_row(const struct tags *t, size_t i, const struct tags_save *s)
{
    char step[24] = "-", when[24] = "-", ranks[24] = "-", text[1024];
    struct tm tm;

    if (s->has_step)
        (void)snprintf(step, sizeof step, "%" PRId64, s->step);
    if (s->written && localtime_r(&s->written, &tm))
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M", &tm);
    if (s->ranks)
        (void)snprintf(ranks, sizeof ranks, "%" PRIu64, s->ranks);
    const bool whole = s->err.code == ZF_OK && !s->lost;
    const int used =
        printf("%c %8s  %16s %5" PRIu64 " %10s %5s  ", tags_is_opened(t, i, s) ? '*' : ' ', step,
               when, s->files, s->err.code == ZF_OK ? number_bytes(s->bytes).text : "-", ranks);
    (void)printf("%s%-10s%s  ", page_look(&t->page, whole ? PAGE_GOOD : PAGE_BAD), tags_state(s),
                 page_look_end(&t->page));
    (void)page_last(&t->page, used > 0 ? (size_t)used + 12 : 0, 0,
                    *t->list.at[i].path ? t->list.at[i].path : ".");
    (void)putchar('\n');
    if (s->err.code != ZF_OK)
        page_line(&t->page, "", zf_err_text(&s->err, text, sizeof text));
}

static void tags_print_json(const struct tags *t, size_t i, const struct tags_save *s)
{
    char text[1024];
    const bool failed = s->err.code != ZF_OK;
    json_t *j = json_pack("{s:o, s:o?, s:s, s:b, s:o?, s:o?, s:o?, s:o?, s:o?}", "tag",
                          zf_json_text(t->list.at[i].path), "step",
                          s->has_step ? json_integer(s->step) : NULL, "state", tags_state(s),
                          "opened", tags_is_opened(t, i, s), "written",
                          s->written ? json_integer((json_int_t)s->written) : NULL, "files",
                          failed ? NULL : json_integer((json_int_t)s->files), "bytes",
                          failed ? NULL : json_integer((json_int_t)s->bytes), "ranks",
                          s->ranks ? json_integer((json_int_t)s->ranks) : NULL, "reason",
                          failed ? zf_json_text(zf_err_text(&s->err, text, sizeof text)) : NULL);

    (void)json_dumpf(j, stdout, JSON_COMPACT);
    (void)putchar('\n');
    json_decref(j);
}

static bool tags_print(struct tags *t, struct zf_err *err)
{
    const uint32_t jobs = opts_jobs(t->o);
    const struct zf_ahead_work work = {
        .make = tags_make, .drop = tags_save_free, .ctx = t, .few = jobs < ZF_AHEAD_FEW ? jobs : 0};
    zf_auto(ahead) struct zf_ahead *ahead = zf_ahead_new(work, t->list.n, err);

    for (size_t i = 0; ahead && i < t->list.n; i++) {
        struct tags_save *s = zf_ahead_take(ahead, err);

        if (!s)
            return false;
        if (i == 0 && !t->o->json) {
            (void)printf("  %8s  %16s %5s %10s %5s  %-10s  %s\n", "step", "written", "files",
                         "size", "ranks", "state", "tag");
        }
        opening_clear();
        (t->o->json ? tags_print_json : tags_print_row)(t, i, s);
        tags_save_free(s);
    }
    return ahead != NULL;
}

int cmd_tags(const struct opts *o, int n, char **word)
{
    struct tags t = {.run = word[0], .o = o, .page = page_of(stdout, o->color)};
    const struct zf_opener opener = open_opener(o);
    struct zf_err err;
    zf_auto(opening) struct opening line = opening_begin(true);
    zf_auto(store) struct zf_store *st = zf_store_by(&opener, word[0], &o->lim, &err);

    (void)n;
    if (!st) {
        opening_end(&line);
        return cmd_fail(&err);
    }
    bool ok =
        zf_saves_list(st, ZF_SAVES_BOTH, &o->lim, &t.list, &err) && tags_find_opened(&t, &err);
    if (ok && t.list.n == 0) {
        (void)zf_fail(&err, ZF_E_NOENT, ZF_OFF_NONE,
                      "there is no save in this directory. See what it holds: zerofs info DIR");
        (void)zf_err_in(&err, "%s", word[0]);
        ok = false;
    }
    ok = ok && tags_print(&t, &err);
    opening_end(&line);
    zf_saves_free(&t.list);
    tags_save_free(t.known);
    free(t.opened);
    return cmd_finish(ok ? EXIT_OK : cmd_negative(&err));
}
