/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of kept models, and a model there and back. */
#include "support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec/torch/file.h"
#include "keep/keep.h"
#include "support/broken_io.h"
#include "support/tight_arena.h"
#include "support/same_model.h"

static char dir[] = "/tmp/zf-keep-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(dir));
    return 0;
}

static int drop_dir(void **state)
{
    uint64_t bytes;
    struct zf_err err;

    (void)state;
    (void)!zf_keep_clear(dir, &bytes, &err);
    return rmdir(dir);
}

static void put(int fd, const char *name, size_t n, time_t used)
{
    static const char zeros[1000];
    const struct dir_part part = {zeros, n};
    struct zf_err err;

    assert_ok(dir_write(fd, name, &part, 1, &err), &err);
    assert_int_equal(utimensat(fd, name, (struct timespec[]){{used, 0}, {used, 0}}, 0), 0);
}

#define A "00000000000000000000000000000001.model"
#define B "00000000000000000000000000000002.model"
#define C "00000000000000000000000000000003.model"
#define D "00000000000000000000000000000004.model" /* a directory */

static void the_longest_unused_go_first(void **state)
{
    struct zf_err err;
    int fd = dir_open(dir, true, &err);
    uint64_t n;

    (void)state;
    assert_true(fd >= 0);
    put(fd, A, 100, 2000000000);
    put(fd, B, 100, 1000000000);
    put(fd, C, 100, 1500000000);
    put(fd, ".new-1-ff", 7, 1000000000);      /* of a process that was killed */
    put(fd, ".new-2-ff", 7, time(NULL) - 60); /* of one that is at work */
    put(fd, ".newer", 7, 1000000000);
    put(fd, "mine.model", 1000, 1000000000);
    assert_int_equal(mkdirat(fd, D, 0700), 0);
    dir_trim(fd, 300);
    assert_int_equal(faccessat(fd, B, F_OK, 0), 0);
    assert_int_not_equal(faccessat(fd, ".new-1-ff", F_OK, 0), 0);
    assert_int_equal(unlinkat(fd, ".new-2-ff", 0), 0);
    assert_int_equal(unlinkat(fd, ".newer", 0), 0);
    dir_trim(fd, 250);
    assert_int_not_equal(faccessat(fd, B, F_OK, 0), 0);
    uint8_t *p = dir_read(fd, C, 100, &n, &err); /* which is used now */
    assert_true(p && n == 100);
    free(p);
    dir_trim(fd, 150);
    /* A is of the year 2033 */
    assert_int_not_equal(faccessat(fd, C, F_OK, 0), 0);
    assert_int_equal(faccessat(fd, A, F_OK, 0), 0);
    assert_null(dir_read(fd, A, 99, &n, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "too large");
    assert_int_equal(faccessat(fd, "mine.model", F_OK, 0), 0);
    assert_int_equal(unlinkat(fd, "mine.model", 0), 0);
    assert_int_equal(unlinkat(fd, D, AT_REMOVEDIR), 0);
    (void)close(fd);
}

/* Sixteen letters; eight in a stored block of deflate (RFC 1951); eight in a raw block of zstd (RFC 8878). */
static const unsigned char a_file[] = "0123456789abcdef"
                                      "\x01\x08\x00\xf7\xff"
                                      "deflated"
                                      "\x28\xb5\x2f\xfd\x20\x08\x41\x00\x00"
                                      "of zstd.";
enum { DEFLATE_AT = 16, ZSTD_AT = DEFLATE_AT + 5 + 8, FILE_END = ZSTD_AT + 9 + 8 };

static struct zf_store *a_store(const struct zf_limits *lim, const char *at)
{
    struct zf_err err;
    char path[100];

    (void)snprintf(path, sizeof path, "%s/d", at);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/d/a.bin", at);
    FILE *f = fopen(path, "w");
    assert_true(f && fwrite(a_file, sizeof a_file, 1, f) == 1 && fclose(f) == 0);
    struct zf_store *st = zf_store_dir(at, lim, &err);
    assert_non_null(st);
    return st;
}

static void drop_store(const char *at)
{
    char path[100];

    (void)snprintf(path, sizeof path, "%s/d/a.bin", at);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/d", at);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(at), 0);
}

/* Until the clock that dates files has gone on for certain. */
static void grow_old(const char *at)
{
    struct timespec now;
    struct stat st;
    char path[100];

    (void)snprintf(path, sizeof path, "%s/d/a.bin", at);
    assert_int_equal(stat(path, &st), 0);
    do {
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    } while (now.tv_sec < st.st_ctim.tv_sec + 3 &&
             (now.tv_sec - st.st_ctim.tv_sec) * 1000 +
                     (now.tv_nsec - st.st_ctim.tv_nsec) / 1000000 <
                 (st.st_ctim.tv_nsec ? 50 : 2500));
}

/* What fails while a model is noted, if anything does; and how often the heap was asked. */
static const struct broken_plan *noting;
static long asked;

static void add_floats(struct zf_build *b, const char *name, struct zf_source *src)
{
    struct zf_err err;
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", name, (uint32_t)strlen(name)},
                                         (struct zf_type){ZF_DT_F32, 1, (uint64_t[]){2}}, &err);

    assert_ok(d && zf_draft_flat(d, 0, 2, (struct zf_from){.src = src}, &err), &err);
}

