/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads at one store, whose kind is made up: opening and listing do what each test says. */
#include "support/unit.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <zf/source/store_kind.h>

#define THREADS 8

struct kind {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    unsigned inside, most, opened, failures;
    unsigned want; /* whoever opens or lists waits until so many were inside at once */
};

static struct kind kind_new(unsigned want, unsigned failures)
{
    return (struct kind){.lock = PTHREAD_MUTEX_INITIALIZER,
                         .moved = PTHREAD_COND_INITIALIZER,
                         .want = want,
                         .failures = failures};
}

/* The n-th call, counted from 0. */
static unsigned kind_pass(struct kind *k)
{
    (void)pthread_mutex_lock(&k->lock);
    unsigned n = k->opened++;
    k->most = ++k->inside > k->most ? k->inside : k->most;
    (void)pthread_cond_broadcast(&k->moved);
    while (k->most < k->want)
        (void)pthread_cond_wait(&k->moved, &k->lock);
    k->inside--;
    (void)pthread_mutex_unlock(&k->lock);
    return n;
}

static struct zf_source *kind_open(void *self, const char *path, const char *name,
                                   const struct zf_entry *known, struct zf_err *err)
{
    struct kind *k = self;

    assert_null(known);
    if (kind_pass(k) < k->failures) {
        (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "not yet");
        return NULL;
    }
    return zf_mem_new(name, (void *)(uintptr_t) "abc", strlen(path) ? 3 : 0, false, err);
}

static bool kind_list(void *self, const char *dir, struct zf_listing *l, struct zf_err *err)
{
    (void)kind_pass(self);
    return zf_listing_add(l, &(struct zf_entry){.name = dir, .kind = ZF_ENTRY_FILE}, err);
}

static char *kind_base(void *self, const char *dir, struct zf_err *err)
{
    (void)self, (void)err;
    return strdup(dir);
}

static void kind_fini(void *self)
{
    (void)self;
}

static struct zf_store *store_of(struct kind *k)
{
    static const struct zf_store_ops ops = {
        .list = kind_list, .open = kind_open, .base = kind_base, .fini = kind_fini};
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    struct zf_store *st =
        zf_store_new(&ops, k, (struct zf_store_look){.name = "made", .shown = "made"}, &lim, &err);

    assert_ok(st, &err);
    return st;
}

struct worker {
    pthread_t thread;
    struct zf_store *st;
    char path[8];
    bool lists;
    struct zf_source *src;
    const struct zf_entry *entry;
    struct zf_err err;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    size_t n;

    if (!w->lists)
        w->src = zf_store_open(w->st, w->path, &w->err);
    else if (!zf_store_list(w->st, w->path, &w->entry, &n, &w->err))
        w->entry = NULL;
    return NULL;
}

static void run(struct worker *w, struct zf_store *st, bool lists, bool apart)
{
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.st = st, .lists = lists};
        (void)snprintf(w[i].path, sizeof w[i].path, "f%d", apart ? i : 0);
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
}

static void several_files_are_opened_at_once(void **state)
{
    struct worker w[THREADS];
    struct kind k = kind_new(THREADS, 0);
    zf_auto(store) struct zf_store *st = store_of(&k);

    (void)state;
    run(w, st, false, true);
    assert_int_equal(k.opened, THREADS);
    for (int i = 0; i < THREADS; i++) {
        assert_ok(w[i].src, &w[i].err);
        zf_source_unref(&w[i].src);
    }
}

static void several_directories_are_listed_at_once(void **state)
{
    struct worker w[THREADS];
    struct kind k = kind_new(THREADS, 0);
    zf_auto(store) struct zf_store *st = store_of(&k);

    (void)state;
    run(w, st, true, true);
    assert_int_equal(k.opened, THREADS);
    for (int i = 0; i < THREADS; i++) {
        assert_ok(w[i].entry, &w[i].err);
        assert_string_equal(w[i].entry->name, w[i].path);
    }
}

