/* SPDX-License-Identifier: Apache-2.0 */
#include "locate.h"

#include <stdio.h>
#include <string.h>

#include <zf/base/name.h>

#include "lfs.h"
#include "table.h"
#include "tags.h"

/* At most so many steps down (experiment / run / checkpoint-60 / global_step60 and one to spare),
 * and so far is looked for saves, in so many directories of one depth. */
enum { MAX_LEVELS = 5, MAX_DEPTH = 3, MAX_DIRS = 128 };

/* "a, b, c, …" within n bytes. */
static void name_list(const struct zf_tags *t, char *out, size_t n)
{
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < t->n; i++) {
        int more = snprintf(out + at, n - at, "%s%s", i ? ", " : "", t->name[i]);
        if (more < 0 || (size_t)more >= n - at - 8) {
            snprintf(out + at, n - at, "%s…", i ? ", " : "");
            return;
        }
        at += (size_t)more;
    }
}

struct dirs {
    char *path[MAX_DIRS];
    size_t n;
};

static void zf_auto_dirs(struct dirs *d)
{
    for (size_t i = 0; i < d->n; i++) {
        free(d->path[i]);
    }
    d->n = 0;
}

/* Adds the directories inside `dir`; what cannot be listed has none. */
static bool add_children(struct zf_store *st, const char *dir, struct dirs *out, struct zf_err *err)
{
    struct zf_err ignored = {.code = ZF_OK};
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, dir, &e, &n, &ignored)) {
        return true;
    }
    for (size_t i = 0; i < n && out->n < MAX_DIRS; i++) {
        if (e[i].kind != ZF_ENTRY_DIR || e[i].name[0] == '.') {
            continue;
        }
        if (asprintf(&out->path[out->n], "%s%s%s", dir, *dir ? "/" : "", e[i].name) < 0) {
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        }
        if (zf_tags_is_twin(st, out->path[out->n])) {
            free(out->path[out->n]);
        } else {
            out->n++;
        }
    }
    return true;
}

/* Moves what is in `from` to the end of `to`. */
static bool append(struct zf_tags *to, struct zf_tags *from, struct zf_err *err)
{
    char **more = realloc(to->name, (to->n + from->n + 1) * sizeof *more);

    if (!more) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    to->name = more;
    memcpy(to->name + to->n, from->name, from->n * sizeof *more);
    to->n += from->n;
    to->weak += from->weak;
    from->n = 0;
    return true;
}

/* The saves nearest below st: in it or, when there are none, in its directories, and so on. */
static bool candidates(struct zf_store *st, struct zf_tags *out, struct zf_err *err)
{
    zf_auto(dirs) struct dirs now = {.n = 0};

    if (!zf_tags_below(st, "", out, err) || out->n || !add_children(st, "", &now, err)) {
        return out->n != 0;
    }
    for (int depth = 1; depth < MAX_DEPTH && now.n && !out->n; depth++) {
        zf_auto(dirs) struct dirs next = {.n = 0};

        for (size_t i = 0; i < now.n; i++) {
            zf_auto(tags) struct zf_tags t = {.name = NULL};
            struct zf_err ignored = {.code = ZF_OK};

            if ((zf_tags_below(st, now.path[i], &t, &ignored) && t.n && !append(out, &t, err)) ||
                !add_children(st, now.path[i], &next, err)) {
                zf_tags_free(out);
                return false;
            }
        }
        struct dirs swap = now;
        now = next;
        next = swap;
    }
    return true;
}

static bool no_such_tag(struct zf_store *st, const char *tag, struct zf_err *err)
{
    zf_auto(tags) struct zf_tags t = {.name = NULL};
    struct zf_err ignored = {.code = ZF_OK};
    char list[160];

    if (!candidates(st, &t, &ignored) || t.n == 0) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "there is no save \"%.60s\" here, nor any other", tag);
    }
    name_list(&t, list, sizeof list);
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "there is no save \"%.60s\" here; there are: %s",
                   tag, list);
}

static bool stale_pointer(struct zf_store *st, const char *tag, struct zf_err *err)
{
    zf_auto(tags) struct zf_tags t = {.name = NULL};
    struct zf_err ignored = {.code = ZF_OK};
    char list[160] = "none";

    if (zf_tags_list(st, &t, &ignored) && t.n) {
        name_list(&t, list, sizeof list);
    }
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the latest save is said to be \"%.60s\", which is not here; saves here: %s "
                   "(choose one with -o tag=NAME)",
                   tag, list);
}

/* Is one of the directories on the way the save of a step? */
static bool has_step(const char *path)
{
    for (const char *end; *path; path = *end ? end + 1 : end) {
        char name[ZF_NAME_MAX + 1];
        size_t n = strcspn(path, "/");

        end = path + n;
        (void)snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : 0), path);
        if (zf_tags_is_step(name)) {
            return true;
        }
    }
    return false;
}

/* The one save in t, or the newest of a numbered series; which it is goes to note[n]. */
static bool choose_one(const struct zf_tags *t, const char **name_out, char *note, size_t n,
                       struct zf_err *err)
{
    const char *last = t->name[t->n - 1];
    bool series = strncmp(last, "global_step", 11) != 0;
    char list[160];

