/* SPDX-License-Identifier: Apache-2.0 */
#include "run_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/find.h>

/* Inode numbers of a save that is not open: RUN_LIST_OWN * serial is its root, the following ones are its control
 * files, whose numbers in the save's own tree are CONTROL + a small number. */
#define CONTROL (1ull << 63)
#define SERIALS (1u << 28)
/* Ranges consist of units of 2^UNIT_SHIFT numbers, as a tree's shelves, and begin after all small numbers. */
#define UNIT_SHIFT 32
#define UNITS (1ull << (63 - UNIT_SHIFT))
/* Units for a tree that does not report how many numbers it has. */
#define UNITS_OF_ANY (1ull << (51 - UNIT_SHIFT))
/* At most this many saves that were current/ are kept although nothing of them is open. */
#define IDLE_OLD 4
/* The run directory is listed again after this time. */
#define FRESH_SECONDS 1

/* ---- one save -------------------------------------------------------------------------------- */

struct run_entry *run_entry_ref(struct run_entry *e)
{
    if (e)
        atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    return e;
}

void run_entry_unref(struct run_entry **e)
{
    struct run_entry *gone = *e;

    *e = NULL;
    if (gone && atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) == 1) {
        save_free(gone->save);
        free(gone->name);
        free(gone);
    }
}

/* Under the lock. */
static struct run_entry *list_entry_new(struct run_list *t, const struct zf_entry *dir,
                                        const char *name, struct zf_err *err)
{
    zf_auto(run_entry) struct run_entry *e = calloc(1, sizeof *e);

    if (t->serials + 1 == SERIALS) {
        return zf_null(zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                               "more than %u saves have been shown. Mount again to go on",
                               SERIALS));
    }
    if (!e || !(e->name = strdup(name))) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a save");
        free(e);
        e = NULL;
        return NULL;
    }
    atomic_init(&e->refs, 1);
    e->save = save_new(t->path, name, &t->o, t->log, err);
    if (!e->save)
        return NULL;
    e->serial = ++t->serials;
    (void)zf_name_encode(e->file, name, strlen(name), "");
    e->dir = dir ? dir->id : e->dir;
    return zf_give(e);
}

/* ---- which saves there are ------------------------------------------------------------------- */

/* The index of the save with that name or file name; list.n: none.  near: where it probably is.  Pre: the lock is
 * held. */
static size_t list_find(const struct run_list *t, const char *name, bool file, size_t near)
{
    for (size_t i = 0; i < t->list.n; i++) {
        size_t k = near + i < t->list.n ? near + i : near + i - t->list.n;

        if (strcmp(file ? t->list.at[k]->file : t->list.at[k]->name, name) == 0)
            return k;
    }
    return t->list.n;
}

/* Removes the inode numbers of e, which is gone.  Pre: the lock is held. */
static void list_forget(struct run_list *t, const struct run_entry *e)
{
    size_t n = 0;

    for (size_t i = 0; i < t->range.n; i++)
        if (t->range.at[i] != e)
            t->range.at[n++] = t->range.at[i];
    t->range.n = n;
    t->latest = t->latest == e ? NULL : t->latest;
}

/* The index of e among the saves that are no longer shown; old.n: none.  Pre: the lock is held. */
static size_t list_find_old(const struct run_list *t, const struct run_entry *e)
{
    size_t i = 0;

    while (i < t->old.n && t->old.at[i] != e)
        i++;
    return i;
}

static bool list_has(const struct run_list *t, const struct run_entry *e)
{
    size_t i = 0;

    while (i < t->list.n && t->list.at[i] != e)
        i++;
    return i < t->list.n || list_find_old(t, e) < t->old.n;
}

/* Is this still the directory of e?  Not if it was removed and made again. */
static bool list_is_same(const struct run_entry *e, const struct zf_entry *dir)
{
    return !dir || (e->dir.dev == dir->id.dev && e->dir.ino == dir->id.ino);
}

/* Returns the save `name`, the existing one at index `at` if it is the same.  Pre: the lock is held. */
static struct run_entry *list_take_entry(struct run_list *t, struct zf_store *st, const char *name,
                                         size_t at, struct zf_err *err)
{
    const struct zf_entry *dir = zf_store_find(st, name);
    struct run_entry *e = at < t->list.n && list_is_same(t->list.at[at], dir)
                              ? run_entry_ref(t->list.at[at])
                              : list_entry_new(t, dir, name, err);

    if (e)
        e->look = t->looks;
    return e;
}

/* Releases references, without the lock, because freeing a save may wait for its files. */
static void list_unref(struct run_entry **e, size_t n)
{
    for (size_t i = 0; i < n; i++)
        run_entry_unref(&e[i]);
    free(e);
}

/* Replaces the table by the current listing; *old_out[*n_out]: the previous one, each with a reference.  Pre: the
 * lock is held. */
static bool list_take(struct run_list *t, struct zf_store *st, const struct zf_saves *list,
                      struct run_entry ***old_out, size_t *n_out, struct zf_err *err)
{
    struct run_entry **now = calloc(list->n ? list->n : 1, sizeof *now);
    size_t n = 0, near = 0;