static void one_file_is_opened_once(void **state)
{
    struct worker w[THREADS];
    struct kind k = kind_new(1, 0);
    zf_auto(store) struct zf_store *st = store_of(&k);

    (void)state;
    run(w, st, false, false);
    assert_int_equal(k.opened, 1);
    for (int i = 0; i < THREADS; i++) {
        assert_ok(w[i].src, &w[i].err);
        assert_ptr_equal(w[i].src, w[0].src);
    }
    for (int i = 0; i < THREADS; i++)
        zf_source_unref(&w[i].src);
}

static void a_failure_is_for_all_until_it_is_settled(void **state)
{
    struct worker w[THREADS];
    struct kind k = kind_new(1, 3);
    zf_auto(store) struct zf_store *st = store_of(&k);
    struct zf_err err;

    (void)state;
    for (int i = 1; i <= 3; i++) {
        run(w, st, false, false);
        assert_int_equal(k.opened, i);
        assert_int_equal(zf_store_failures(st), i * THREADS);
        for (int t = 0; t < THREADS; t++) {
            assert_null(w[t].src);
            assert_err(&w[t].err, ZF_E_IO, ZF_OFF_NONE, "not yet");
            assert_string_equal(w[t].err.path, "made/f0");
        }
        assert_true(zf_store_failure(st, 0, 0, &err));
        assert_string_equal(err.path, "made/f0");
        assert_false(zf_store_failure(st, 0, 1, &err));
        zf_store_forget_failures(st, 0);
        assert_false(zf_store_failure(st, 0, 0, &err));
    }
    run(w, st, false, false);
    assert_int_equal(k.opened, 4);
    assert_int_equal(k.most, 1);
    for (int t = 0; t < THREADS; t++) {
        assert_ok(w[t].src, &w[t].err);
        zf_source_unref(&w[t].src);
    }
}

static void add_path(void *ctx, const struct zf_file_stats *s)
{
    strcat(strcat(ctx, s->path), " ");
    assert_null(s->id);
    assert_int_equal(s->size, 3);
}

static void files_are_told_in_the_order_of_their_paths(void **state)
{
    struct kind k = kind_new(1, 0);
    zf_auto(store) struct zf_store *st = store_of(&k);
    const char *path[] = {"b", "d/a", "a", "c"};
    char all[64] = "";
    struct zf_err err;

    (void)state;
    for (int i = 0; i < 4; i++) {
        zf_auto(source) struct zf_source *src = zf_store_open(st, path[i], &err);
        assert_ok(src, &err);
    }
    zf_store_stats(st, add_path, all);
    assert_string_equal(all, "a b c d/a ");
    assert_ok(zf_store_unchanged(st, &err), &err);
}

/* Of a thousand ranks that cannot be read not all are named, but their number is known. */
static void failures_are_counted_beyond_those_that_are_kept(void **state)
{
    enum { FILES = 300 };
    struct kind k = kind_new(1, UINT_MAX);
    zf_auto(store) struct zf_store *st = store_of(&k);
    struct zf_err err;
    size_t named = 0;

    (void)state;
    for (int i = 0; i < 2 * FILES; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "g%d", i % FILES);
        assert_null(zf_store_open(st, name, &err));
    }
    while (zf_store_failure(st, 0, named, &err))
        named++;
    assert_in_range(named, 1, FILES - 1);
    assert_int_equal(zf_store_failures_since(st, 0), FILES);
    const uint64_t since = zf_store_failures(st);
    assert_int_equal(zf_store_failures_since(st, since), 0);
    assert_null(zf_store_open(st, "g0", &err));
    assert_null(zf_store_open(st, "g299", &err));
    assert_null(zf_store_open(st, "h", &err));
    assert_int_equal(zf_store_failures_since(st, since), 3);
    zf_store_forget_failures(st, since);
    assert_int_equal(zf_store_failures_since(st, 0), FILES);
    zf_store_forget_failures(st, 0);
    assert_int_equal(zf_store_failures_since(st, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_files_are_opened_at_once),
        cmocka_unit_test(several_directories_are_listed_at_once),
        cmocka_unit_test(one_file_is_opened_once),
        cmocka_unit_test(a_failure_is_for_all_until_it_is_settled),
        cmocka_unit_test(failures_are_counted_beyond_those_that_are_kept),
        cmocka_unit_test(files_are_told_in_the_order_of_their_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