    for (size_t i = 0; series && i < t->n; i++) {
        series = has_step(t->name[i]) && zf_tags_same_series(t->name[i], last);
    }
    if (t->n > 1 && !series) {
        name_list(t, list, sizeof list);
        return zf_fail(
            err, ZF_E_UNKNOWN, ZF_OFF_NONE,
            "several checkpoints are here and nothing says which is meant: %s; point at one "
            "of them or give -o tag=NAME",
            list);
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
    *name_out = last;
    return true;
}

/* Moves p into `name` below its store. */
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

/* Where to go on from a directory that holds no save itself;
 * false with err->code = ZF_OK: nowhere. */
static bool next_step(struct zf_place *p, const struct zf_open_opts *o, struct zf_err *err)
{
    zf_auto(mem) char *latest = NULL;
    zf_auto(tags) struct zf_tags t = {.name = NULL};
    const char *name;

    if (o->tag) {
        if (!zf_store_has(p->store, o->tag, ZF_ENTRY_DIR)) {
            return no_such_tag(p->store, o->tag, err);
        }
        return descend(p, o->tag, err);
    }
    if (!zf_tags_latest(p->store, &latest, err)) {
        return false;
    }
    if (latest) {
        if (!zf_store_has(p->store, latest, ZF_ENTRY_DIR)) {
            return stale_pointer(p->store, latest, err);
        }
        return descend(p, latest, err);
    }
    if (!candidates(p->store, &t, err) || t.n == 0 ||
        !choose_one(&t, &name, p->note, sizeof p->note, err)) {
        return false;
    }
    /* Found further down: one directory after the other, so that `outer` is the one it lies in. */
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

static bool nothing(struct zf_store *st, struct zf_err *err)
{
    const char *pointer = zf_lfs_find(st, zf_pick_file(st));

    if (pointer) {
        (void)zf_lfs_fail(err);
        return zf_err_in(err, "%s", pointer);
    }
    if (zf_pick_file(st)) {
        zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                "this is neither a torch.save file nor safetensors");
        return zf_err_in(err, "%s", zf_pick_file(st));
    }
    return zf_fail(
        err, ZF_E_UNKNOWN, ZF_OFF_NONE,
        "no checkpoint is here: no manifest, index, safetensors or torch.save file, nor one in a "
        "directory below");
}

/* Is p's pick what was asked for, so that there is no need to look further down? */
static bool settled(const struct zf_place *p, const struct zf_open_opts *o)
{
    const struct zf_format *f = p->pick.format;

    return f && (!o->tag || f->tags) && (p->pick.probe.fit > ZF_FIT_WEAK || o->format);
}

/* A pointer to a save that is gone (or to no save at all) beside saves that are there: what lies
 * loose in this directory is not what was meant.  Fills *err when it returns true. */
static bool misled(const struct zf_place *p, const struct zf_open_opts *o, struct zf_err *err)
{
    zf_auto(mem) char *latest = NULL;
    zf_auto(tags) struct zf_tags t = {.name = NULL};
    struct zf_err ignored = {.code = ZF_OK};

    if (!p->pick.format || p->pick.format->tags || o->tag || o->format) {
        return false;
    }
    if (!zf_tags_latest(p->store, &latest, err)) {
        return true;
    }
    if (!latest || zf_store_has(p->store, latest, ZF_ENTRY_DIR) ||
        !zf_tags_list(p->store, &t, &ignored) || t.n == 0) {
        return false;
    }
    (void)stale_pointer(p->store, latest, err);
    return true;
}

/* Nothing was found below: what fits weakly, or a format that was asked for by name. */
static bool fall_back(struct zf_place *p, const struct zf_open_opts *o, struct zf_err *err)
{
    if (p->pick.format && !o->tag) {
        return true;
    }
    if (!o->format) {
        return nothing(p->store, err);
    }
    if (!zf_pick_file(p->store)) {
        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                       "nothing here is of the format %.40s that was asked for", o->format);
    }
    *p->pick.probe.why = '\0';
    p->pick.format = zf_table_find(o->format);
    return true;
}

bool zf_locate(struct zf_store *st, const struct zf_open_opts *o, struct zf_place *out,
               struct zf_err *err)
{
    struct zf_open_opts here = *o;

    zf_err_clear(err);
    *out = (struct zf_place){.store = zf_store_ref(st)};
    for (int level = 0; level < MAX_LEVELS; level++) {
        if (!zf_pick(out->store, &here, &out->pick, err)) {
            zf_place_free(out);
            return false;
        }
        if (!zf_pick_file(st) && misled(out, &here, err)) {
            zf_place_free(out);
            return false;
        }
        if (settled(out, &here)) {
            return true;
        }
        if (zf_pick_file(st) || !next_step(out, &here, err)) {
            break;
        }
        here.tag = NULL;
    }
    if (err->code == ZF_OK && fall_back(out, &here, err)) {
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
    p->tag = NULL;
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
    if (!zf_tags_below(st, "", &t, err)) {
        return NULL;
    }
    if (t.n == 0) {
        zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE, "no save is in this run directory");
        return NULL;
    }
    if (!choose_one(&t, &one, note, sizeof note, err)) {
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
        return o->tag ? no_such_tag(st, name, err) : stale_pointer(st, name, err);
    }
    *tag_out = zf_store_sub(st, name, err);
    if (!*tag_out) {
        return false;
    }
    *tag_name_out = name;
    name = NULL;
    return true;
}
