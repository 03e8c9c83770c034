/* SPDX-License-Identifier: Apache-2.0 */
/* From what the user pointed at to the save, one directory after the other.  In each of them:
 *
 * 1. The families are asked (zf_pick).  One that fits decides: this directory is the save, unless
 *    only things that lie beside weights were found, or another save was asked for (-o tag).
 * 2. Otherwise the way leads on: to the save that -o tag names, to the one that a pointer file
 *    (latest) names, or to the only save further down or the newest of a numbered series.
 * 3. Where no way leads on, what fitted a little is taken after all; else it is refused, with what
 *    is there instead. */
#include <zf/assemble/files.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/name.h>
#include <zf/find/locate.h>
#include <zf/find/saves.h>

#include "foreign.h"
#include "save_word.h"
#include "table.h"

/* At most so many steps down: experiment / run / checkpoint-60 / global_step60, and one to spare. */
enum { MAX_LEVELS = 5 };

/* How looking at one directory ended. */
enum locate_state {
    LOCATE_FOUND,   /* this is the save */
    LOCATE_DEEPER,  /* the place is one directory further down now */
    LOCATE_NOWHERE, /* nothing here, and no way leads on */
    LOCATE_FAILED   /* *err says why */
};

static enum locate_state locate_failed(bool ok)
{
    (void)ok; /* of zf_fail, which is always false */
    return LOCATE_FAILED;
}

/* ---- pointer files --------------------------------------------------------------------------- */

/* What is where a pointer file says the latest save is. */
enum pointer_state {
    POINTER_SAVE,
    POINTER_GONE, /* nothing of that name */
    POINTER_BAD   /* something that cannot be the save; `why` says what is wrong with it */
};

struct pointer {
    enum pointer_state state;
    char why[160];
};

static struct pointer pointer_bad(const char *why)
{
    struct pointer p = {.state = POINTER_BAD};

    (void)snprintf(p.why, sizeof p.why, "%.*s", (int)sizeof p.why - 1, why);
    return p;
}

/* The directory cannot be opened. */
static struct pointer pointer_shut(struct zf_store *st, const char *name, const struct zf_err *err)
{
    if (zf_store_has(st, name, ZF_ENTRY_FILE)) {
        return pointer_bad("it is a file, not a directory");
    }
    if (zf_store_has(st, name, ZF_ENTRY_OTHER)) {
        char kind[120];

        (void)snprintf(kind, sizeof kind, "it is %s, neither a directory nor a link to one",
                       zf_store_what(st, name));
        return pointer_bad(err->sys == ENOENT ? "it is a dangling link"
                           : err->sys == ENOTDIR || err->code == ZF_E_NOENT ? kind
                                                                            : err->msg);
    }
    return err->sys == ENOENT || err->code == ZF_E_NOENT ? (struct pointer){.state = POINTER_GONE}
                                                         : pointer_bad(err->msg);
}

/* Does the directory `sub` hold a save, or lead to one? */
static struct pointer pointer_content(struct zf_store *sub, const struct zf_open_opts *o)
{
    struct zf_open_opts here = {.lim = o->lim, .format = o->format};
    zf_auto(tags) struct zf_tags t = {.name = NULL};
    zf_auto(mem) char *latest = NULL;
    struct zf_err err = {.code = ZF_OK};
    struct zf_pick pick = {.format = NULL};
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(sub, "", &e, &n, &err)) {
        return pointer_bad(err.msg);
    }
    if (n == 0) {
        return pointer_bad("it is empty");
    }
    /* Two families that tie: opening it says so. */
    if (!zf_pick(sub, &here, &pick, &err) || pick.format || !zf_tags_latest(sub, &latest, &err) ||
        latest || (zf_tags_nearest(sub, o->lim, &t, &err) && t.n)) {
        return (struct pointer){.state = POINTER_SAVE};
    }
    return pointer_bad(zf_foreign_find(sub, NULL, &err) ? err.msg : "it does not hold a save");
}

static struct pointer pointer_look(struct zf_store *st, const char *name,
                                   const struct zf_open_opts *o)
{
    struct zf_err err = {.code = ZF_OK};
    zf_auto(store) struct zf_store *sub =
        zf_store_has(st, name, ZF_ENTRY_FILE) ? NULL : zf_store_sub(st, name, &err);

    return sub ? pointer_content(sub, o) : pointer_shut(st, name, &err);
}

/* A directory that happens to be called latest promises nothing; a pointer file does. */
static bool pointer_is_promise(struct zf_store *st, const char *name)
{
    return strcmp(name, "latest") != 0 || !zf_store_has(st, name, ZF_ENTRY_DIR);
}