    if (!now)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a list of saves");
    t->looks++;
    for (; n < list->n; n++) {
        size_t at = list_find(t, list->at[n].path, false, near);

        now[n] = list_take_entry(t, st, list->at[n].path, at, err);
        near = at < t->list.n ? at + 1 : near;
        if (!now[n]) {
            *old_out = now;
            *n_out = n;
            return false;
        }
    }
    for (size_t i = 0; i < t->list.n; i++)
        if (t->list.at[i]->look != t->looks)
            list_forget(t, t->list.at[i]);
    *old_out = t->list.at;
    *n_out = t->list.n;
    t->list.at = now;
    t->list.n = t->list.cap = n;
    t->latest = list->latest < n ? now[list->latest] : NULL;
    return true;
}

/* Uses a new store each time, because a store's listing never changes.  Reading the directory may be slow; only lookups
 * of saves by name wait for it. */
bool run_list_look(struct run_list *t, struct zf_err *err)
{
    zf_auto(store) struct zf_store *st = zf_store_by(t->o.opener, t->path, t->o.lim, err);
    struct zf_saves list = {0};
    struct run_entry **old = NULL;
    size_t n = 0;

    if (!st || !zf_saves_list(st, ZF_SAVES_WHOLE, t->o.lim, &list, err))
        return false;
    (void)pthread_mutex_lock(&t->lock);
    bool ok = list_take(t, st, &list, &old, &n, err);
    (void)pthread_mutex_unlock(&t->lock);
    list_unref(old, n);
    zf_saves_free(&list);
    return ok;
}

void run_list_refresh(struct run_list *t)
{
    struct timespec now;
    struct zf_err err;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&t->looking);
    if (now.tv_sec - t->looked >= FRESH_SECONDS) {
        t->looked = now.tv_sec;
        if (!run_list_look(t, &err))
            zf_log_say(t->log, &err);
    }
}

struct run_entry *run_list_by_name(struct run_list *t, const char *file)
{
    struct zf_err err;

    (void)pthread_mutex_lock(&t->lock);
    size_t at = list_find(t, file, true, 0);
    zf_auto(run_entry) struct run_entry *e = at < t->list.n ? run_entry_ref(t->list.at[at]) : NULL;
    (void)pthread_mutex_unlock(&t->lock);
    if (!e || !save_changed(e->save))
        return zf_give(e);
    struct run_entry *was = NULL;
    (void)pthread_mutex_lock(&t->lock);
    at = list_find(t, file, true, at);
    if (at < t->list.n && t->list.at[at] == e) {
        struct run_entry *again = list_entry_new(t, NULL, e->name, &err);

        if (!again) {
            zf_log_say(t->log, &err);
        } else {
            again->dir = e->dir;
            again->look = e->look;
            bool latest = t->latest == e;
            was = t->list.at[at];
            list_forget(t, was);
            t->list.at[at] = again;
            t->latest = latest ? again : t->latest;
        }
    }
    struct run_entry *now = at < t->list.n ? run_entry_ref(t->list.at[at]) : NULL;
    (void)pthread_mutex_unlock(&t->lock);
    run_entry_unref(&was);
    return now;
}

/* ---- inode numbers --------------------------------------------------------------------------- */

/* Assigns the range of e, which is open.  Pre: the lock is held. */
static uint64_t list_range(struct run_list *t, struct run_entry *e, struct zf_tree *tree)
{
    const uint64_t inos = tree->ops->inos ? tree->ops->inos(tree) : 0;
    const uint64_t n = inos ? ((inos - 1) >> UNIT_SHIFT) + 1 : UNITS_OF_ANY;
    const uint64_t unit = t->units + 1;
    struct zf_err err;

    if (atomic_load(&e->unit) || n > UNITS - 1 - unit || !zf_vec_room(&t->range, 1, &err))
        return atomic_load(&e->unit);
    t->range.at[t->range.n++] = e;
    t->units += n;
    e->n_units = n;
    atomic_store(&e->unit, unit);
    return unit;
}

uint64_t run_list_ino(struct run_list *t, struct run_entry *e, uint64_t ino)
{
    uint64_t unit = atomic_load(&e->unit);

    if (ino == ZF_TREE_ROOT || ino >= CONTROL) {
        return RUN_LIST_OWN * e->serial +
               (ino == ZF_TREE_ROOT ? 0 : 1 + (ino & (RUN_LIST_OWN - 1)));
    }
    if (!unit) {
        (void)pthread_mutex_lock(&t->lock);
        unit = list_has(t, e) ? list_range(t, e, save_opened(e->save)) : 0;
        (void)pthread_mutex_unlock(&t->lock);
    }
    return unit ? (unit << UNIT_SHIFT) + ino : 0;
}

