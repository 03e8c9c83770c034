/* SPDX-License-Identifier: Apache-2.0 */
/* The saves of -o all_tags: what is asked of one that is open; one that cannot be opened, and what takes its place; that
 * memory that runs out is said to be that. */
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <zf/overlay/runs.h>

#include "overlay/save.h"
#include "support/broken_io.h"
#include "unit/source/scratch.h"
#include "unit/view/made.h"

static struct zf_limits lim;

/* The clocks of this program: as much later than the real ones.  A file that was made just now is not being written
 * any more five seconds later. */
static time_t later = 5;

int clock_gettime(clockid_t which, struct timespec *out)
{
    long r = syscall(SYS_clock_gettime, which, out);

    out->tv_sec += later;
    return (int)r;
}

time_t time(time_t *out)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

static char dir[64];
static FILE *nowhere; /* what is logged */
static unsigned tried;

static struct zf_tree *no_tree(void *ctx, const char *run, const char *tag, uint16_t *withheld_out,
                               struct zf_err *why)
{
    (void)ctx, (void)run, (void)withheld_out;
    tried++;
    (void)zf_fail(why, ZF_E_FORMAT, ZF_OFF_NONE, "half of it is there");
    (void)zf_err_in(why, "%s", tag);
    return NULL;
}

static uint16_t nothing_withheld(void *ctx, const char *path)
{
    (void)ctx, (void)path;
    return 0;
}

static const struct zf_run_opts opts = {.lim = &lim, .open = no_tree, .withheld = nothing_withheld};

/* A run of two saves, as far as their names and one file each tell. */
static int setup(void **state)
{
    static const char *const tag[] = {"global_step1", "global_step2"};
    char path[200];

    (void)state;
    lim = zf_limits_default();
    strcpy(dir, "/tmp/zf-save-XXXXXX");
    nowhere = fopen("/dev/null", "w");
    if (!nowhere || !mkdtemp(dir))
        return -1;
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, tag[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        (void)snprintf(path, sizeof path, "%s/%s/mp_rank_00_model_states.pt", dir, tag[i]);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fclose(f), 0);
    }
    return 0;
}

static int teardown(void **state)
{
    char cmd[100];

    (void)state;
    (void)snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
    return fclose(nowhere) || system(cmd);
}

static struct zf_log *quiet_log(void)
{
    struct zf_log *log = zf_log_new(nowhere, &err);

    assert_ok(log, &err);
    return log;
}

static void its_place_is_taken(void **state)
{
    zf_auto(log) struct zf_log *log = quiet_log();
    struct save *s = save_new(dir, "global_step1", &opts, log, &err);
    struct zf_stat st;
    uint64_t files = 7, bytes = 7, up;
    size_t n = 7;
    char name[256], byte;

    (void)state;
    tried = 0;
    assert_ok(s, &err);
    assert_null(save_opened(s));
    struct zf_tree *t = save_tree(s);
    assert_non_null(t);
    assert_null(save_opened(s));
    assert_true(t->ops->stat(t, ZF_TREE_ROOT, &st));
    assert_int_equal(st.ino, ZF_TREE_ROOT);
    assert_int_equal(st.kind, ZF_NODE_DIR);
    assert_int_equal(st.nlink, 2);
    assert_true(st.live); /* it may be there at the next look */
    assert_false(t->ops->stat(t, 5, &st));
    assert_false(t->ops->lookup(t, ZF_TREE_ROOT, "model.safetensors", &st));
    assert_false(t->ops->entry(t, ZF_TREE_ROOT, 0, name, &st));
    assert_true(t->ops->parent(t, ZF_TREE_ROOT, &up));
    assert_int_equal(up, ZF_TREE_ROOT);
    t->ops->totals(t, &files, &bytes);
    assert_int_equal(files, 0);
    assert_int_equal(bytes, 0);
    assert_false(t->ops->xattr(t, 5, 0, &(struct zf_xattr){0}));
    assert_false(t->ops->read(t, 5, &byte, 1, 0, &n, &err));
    assert_int_equal(err.code, ZF_E_STALE);
    assert_int_equal(n, 0);
    /* Listing says why, and nobody looks again so soon. */
    assert_false(save_enter(s, &err));
    assert_int_equal(err.code, ZF_E_IO);
    assert_string_equal(err.msg, "half of it is there");
    assert_string_equal(err.path, "global_step1");
    assert_int_equal(tried, 1);
    save_free(s);
}