/* Refuses what a pointer file names; returns false. */
static bool pointer_refuse(struct zf_store *st, const char *name, const struct zf_limits *lim,
                           const struct pointer *p, struct zf_err *err)
{
    zf_auto(tags) struct zf_tags t = {.name = NULL};
    struct zf_err ignored = {.code = ZF_OK};
    char list[120] = "none";

    if (p->state == POINTER_BAD) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the latest save is said to be \"%.60s\", but %s", name, p->why);
    }
    if (zf_tags_list(st, lim, &t, &ignored) && t.n) {
        zf_tagword_list(&t, NULL, list, sizeof list);
    }
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the latest save is said to be \"%.60s\", which is not here; saves here: %s "
                   "(choose one with -o tag=NAME)",
                   name, list);
}

/* Something in this directory fits, but a pointer file may have meant another save: then what lies
 * loose here is not what was meant, and is refused.  Only when the save is gone and no other is
 * left is the rest shown, as whoever removed the save to keep the weights expects. */
static bool pointer_allows(struct zf_place *p, const struct zf_open_opts *o, struct zf_err *err)
{
    zf_auto(mem) char *latest = NULL;
    zf_auto(tags) struct zf_tags t = {.name = NULL};
    struct zf_err ignored = {.code = ZF_OK};

    if (!p->pick.format || p->pick.format->tags || o->tag || o->format) {
        return true;
    }
    if (!zf_tags_latest(p->store, &latest, err)) {
        return false;
    }
    if (!latest || !pointer_is_promise(p->store, latest)) {
        return true;
    }
    struct pointer to = pointer_look(p->store, latest, o);
    if (to.state == POINTER_SAVE) {
        return true;
    }
    if (to.state == POINTER_GONE && (!zf_tags_list(p->store, o->lim, &t, &ignored) || t.n == 0)) {
        (void)snprintf(p->note, sizeof p->note,
                       "the latest save is said to be %.60s, which is not here", latest);
        return true;
    }
    return pointer_refuse(p->store, latest, o->lim, &to, err);
}

/* ---- the way down ---------------------------------------------------------------------------- */

/* Several saves, or one in parts: `above` is the path to where they were found, or NULL. */
static bool refuse_several(const struct zf_tags *t, const char *above, struct zf_err *err)
{
    char list[200];

    zf_tagword_list(t, above, list, sizeof list);
    if (zf_tags_are_parts(t)) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "this is one save in parts that zerofs does not put together: %s; point at "
                       "one of them or give -o tag=NAME",
                       list);
    }
    return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                   "several checkpoints are here and nothing says which is meant: %s; point at one "
                   "of them or give -o tag=NAME",
                   list);
}

/* The one save in t, or the newest of a numbered series; which it is goes to note[n]. */
static bool choose_one(const struct zf_tags *t, const char *above, const char **name, char *note,
                       size_t n, struct zf_err *err)
{
    const char *last = t->name[t->n - 1];
    bool series = strncmp(last, "global_step", 11) != 0;
    int64_t step;

    for (size_t i = 0; series && i < t->n; i++) {
        series = zf_tags_step(t->name[i], &step) && zf_tags_same_series(t->name[i], last);
    }
    if (t->n > 1 && !series) {
        return refuse_several(t, above, err);
    }
    if (t->n == 1) {
        snprintf(note, n, "the checkpoint is in %.80s, the only one here", last);
    } else {
        snprintf(note, n, "%.80s is the newest of %zu saves here", last, t->n);
    }
    if (t->weak) {
        size_t at = strlen(note);
        snprintf(note + at, n - at, "; %zu more %s unfinished or without weights", t->weak,
                 t->weak == 1 ? "is" : "are");
    }
    *name = last;
    return true;
}