/* A model of windows on a file, swapped and not, of what is packed there, and of memory. */
static struct zf_checkpoint *a_model(struct zf_store *st, struct zf_keep *k,
                                     const struct zf_limits *lim)
{
    struct zf_err err;
    struct zf_build *b = zf_build_new(st, lim, false, &err);
    zf_auto(source) struct zf_source *file = zf_store_open(st, "d/a.bin", &err);
    zf_auto(source) struct zf_source *part = file ? zf_window_new(file, 2, 8, "part", &err) : NULL;
    zf_auto(source) struct zf_source *swapped = part ? zf_swap_new(part, 4, &err) : NULL;
    zf_auto(source) struct zf_source *conj =
        part ? torch_flip_new(part, ZF_DT_C64, ZF_TORCH_FLIP_IMAG, &err) : NULL;
    zf_auto(source) struct zf_source *deflate =
        zf_window_new(file, DEFLATE_AT, ZSTD_AT - DEFLATE_AT, "deflate", &err);
    zf_auto(source) struct zf_source *inflated = zf_inflate_new(deflate, 8, 0xe8550e28, lim, &err);
    zf_auto(source) struct zf_source *zstd =
        zf_window_new(file, ZSTD_AT, FILE_END - ZSTD_AT, "zstd", &err);
    zf_auto(source) struct zf_source *unpacked = zf_zstd_new(zstd, 8, lim, &err);
    zf_auto(source) struct zf_source *mem = zf_mem_new("mem", "memories", 8, false, &err);

    assert_true(b && swapped && conj && inflated && mem);
    add_floats(b, "y", swapped);
    add_floats(b, "conj", conj);
    add_floats(b, "x", part);
    add_floats(b, "inflated", inflated);
    add_floats(b, "mem", mem);
    if (unpacked)
        add_floats(b, "unpacked", unpacked);
    else
        assert_int_equal(err.code, ZF_E_UNSUPPORTED); /* it was built without zstd */
    assert_false(zf_store_has(st, "d/latest", ZF_ENTRY_FILE));
    broken_begin(noting);
    zf_keep_sealing(k, b, "test", "why");
    (void)broken_end();
    asked = broken_heap_calls();
    return zf_build_seal(b, "test", "why", &err);
}

/* The tensor's bytes are those of the file that the test wrote. */
static void has_bytes(const struct zf_checkpoint *c, const char *name, const char *want)
{
    const struct zf_tensor *t = zf_set_find(zf_checkpoint_set(c, ""), name, strlen(name));
    struct zf_err err;
    char got[9] = "";

    assert_non_null(t);
    assert_ok(zf_map_read(t->data, got, 8, 0, &err), &err);
    assert_string_equal(got, want);
}