/* Under the lock. */
static struct run_entry *list_by_ino(const struct run_list *t, uint64_t ino, uint64_t *inner_out)
{
    const uint64_t unit = ino >> UNIT_SHIFT;
    size_t low = 0, high = t->range.n;

    for (size_t i = 0; !unit && i < t->list.n + t->old.n; i++) {
        struct run_entry *e = i < t->list.n ? t->list.at[i] : t->old.at[i - t->list.n];

        if (e->serial == ino / RUN_LIST_OWN) {
            *inner_out = ino % RUN_LIST_OWN ? CONTROL + ino % RUN_LIST_OWN - 1 : ZF_TREE_ROOT;
            return e;
        }
    }
    while (low < high) {
        const size_t k = low + (high - low) / 2;
        struct run_entry *e = t->range.at[k];
        const uint64_t first = atomic_load(&e->unit);

        if (unit >= first && unit - first < e->n_units) {
            *inner_out = ino - (first << UNIT_SHIFT);
            return e;
        }
        low = unit > first ? k + 1 : low;
        high = unit > first ? high : k;
    }
    return NULL;
}

struct run_entry *run_list_of(struct run_list *t, uint64_t ino, uint64_t *inner_out)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&t->lock);
    return run_entry_ref(ino < RUN_LIST_OWN ? NULL : list_by_ino(t, ino, inner_out));
}

/* ---- -o current: the save shown, and earlier ones ----------------------------------------------- */

struct run_entry *run_list_shown(struct run_list *t)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&t->lock);
    return run_entry_ref(t->list.n ? t->list.at[0] : NULL);
}

struct run_entry *run_list_opened(struct run_list *t, const char *name, const char *file,
                                  struct zf_tree *tree, uint16_t withheld, struct zf_err *err)
{
    struct zf_stat root = {.mtime = {.tv_sec = 0}};

    (void)tree->ops->stat(tree, ZF_TREE_ROOT, &root);
    (void)pthread_mutex_lock(&t->lock);
    zf_auto(run_entry) struct run_entry *e = list_entry_new(t, NULL, name, err);
    (void)pthread_mutex_unlock(&t->lock);
    if (!e) {
        zf_tree_free(tree);
        return NULL;
    }
    (void)snprintf(e->file, sizeof e->file, "%s", file);
    e->dir.mtime = root.mtime;
    return save_take(e->save, tree, withheld, err) ? zf_give(e) : NULL;
}

/* Removes the oldest save that is no longer shown, if there are too many; the caller gets its reference. */
static struct run_entry *list_take_old(struct run_list *t)
{
    struct run_entry *gone = NULL;
    size_t idle = 0, at = t->old.n;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&t->lock);
    for (size_t i = t->old.n; i-- > 0;) {
        if (!t->old.at[i]->held) {
            idle++;
            at = i;
        }
    }
    if (idle > IDLE_OLD) {
        gone = t->old.at[at];
        list_forget(t, gone);
        t->old.n--;
        memmove(&t->old.at[at], &t->old.at[at + 1], (t->old.n - at) * sizeof(struct run_entry *));
    }
    return gone;
}

static void list_trim_old(struct run_list *t)
{
    struct run_entry *e;

    while ((e = list_take_old(t)))
        run_entry_unref(&e);
}

bool run_list_show(struct run_list *t, struct run_entry *e, struct zf_err *err)
{
    (void)pthread_mutex_lock(&t->lock);
    const bool ok = zf_vec_room(&t->list, 1, err) && zf_vec_room(&t->old, 1, err);
    if (ok && t->list.n)
        t->old.at[t->old.n++] = t->list.at[0];
    if (ok) {
        t->list.n = e ? 1 : 0;
        t->list.at[0] = run_entry_ref(e);
    }
    (void)pthread_mutex_unlock(&t->lock);
    list_trim_old(t);
    return ok;
}

bool run_list_hold(struct run_list *t, uint64_t ino)
{
    uint64_t inner;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&t->lock);
    struct run_entry *e = ino < RUN_LIST_OWN ? NULL : list_by_ino(t, ino, &inner);
    if (e)
        e->held++;
    return e || ino < RUN_LIST_OWN;
}

void run_list_drop(struct run_list *t, uint64_t ino)
{
    uint64_t inner;

    (void)pthread_mutex_lock(&t->lock);
    struct run_entry *e = ino < RUN_LIST_OWN ? NULL : list_by_ino(t, ino, &inner);
    const bool last = e && --e->held == 0 && list_find_old(t, e) < t->old.n;
    (void)pthread_mutex_unlock(&t->lock);
    if (last)
        list_trim_old(t);
}

void run_list_fini(struct run_list *t)
{
    for (size_t k = 0; k < t->list.n; k++)
        run_entry_unref(&t->list.at[k]);
    while (t->old.n)
        run_entry_unref(&t->old.at[--t->old.n]);
    zf_vec_fini(&t->old);
    free(t->list.at);
    zf_vec_fini(&t->range);
    (void)pthread_mutex_destroy(&t->lock);
    (void)pthread_mutex_destroy(&t->looking);
    free(t->path);
}