/* Moves p into `name` below its store, all components at once. */
static bool descend(struct zf_place *p, const char *name, struct zf_err *err)
{
    struct zf_store *sub = zf_store_sub(p->store, name, err);
    char *tag = NULL;

    if (!sub) {
        return false;
    }
    const char *base = strcmp(name, "latest") == 0 ? zf_store_base(sub) : name;
    if (asprintf(&tag, "%s%s%s", p->tag ? p->tag : "", p->tag ? "/" : "", base) < 0) {
        zf_store_unref(&sub);
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    zf_store_unref(&p->outer);
    p->outer = p->store;
    p->store = sub;
    free(p->tag);
    p->tag = tag;
    return true;
}

/* The same one directory after the other, so that `outer` is the one that `name` lies in. */
static bool descend_steps(struct zf_place *p, const char *name, struct zf_err *err)
{
    for (const char *slash; (slash = strchr(name, '/')); name = slash + 1) {
        zf_auto(mem) char *first = strndup(name, (size_t)(slash - name));

        if (!first) {
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        }
        if (!descend(p, first, err)) {
            return false;
        }
    }
    return descend(p, name, err);
}

static enum locate_state go_nearest(struct zf_place *p, const struct zf_open_opts *o,
                                    struct zf_err *err)
{
    zf_auto(tags) struct zf_tags t = {.name = NULL};
    const char *name;

    if (!zf_tags_nearest(p->store, o->lim, &t, err)) {
        return LOCATE_FAILED;
    }
    if (t.n == 0) {
        return LOCATE_NOWHERE;
    }
    /* Directories with torch files in them may belong to something that is not read at all. */
    if (zf_tags_are_parts(&t) && zf_foreign_save(p->store, err)) {
        return locate_failed(p->tag && zf_err_in(err, "%s", p->tag));
    }
    if (!choose_one(&t, p->tag, &name, p->note, sizeof p->note, err) ||
        !descend_steps(p, name, err)) {
        return LOCATE_FAILED;
    }
    return LOCATE_DEEPER;
}

/* Where to go on from a directory that holds no save itself. */
static enum locate_state go_deeper(struct zf_place *p, const struct zf_open_opts *o,
                                   struct zf_err *err)
{
    zf_auto(mem) char *latest = NULL;

    if (o->tag) {
        if (!zf_store_has(p->store, o->tag, ZF_ENTRY_DIR)) {
            return locate_failed(zf_tagword_none(p->store, o, o->tag, err));
        }
        return descend(p, o->tag, err) ? LOCATE_DEEPER : LOCATE_FAILED;
    }
    if (!zf_tags_latest(p->store, &latest, err)) {
        return LOCATE_FAILED;
    }
    if (latest) {
        struct pointer to = pointer_look(p->store, latest, o);

        if (to.state == POINTER_SAVE) {
            return descend(p, latest, err) ? LOCATE_DEEPER : LOCATE_FAILED;
        }
        if (pointer_is_promise(p->store, latest)) {
            return locate_failed(pointer_refuse(p->store, latest, o->lim, &to, err));
        }
    }
    return go_nearest(p, o, err);
}

/* ---- one directory --------------------------------------------------------------------------- */

/* Is p's pick what was asked for, so that there is no need to look further down? */
static bool settled(const struct zf_place *p, const struct zf_open_opts *o)
{
    const struct zf_format *f = p->pick.format;

    return f && (!o->tag || f->tags) && (p->pick.probe.fit > ZF_FIT_WEAK || o->format);
}

static enum locate_state locate_here(struct zf_place *p, const struct zf_open_opts *o,
                                     struct zf_err *err)
{
    bool file = zf_one_file(p->store) != NULL;

    if (!zf_pick(p->store, o, &p->pick, err) || (!file && !pointer_allows(p, o, err))) {
        return LOCATE_FAILED;
    }
    if (settled(p, o)) {
        return LOCATE_FOUND;
    }
    return file ? LOCATE_NOWHERE : go_deeper(p, o, err);
}

/* What was passed over, because it leads elsewhere, may be what was meant. */
static void passed_over(struct zf_store *st, char *out, size_t n)
{
    const struct zf_entry *e = NULL;
    size_t n_entries = 0;
    struct zf_err err;

    out[0] = '\0';
    if (!zf_store_list(st, "", &e, &n_entries, &err)) {
        return;
    }
    for (size_t i = 0; i < n_entries; i++) {
        if (e[i].kind == ZF_ENTRY_OTHER && !zf_store_reaches(st, e[i].name, &err) &&
            err.sys == EXDEV) {
            (void)snprintf(out, n, "; \"%.40s\" was passed over: %.130s", e[i].name, err.msg);
            return;
        }
    }
}

static bool nothing(struct zf_store *st, struct zf_err *err)
{
    char also[200];
    const char *file = zf_one_file(st);
    const char *pointer = file ? zf_lfs_find(st, file) : NULL;

    if (pointer) {
        (void)zf_lfs_fail(err);
        return zf_err_in(err, "%s", pointer);
    }
    if (zf_foreign_find(st, file, err)) {
        return false;
    }
    if (file) {
        zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                "this is neither a torch.save file nor safetensors");
        return zf_err_in(err, "%s", file);
    }
    passed_over(st, also, sizeof also);
    return zf_fail(
        err, ZF_E_UNKNOWN, ZF_OFF_NONE,
        "no checkpoint is here: no manifest, index, safetensors or torch.save file, nor one in a "
        "directory below%s",
        also);
}

/* Nothing was found below: what fits weakly, or a format that was asked for by name. */
static bool fall_back(struct zf_place *p, const struct zf_open_opts *o, struct zf_err *err)
{
    if (p->pick.format && !o->tag) {
        return true;
    }
    if (!o->format) {
        return nothing(p->store, err) || (p->tag && zf_err_in(err, "%s", p->tag));
    }
    if (!zf_one_file(p->store)) {
        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                       "nothing here is of the format %.40s that was asked for", o->format);
    }
    *p->pick.probe.why = '\0';
    p->pick.format = zf_table_find(o->format);
    return true;
}