/* ---- one that is open ------------------------------------------------------------------------- */

/* Bytes of which somebody wants some. */
static struct {
    unsigned calls;
    uint64_t off, n;
    enum zf_prefetch how;
} wanted;

static bool letters_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                          struct zf_err *why)
{
    (void)s, (void)why;
    memcpy(buf, "abcdefgh" + off, n);
    return true;
}

static void letters_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_prefetch how)
{
    (void)s;
    wanted.calls++;
    wanted.off = off;
    wanted.n = n;
    wanted.how = how;
}

static long letters_alive;

static void letters_fini(struct zf_source *s)
{
    letters_alive--;
    zf_source_fini(s);
    free(s);
}

static const struct zf_source_ops letters_ops = {
    .kind = "letters", .pread = letters_pread, .want = letters_want, .fini = letters_fini};

/* A tensor w of eight bytes. */
static struct zf_tree *letters_tree(void *ctx, const char *run, const char *tag,
                                    uint16_t *withheld_out, struct zf_err *why)
{
    const uint64_t n = 8;
    struct zf_build *b = made_build(false);
    zf_auto(source) struct zf_source *s = calloc(1, sizeof *s);
    struct zf_draft *d =
        zf_build_tensor(b, (struct zf_spot){"", "w", 1}, (struct zf_type){ZF_DT_U8, 1, &n}, why);

    (void)ctx, (void)run, (void)tag, (void)withheld_out;
    assert_ok(s && zf_source_init(s, &letters_ops, "f", n, why), why);
    letters_alive++;
    assert_ok(d && zf_draft_flat(d, 0, n, (struct zf_from){.src = s}, why), why);
    return made_tree(b, 0, NULL);
}

/* The text of a file of the tree. */
static void text_of(struct zf_tree *t, const char *path, char text[400])
{
    struct zf_stat st;
    size_t n;

    assert_true(zf_tree_walk(t, path, &st));
    assert_ok(t->ops->read(t, st.ino, text, 399, 0, &n, &err), &err);
    text[n] = '\0';
}