static void a_model_comes_back(void **state)
{
    const struct zf_limits lim = zf_limits_default();
    char at[] = "/tmp/zf-kept-XXXXXX";
    struct zf_err err;

    (void)state;
    assert_non_null(mkdtemp(at));
    zf_auto(keep) struct zf_keep *early = zf_keep_new(dir, "early\n", 1 << 20, &lim, &err);
    zf_auto(store) struct zf_store *st = a_store(&lim, at);
    assert_non_null(early);
    grow_old(at);
    zf_auto(keep) struct zf_keep *k = zf_keep_new(dir, "key\n", 1 << 20, &lim, &err);
    assert_non_null(k);
    assert_null(zf_keep_load(k, st, &err));
    assert_int_equal(err.code, ZF_E_NOENT);
    zf_auto(checkpoint) struct zf_checkpoint *c = a_model(st, k, &lim);
    assert_non_null(c);
    assert_int_equal(c->kept_as[0], 0);
    assert_ok(zf_keep_put(k, st, c, &err), &err);
    zf_auto(checkpoint) struct zf_checkpoint *d = zf_keep_load(k, st, &err);
    assert_ok(d, &err);
    assert_true(d->kept && !c->kept && !d->kept_note);
    assert_true(c->kept_as[0] != 0 && memcmp(c->kept_as, d->kept_as, sizeof c->kept_as) == 0);
    same_model(c, d);
    has_bytes(d, "x", "23456789");
    has_bytes(d, "y", "54329876");
    has_bytes(d, "conj", "2345678\xb9"); /* '9' with its sign bit turned */
    has_bytes(d, "inflated", "deflated");
    has_bytes(d, "mem", "memories");
    if (c->set[0].n == 6)
        has_bytes(d, "unpacked", "of zstd.");
    /* What is read right after it was written may be written once more at the same time. */
    zf_auto(checkpoint) struct zf_checkpoint *young = a_model(st, early, &lim);
    assert_true(young && !zf_keep_put(early, st, young, &err));
    assert_err(&err, ZF_E_STALE, ZF_OFF_NONE, "it changed only a moment ago");
    zf_auto(keep) struct zf_keep *small = zf_keep_new(dir, "small\n", 10, &lim, &err);
    assert_non_null(small);
    zf_auto(checkpoint) struct zf_checkpoint *e = a_model(st, small, &lim);
    assert_true(e && !zf_keep_put(small, st, e, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "larger");
    drop_store(at);
}

/* Whatever byte of its head or of its end another one is, it is not believed; and it is again, put right. */
static void a_damaged_byte_is_noticed(void **state)
{
    const struct zf_limits lim = zf_limits_default();
    char at[] = "/tmp/zf-kept-XXXXXX", own[] = "/tmp/zf-keep-XXXXXX",
         path[sizeof own + 1 + sizeof A];
    struct zf_err err;
    uint64_t bytes;
    struct stat st;

    (void)state;
    assert_non_null(mkdtemp(at));
    assert_non_null(mkdtemp(own));
    zf_auto(store) struct zf_store *store = a_store(&lim, at);
    grow_old(at);
    zf_auto(keep) struct zf_keep *k = zf_keep_new(own, "key\n", 1 << 20, &lim, &err);
    assert_ok(k, &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = a_model(store, k, &lim);
    assert_true(c && zf_keep_put(k, store, c, &err));
    assert_ok(zf_keep_note(k, c, "a note", &err), &err);
    (void)snprintf(path, sizeof path, "%s/%s", own, k->name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0 && st.st_size > KEEP_KEY_AT + 20);
    for (off_t i = 0; i < st.st_size; i = i == KEEP_KEY_AT + 10 ? st.st_size - 10 : i + 1) {
        unsigned char was, other;

        assert_int_equal(pread(fd, &was, 1, i), 1);
        other = was ^ 1;
        assert_int_equal(pwrite(fd, &other, 1, i), 1);
        assert_null(zf_keep_load(k, store, &err));
        assert_int_equal(pwrite(fd, &was, 1, i), 1);
        zf_auto(checkpoint) struct zf_checkpoint *again = zf_keep_load(k, store, &err);
        assert_ok(again, &err);
        assert_string_equal(again->kept_note, "a note");
    }
    (void)close(fd);
    assert_ok(zf_keep_clear(own, &bytes, &err), &err);
    assert_int_equal(rmdir(own), 0);
    drop_store(at);
}

/* What a body of a kept model, with a head that fits it, is loaded as. */
static struct zf_checkpoint *load_body(struct zf_keep *k, struct zf_store *st, const uint8_t *body,
                                       size_t n, struct zf_err *err)
{
    zf_auto(out) struct zf_out all = {0};

    keep_head(&all, body, n);
    zf_out_add(&all, body, n);
    assert_int_equal(all.n, KEEP_HEAD + n);
    memset(err, 0, sizeof *err);
    struct zf_checkpoint *c = keep_load_bytes(k, st, all.p, all.n, err);
    assert_true(c || err->code != ZF_OK);
    return c;
}

static bool has_note(struct zf_keep *k, struct zf_store *st, const char *want)
{
    struct zf_err err;
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_keep_load(k, st, &err);

    assert_ok(c, &err);
    return want ? c->kept_note && strcmp(c->kept_note, want) == 0 : !c->kept_note;
}

/* A note belongs to one model: it can be another one, and goes when the model is cached anew or was never this one. */
static void a_note_belongs_to_its_model(void **state)
{
    const struct zf_limits lim = zf_limits_default();
    char at[] = "/tmp/zf-kept-XXXXXX", own[] = "/tmp/zf-keep-XXXXXX";
    struct zf_err err;
    uint64_t bytes;

    (void)state;
    assert_non_null(mkdtemp(at));
    assert_non_null(mkdtemp(own));
    zf_auto(store) struct zf_store *st = a_store(&lim, at);
    grow_old(at);
    zf_auto(keep) struct zf_keep *k = zf_keep_new(own, "key\n", 4 << 20, &lim, &err);
    assert_ok(k, &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = a_model(st, k, &lim);
    assert_true(c && !zf_keep_note(k, c, "too early", &err));
    assert_int_equal(err.code, ZF_E_NOENT);
    assert_ok(zf_keep_put(k, st, c, &err), &err);
    assert_true(has_note(k, st, NULL));
    assert_ok(zf_keep_note(k, c, "one", &err), &err);
    assert_ok(zf_keep_note(k, c, "another", &err), &err);
    assert_true(has_note(k, st, "another"));
    zf_auto(mem) char *large = calloc(1, KEEP_NOTE + 2);
    assert_non_null(large);
    memset(large, 'x', KEEP_NOTE + 1);
    assert_false(zf_keep_note(k, c, large, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "the note has more than 1048576 bytes");
    large[KEEP_NOTE] = '\0';
    assert_ok(zf_keep_note(k, c, large, &err), &err);
    assert_true(has_note(k, st, large));
    c->kept_as[0]++;
    assert_false(zf_keep_note(k, c, "of another one", &err));
    assert_err(&err, ZF_E_NOENT, ZF_OFF_NONE, "replaced");
    assert_true(has_note(k, st, large));
    zf_auto(checkpoint) struct zf_checkpoint *again = a_model(st, k, &lim);
    assert_true(again && zf_keep_put(k, st, again, &err));
    assert_true(has_note(k, st, NULL));
    assert_ok(zf_keep_clear(own, &bytes, &err), &err);
    assert_int_equal(rmdir(own), 0);
    drop_store(at);
}

/* A checksum is no proof: what says anything else in its place is refused, or read without harm. */
static void whatever_it_says(void **state)
{
    const struct zf_limits lim = zf_limits_default();
    char at[] = "/tmp/zf-kept-XXXXXX";
    struct zf_err err, ignored;
    uint64_t n, bytes;

    (void)state;
    assert_non_null(mkdtemp(at));
    zf_auto(store) struct zf_store *st = a_store(&lim, at);
    grow_old(at);
    zf_auto(keep) struct zf_keep *k = zf_keep_new(dir, "key\n", 1 << 20, &lim, &err);
    assert_ok(k, &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = a_model(st, k, &lim);
    const size_t n_sources = k->sources.n;
    zf_auto(mem) uint8_t *sources = malloc(n_sources);
    assert_true(c && sources);
    memcpy(sources, k->sources.p, n_sources);
    assert_ok(zf_keep_put(k, st, c, &err), &err);
    zf_auto(mem) uint8_t *file = dir_read(k->dir, k->name, 1 << 20, &n, &err);
    assert_true(file && n > KEEP_KEY_AT);
    uint8_t *body = file + KEEP_HEAD;
    const size_t len = (size_t)n - KEEP_HEAD;
    zf_auto(checkpoint) struct zf_checkpoint *same = load_body(k, st, body, len, &err);
    assert_ok(same, &err);
    for (size_t i = 0; i < len; i++) {
        const uint8_t was = body[i], other[] = {0, was + 1, was - 1, was ^ 0x80};

        for (size_t j = 0; j < sizeof other; j++) {
            char got[8];

            body[i] = other[j];
            zf_auto(checkpoint) struct zf_checkpoint *d = load_body(k, st, body, len, &err);
            for (uint32_t t = 0; d && t < d->set[0].n; t++)
                (void)!zf_map_read(d->set[0].tensor[t].data, got, sizeof got, 0, &ignored);
        }
        body[i] = was;
    }
    /* The first source is the first file: 0 0. */
    uint8_t *first = memmem(body, len, sources, n_sources);
    assert_true(first && first[0] == 0 && first[1] == 0);
    first[1] = 1;
    assert_null(load_body(k, st, body, len, &err));
    assert_err(&err, ZF_E_FORMAT, first + 2 - file, "a source of an unknown kind");
    first[1] = 0;
    first[0] = 127;
    assert_null(load_body(k, st, body, len, &err));
    assert_err(&err, ZF_E_FORMAT, first + 1 - file, "a source of an unknown kind");
    assert_ok(zf_keep_clear(dir, &bytes, &err), &err);
    drop_store(at);
}

/* Keeps the model while request `at` of noting it fails, or of writing it; 0: of neither, which counts them. */
static void keep_without_memory(const char *own, const char *at, long noted, long written,
                                long asked_out[2])
{
    const struct zf_limits lim = zf_limits_default();
    const struct broken_plan note = {.kind = BROKEN_HEAP, .at = noted},
                             write = {.kind = BROKEN_HEAP, .at = written};
    zf_auto(store) struct zf_store *st = NULL;
    struct zf_err err;
    uint64_t bytes;

    assert_ok(zf_keep_clear(own, &bytes, &err), &err);
    zf_auto(keep) struct zf_keep *k = zf_keep_new(own, "key\n", 1 << 20, &lim, &err);
    assert_ok(k, &err);
    st = zf_store_dir(at, &lim, &err);
    assert_ok(st, &err);
    noting = noted ? &note : NULL;
    zf_auto(checkpoint) struct zf_checkpoint *c = a_model(st, k, &lim);
    noting = NULL;
    assert_non_null(c);
    asked_out[0] = asked;
    broken_begin(written ? &write : NULL);
    bool ok = zf_keep_put(k, st, c, &err);
    (void)broken_end();
    asked_out[1] = broken_heap_calls();
    if (!ok) {
        assert_true(noted || written);
        assert_int_equal(err.code, ZF_E_NOMEM);
        assert_false(zf_keep_has(k));
        return;
    }
    zf_auto(checkpoint) struct zf_checkpoint *d = zf_keep_load(k, st, &err);
    assert_ok(d, &err);
    same_model(c, d);
}

/* Memory that runs out while a model is kept or comes back: it is not kept, or read, or it is the model. */
static void memory_runs_out(void **state)
{
    const struct zf_limits lim = zf_limits_default();
    char at[] = "/tmp/zf-kept-XXXXXX", own[] = "/tmp/zf-keep-XXXXXX";
    long n[2], ignored[2];
    struct zf_err err;
    uint64_t bytes;

    (void)state;
    if (!broken_has_heap())
        skip();
    assert_non_null(mkdtemp(at));
    assert_non_null(mkdtemp(own));
    zf_auto(store) struct zf_store *st = a_store(&lim, at);
    grow_old(at);
    keep_without_memory(own, at, 0, 0, n);
    assert_true(n[0] > 0 && n[1] > 0);
    for (long i = 1; i <= n[0]; i++)
        keep_without_memory(own, at, i, 0, ignored);
    for (long i = 1; i <= n[1]; i++)
        keep_without_memory(own, at, 0, i, ignored);
    keep_without_memory(own, at, 0, 0, n);
    zf_auto(keep) struct zf_keep *k = zf_keep_new(own, "key\n", 1 << 20, &lim, &err);
    assert_ok(k, &err);
    zf_auto(checkpoint) struct zf_checkpoint *whole = zf_keep_load(k, st, &err);
    assert_ok(whole, &err);
    struct broken_plan plan = {.kind = BROKEN_HEAP};
    for (long calls = 1; plan.at < calls; plan.at++) {
        zf_auto(store) struct zf_store *fresh = zf_store_dir(at, &lim, &err);

        assert_ok(fresh, &err);
        broken_begin(plan.at ? &plan : NULL);
        zf_auto(checkpoint) struct zf_checkpoint *c = zf_keep_load(k, fresh, &err);
        (void)broken_end();
        calls = plan.at ? calls : broken_heap_calls() + 1;
        if (c)
            same_model(whole, c);
        else if (err.code != ZF_E_NOMEM)
            fail_msg("request %ld: %s", plan.at, err.msg);
    }
    assert_ok(zf_keep_clear(own, &bytes, &err), &err);
    assert_int_equal(rmdir(own), 0);
    drop_store(at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_unused_go_first),
        cmocka_unit_test(a_model_comes_back),
        cmocka_unit_test(a_damaged_byte_is_noticed),
        cmocka_unit_test(a_note_belongs_to_its_model),
        cmocka_unit_test(whatever_it_says),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