/* "run7/global_step5" names a save by way of its run directory, as `info` does: p moves into the run
 * directory, so that what lies beside the save there is met, and tag is what is left. */
static bool enter_run(struct zf_place *p, char *tag, struct zf_err *err)
{
    char *slash = strrchr(tag, '/');

    if (!slash) {
        return true;
    }
    *slash = '\0';
    zf_auto(mem) char *file = NULL;
    if (asprintf(&file, "%s/latest", tag) < 0) {
        file = NULL;
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    if (!zf_store_has(p->store, file, ZF_ENTRY_FILE)) {
        *slash = '/';
        return true;
    }
    if (!descend_steps(p, tag, err)) {
        return false;
    }
    memmove(tag, slash + 1, strlen(slash + 1) + 1);
    return true;
}

/* Walks down until one directory is the save, or nothing leads on. */
static bool locate_walk(struct zf_place *p, struct zf_open_opts *here, struct zf_err *err)
{
    enum locate_state state = LOCATE_DEEPER;

    for (int level = 0; level < MAX_LEVELS && state == LOCATE_DEEPER; level++) {
        state = locate_here(p, here, err);
        if (state == LOCATE_DEEPER) {
            here->tag = NULL;
        }
    }
    return state == LOCATE_FOUND || (state != LOCATE_FAILED && fall_back(p, here, err));
}

bool zf_locate(struct zf_store *st, const struct zf_open_opts *o, struct zf_place *out,
               struct zf_err *err)
{
    struct zf_open_opts here = *o;
    zf_auto(mem) char *tag = NULL;
    bool ok = true;

    if (o->tag && zf_one_file(st)) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "tag=%.60s chooses among the saves of a directory, but \"%.120s\" is a file",
                       o->tag, zf_one_file(st));
    }
    *out = (struct zf_place){.store = zf_store_ref(st)};
    if (o->tag) {
        ok = zf_tagword_resolve(st, o, &tag, out->note, err) && enter_run(out, tag, err);
        here.tag = ok && *tag ? tag : NULL;
    }
    if (ok && locate_walk(out, &here, err)) {
        /* Not used up on the way: for a family that finds the save by itself. */
        if (here.tag) {
            out->rest = tag;
            tag = NULL;
        }
        return true;
    }
    zf_place_free(out);
    return false;
}

void zf_place_free(struct zf_place *p)
{
    zf_store_unref(&p->store);
    zf_store_unref(&p->outer);
    free(p->tag);
    free(p->rest);
    p->tag = p->rest = NULL;
}

/* The name of the save in run directory st, malloc'ed. */
static char *tag_name(struct zf_store *st, const struct zf_open_opts *o, const char *latest_name,
                      struct zf_err *err)
{
    zf_auto(tags) struct zf_tags t = {.name = NULL};
    char *name = NULL, note[160];
    const char *one;

    if (o->tag) {
        name = strdup(o->tag);
        return name ? name : (zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"), NULL);
    }
    if (latest_name && zf_store_has(st, latest_name, ZF_ENTRY_FILE)) {
        return zf_tags_pointer(st, latest_name, &name, err) ? name : NULL;
    }
    if (!latest_name && (!zf_tags_latest(st, &name, err) || name)) {
        return name;
    }
    if (!zf_tags_below(st, "", o->lim, &t, err)) {
        return NULL;
    }
    if (t.n == 0) {
        zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE, "no save is in this run directory");
        return NULL;
    }
    if (!choose_one(&t, NULL, &one, note, sizeof note, err)) {
        return NULL;
    }
    name = strdup(one);
    return name ? name : (zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"), NULL);
}

bool zf_locate_tag(struct zf_store *st, const struct zf_open_opts *o, const char *latest_name,
                   struct zf_store **tag_out, char **tag_name_out, struct zf_err *err)
{
    zf_auto(mem) char *name = tag_name(st, o, latest_name, err);

    *tag_out = NULL;
    *tag_name_out = NULL;
    if (!name) {
        return false;
    }
    if (!zf_store_has(st, name, ZF_ENTRY_DIR)) {
        struct pointer to = pointer_look(st, name, o);

        return o->tag ? zf_tagword_none(st, o, name, err)
                      : pointer_refuse(st, name, o->lim, &to, err);
    }
    *tag_out = zf_store_sub(st, name, err);
    if (!*tag_out) {
        return false;
    }
    *tag_name_out = name;
    name = NULL;
    return true;
}