static void one_that_is_open_is_asked(void **state)
{
    static const struct zf_run_opts good = {
        .lim = &lim, .open = letters_tree, .withheld = nothing_withheld};
    zf_auto(log) struct zf_log *log = quiet_log();
    zf_auto(tree) struct zf_tree *t = zf_runs_tree(dir, &good, log, &err);
    char text[400], value[100];
    struct zf_xattr x = {.value = value, .cap = sizeof value};
    struct zf_stat st;

    (void)state;
    assert_ok(t, &err);
    text_of(t, ".zerofs/stats.json", text);
    assert_non_null(strstr(text, "\"open_files\": 0"));
    text_of(t, "global_step1/w.u8", text);
    assert_string_equal(text, "abcdefgh");
    text_of(t, ".zerofs/stats.json", text);
    assert_null(strstr(text, "\"open_files\": 0"));
    assert_non_null(strstr(text, "zerofs.run_stats/1"));
    assert_true(zf_tree_walk(t, "global_step1/w.u8", &st));
    t->ops->want(t, st.ino, 3, 4, ZF_PREFETCH_KERNEL);
    assert_int_equal(wanted.calls, 1);
    assert_int_equal(wanted.how, ZF_PREFETCH_KERNEL);
    assert_int_equal(wanted.off, 3);
    assert_int_equal(wanted.n, 4);
    bool dtype = false;
    for (size_t i = 0; t->ops->xattr(t, st.ino, i, &x); i++) {
        dtype = dtype || (strcmp(x.name, "user.zerofs.dtype") == 0 && x.len == 2 &&
                          memcmp(value, "u8", 2) == 0);
    }
    assert_true(dtype);
    struct zf_stat run, below;
    uint64_t up = 0;

    assert_true(zf_tree_walk(t, "global_step1", &run) &&
                zf_tree_walk(t, "global_step1/npy", &below));
    assert_true(t->ops->parent(t, below.ino, &up));
    assert_int_equal(up, run.ino);
    assert_true(t->ops->parent(t, run.ino, &up));
    assert_int_equal(up, ZF_TREE_ROOT);
    assert_true(t->ops->parent(t, ZF_TREE_ROOT, &up));
    assert_int_equal(up, ZF_TREE_ROOT);
    /* Of the root's own and of no save there is none. */
    assert_false(t->ops->xattr(t, ZF_TREE_ROOT, 0, &x));
    t->ops->want(t, ZF_TREE_ROOT, 0, 1, ZF_PREFETCH_ALL);
    t->ops->want(t, st.ino + (9ull << 52), 0, 1, ZF_PREFETCH_ALL);
    assert_int_equal(wanted.calls, 1);
}

/* In place of one that cannot be opened its control files are: why, and that nothing is read. */
static void one_that_is_refused_is_asked(void **state)
{
    zf_auto(log) struct zf_log *log = quiet_log();
    zf_auto(tree) struct zf_tree *t = zf_runs_tree(dir, &opts, log, &err);
    char text[400];

    (void)state;
    assert_ok(t, &err);
    text_of(t, "global_step1/.zerofs/index.json", text);
    assert_non_null(strstr(text, "\"zerofs.error/1\""));
    assert_non_null(strstr(text, "\"global_step1\""));
    assert_non_null(strstr(text, "half of it is there"));
    text_of(t, "global_step1/.zerofs/log", text);
    assert_non_null(strstr(text, "half of it is there"));
    text_of(t, "global_step1/.zerofs/stats.json", text);
    assert_non_null(strstr(text, "\"zerofs.stats/1\""));
    assert_non_null(strstr(text, "\"sources\": []"));
}

static const struct zf_run_opts letters_opts = {
    .lim = &lim, .open = letters_tree, .withheld = nothing_withheld};

static void put(const char *run, const char *save, const char *text)
{
    char path[200];

    (void)snprintf(path, sizeof path, "%s/mp_rank_00_model_states.pt", save);
    scratch_file(run, path, text);
}

static void prune(const char *run, const char *save)
{
    char path[300];

    (void)snprintf(path, sizeof path, "%s/%s/mp_rank_00_model_states.pt", run, save);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/%s", run, save);
    assert_int_equal(rmdir(path), 0);
}

/* Its bytes are read, or its inode's answer is that it is stale. */
static void reads(struct zf_tree *t, uint64_t ino, bool well)
{
    struct zf_stat st;
    char byte;
    size_t n;

    assert_int_equal(t->ops->read(t, ino, &byte, 1, 0, &n, &err), well);
    assert_int_equal(t->ops->stat(t, ino, &st), well);
    if (!well)
        assert_int_equal(err.code, ZF_E_STALE);
}

/* What was changed in the last moments is not opened, and later it is, without a new mount. */
static void one_that_is_written_waits(void **state)
{
    zf_auto(log) struct zf_log *log = quiet_log();
    struct zf_stat st, w;
    char text[400];

    put(*state, "global_step1", "a");
    later = 0;
    zf_auto(tree) struct zf_tree *t = zf_runs_tree(*state, &letters_opts, log, &err);
    assert_ok(t, &err);
    assert_true(zf_tree_walk(t, "global_step1", &st));
    assert_false(t->ops->enter(t, st.ino, &err));
    assert_err(&err, ZF_E_IO, ZF_OFF_NONE, "it is being written");
    assert_string_equal(err.path, "global_step1");
    assert_false(zf_tree_walk(t, "global_step1/w.u8", &w));
    later = 5;
    text_of(t, "global_step1/w.u8", text);
    assert_string_equal(text, "abcdefgh");
    assert_true(zf_tree_walk(t, "global_step1", &w) && w.ino == st.ino);
}

/* A save in which something changed, or another directory in its place, is another save; one that is gone is. */
static void one_that_changes_is_another(void **state)
{
    zf_auto(log) struct zf_log *log = quiet_log();
    struct zf_stat st, w, again;
    char from[200], to[200], name[256];

    put(*state, "global_step1", "a");
    put(*state, "global_step2", "a");
    zf_auto(tree) struct zf_tree *t = zf_runs_tree(*state, &letters_opts, log, &err);
    assert_ok(t, &err);
    assert_true(zf_tree_walk(t, "global_step1", &st) && zf_tree_walk(t, "global_step1/w.u8", &w));
    reads(t, w.ino, true);
    put(*state, "global_step1", "ab");
    later += 2;
    assert_true(zf_tree_walk(t, "global_step1", &again) && again.ino != st.ino);
    reads(t, w.ino, false);
    assert_false(t->ops->enter(t, st.ino, &err));
    assert_int_equal(err.code, ZF_E_STALE);
    later += 5;
    assert_true(zf_tree_walk(t, "global_step1/w.u8", &w));
    reads(t, w.ino, true);

    (void)snprintf(from, sizeof from, "%s/global_step2", (char *)*state);
    (void)snprintf(to, sizeof to, "%s/global_step1", (char *)*state);
    prune(*state, "global_step1");
    assert_int_equal(rename(from, to), 0);
    later += 2;
    assert_true(zf_tree_walk(t, "global_step1", &st) && st.ino != again.ino);
    assert_false(zf_tree_walk(t, "global_step2", &again));
    reads(t, w.ino, false);
    assert_true(t->ops->entry(t, ZF_TREE_ROOT, 0, name, &again));
    assert_string_equal(name, "global_step1");
    assert_false(t->ops->entry(t, ZF_TREE_ROOT, 1, name, &again));
}

/* Saves that come and go: their numbers are never used again, and what they held is given back. */
static void many_saves_come_and_go(void **state)
{
    enum { ROUNDS = 32, SAVES = 100 };
    zf_auto(log) struct zf_log *log = quiet_log();
    static uint64_t seen[ROUNDS * SAVES];
    struct zf_stat st, w;
    char name[64], path[80];
    const long before = letters_alive;
    size_t n = 0;

    put(*state, "global_step0", "a");
    zf_auto(tree) struct zf_tree *t = zf_runs_tree(*state, &letters_opts, log, &err);
    assert_ok(t, &err);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 1; i <= SAVES; i++) {
            (void)snprintf(name, sizeof name, "global_step%d", r * SAVES + i);
            put(*state, name, "a");
        }
        later += 5;
        for (int i = 1; i <= SAVES; i++) {
            (void)snprintf(path, sizeof path, "global_step%d/w.u8", r * SAVES + i);
            assert_true(zf_tree_walk(t, path, &w));
            reads(t, w.ino, true);
            assert_true(n == 0 || w.ino > seen[n - 1]);
            seen[n++] = w.ino;
        }
        assert_true(t->ops->stat(t, ZF_TREE_ROOT, &st) && st.nlink == 3 + SAVES);
        assert_int_equal(letters_alive - before, SAVES);
        for (int i = 1; i <= SAVES; i++) {
            (void)snprintf(name, sizeof name, "global_step%d", r * SAVES + i);
            prune(*state, name);
        }
        later += 2;
        assert_false(t->ops->lookup(t, ZF_TREE_ROOT, name, &st));
        assert_int_equal(letters_alive, before);
        reads(t, w.ino, false);
    }
    assert_true(t->ops->stat(t, ZF_TREE_ROOT, &st) && st.nlink == 3);
    scratch_file(*state, "latest", "global_step0");
    later += 2;
    assert_true(t->ops->lookup(t, ZF_TREE_ROOT, "latest", &st));
    assert_true(t->ops->readlink(t, st.ino, path, sizeof path));
    assert_string_equal(path, "global_step0");
}

/* The run directory's storage hangs while it is listed. */
static pthread_mutex_t hung = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool waits;

static struct zf_store *hung_open(void *ctx, const char *where, const struct zf_limits *l,
                                  struct zf_err *why)
{
    (void)ctx;
    waits = true;
    (void)pthread_mutex_lock(&hung);
    (void)pthread_mutex_unlock(&hung);
    return zf_store_dir(where, l, why);
}

static void *looks(void *t)
{
    struct zf_tree *tree = t;
    struct zf_stat st;

    return tree->ops->lookup(tree, ZF_TREE_ROOT, "global_step1", &st) ? t : NULL;
}

static void reads_do_not_wait_for_the_run(void **state)
{
    static const struct zf_opener opener = {.open = hung_open};
    static const struct zf_run_opts slow = {
        .lim = &lim, .opener = &opener, .open = letters_tree, .withheld = nothing_withheld};
    zf_auto(log) struct zf_log *log = quiet_log();
    struct zf_stat w;
    pthread_t other;
    void *found;

    put(*state, "global_step1", "a");
    zf_auto(tree) struct zf_tree *t = zf_runs_tree(*state, &slow, log, &err);
    assert_ok(t, &err);
    assert_true(zf_tree_walk(t, "global_step1/w.u8", &w));
    later += 2;
    waits = false;
    assert_int_equal(pthread_mutex_lock(&hung), 0);
    assert_int_equal(pthread_create(&other, NULL, looks, t), 0);
    while (!waits)
        (void)sched_yield();
    (void)alarm(30); /* a read that waits would wait for ever */
    reads(t, w.ino, true);
    (void)alarm(0);
    assert_int_equal(pthread_mutex_unlock(&hung), 0);
    assert_int_equal(pthread_join(other, &found), 0);
    assert_ptr_equal(found, t);
}

/* ---- memory ----------------------------------------------------------------------------------- */

/* Each call of the heap fails in turn while a run is listed: either it did not matter, or the failure says so. */
static void memory_that_runs_out_is_told(void **state)
{
    zf_auto(log) struct zf_log *log = quiet_log();
    struct broken_plan plan = {.kind = BROKEN_HEAP};
    struct zf_stat st;

    (void)state;
    broken_begin(NULL);
    struct zf_tree *whole = zf_runs_tree(dir, &opts, log, &err);
    (void)broken_end();
    const long n = broken_heap_calls();
    assert_ok(whole, &err);
    zf_tree_free(whole);
    for (plan.at = 1; plan.at <= n; plan.at++) {
        zf_err_clear(&err);
        broken_begin(&plan);
        zf_auto(tree) struct zf_tree *t = zf_runs_tree(dir, &opts, log, &err);
        (void)broken_end();
        if (!t && err.code != ZF_E_NOMEM)
            fail_msg("call %ld of %ld: %s: %s", plan.at, n, err.path, err.msg);
        assert_true(!t || (t->ops->stat(t, ZF_TREE_ROOT, &st) &&
                           st.nlink == 4)); /* looks for no new ones */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_place_is_taken),
        cmocka_unit_test(one_that_is_open_is_asked),
        cmocka_unit_test(one_that_is_refused_is_asked),
        cmocka_unit_test_setup_teardown(one_that_is_written_waits, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(one_that_changes_is_another, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(many_saves_come_and_go, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(reads_do_not_wait_for_the_run, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test(memory_that_runs_out_is_told),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
