/* SPDX-License-Identifier: Apache-2.0 */
/* The computed files, through the tree that shows them. */
#include "support/unit.h"

#include <stdio.h>

#include <zf/base/name.h>

#include "made.h"

/* Every entry of a directory is found under its name, with the same inode and size. */
static uint64_t check_listing(struct zf_tree *t, uint64_t dir)
{
    char name[256];
    const char *before = NULL;
    struct zf_node_tensor x;
    struct zf_stat listed, found, again;
    uint64_t n = 0, up;
    bool files = false;

    for (; t->ops->entry(t, dir, n, name, &listed); n++) {
        if (!t->ops->lookup(t, dir, name, &found))
            fail_msg("\"%s\" is listed and not found", name);
        assert_true(t->ops->stat(t, listed.ino, &again));
        assert_int_equal(listed.ino, found.ino);
        assert_int_equal(listed.size, found.size);
        assert_int_equal(listed.kind, found.kind);
        assert_int_equal(again.size, found.size);
        assert_int_equal(again.nlink, found.nlink);
        /* Kept nodes first, then tensors in the natural order of their raw names. */
        bool computed = listed.ino >> 32 != 0;
        assert_true(computed || !files);
        files = computed;
        if (listed.nlink == 1 && zf_tree_tensor(t, listed.ino, &x)) {
            assert_true(!before || zf_name_cmp(before, strlen(before), x.tensor->name,
                                               x.tensor->name_len) < 0);
            before = x.tensor->name;
        }
        if (listed.kind == ZF_NODE_DIR) {
            assert_true(t->ops->parent(t, listed.ino, &up));
            assert_int_equal(up, dir);
            check_listing(t, listed.ino);
        }
    }
    return n;
}

static struct zf_stat walk(struct zf_tree *t, const char *path)
{
    struct zf_stat s;

    if (!zf_tree_walk(t, path, &s))
        fail_msg("%s is not there", path);
    return s;
}

static void every_listed_name_is_found(void **state)
{
    struct zf_build *b = made_build(false);
    char name[400];

    (void)state;
    for (int i = 0; i < 12; i++) {
        (void)snprintf(name, sizeof name, "layers.%d.w", i);
        made_vector(b, name, ZF_DT_F32, 3);
    }
    static const char *const odd[] = {"",         ".",     "..",        "a/b",
                                      "%41",      "A",     "new\nline", "\xff\xfe",
                                      "\xd1\x8e", "a.f32", "a.f32.f32", "~0123456789abcdef",
                                      "npy.f"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        made_vector(b, odd[i], ZF_DT_BF16, i + 1);
    /* Around the longest name, in one, two and three bytes a character of the file name. */
    for (int n = 225; n <= 260; n++) {
        memset(name, 'x', sizeof name);
        name[n] = '\0';
        made_vector(b, name, ZF_DT_F8_E4M3FNUZ, 2);
        memset(name, '\x01', (size_t)n - 200);
        name[n - 200] = '\0';
        made_vector(b, name, ZF_DT_F32, 2);
    }
    zf_auto(tree) struct zf_tree *t = made_tree(b, 0, NULL);
    assert_ok(t, &err);
    assert_true(check_listing(t, ZF_TREE_ROOT) > 80);
    assert_int_equal(walk(t, "%2Ebf16").size, 2);
    assert_int_equal(walk(t, "%2E.bf16").size, 4);
    assert_int_equal(walk(t, "a%2Fb.bf16").size, 8);
    assert_int_equal(walk(t, "a%2Fb.bf16").nlink, 1);
    assert_int_equal(walk(t, "%2541.bf16").size, 10);
    assert_int_equal(walk(t, "%FF%FE.bf16").size, 16);
    assert_int_equal(walk(t, "npy/%2Enpy").size, 128 + 4);
}

static void a_cut_name_is_found_where_it_is_the_only_one(void **state)
{
    struct zf_build *b = made_build(false);
    char name[300];

    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    made_vector(b, name, ZF_DT_F32, 3);
    zf_auto(tree) struct zf_tree *t = made_tree(b, 0, NULL);
    assert_ok(t, &err);
    check_listing(t, ZF_TREE_ROOT);
}

static bool lists(struct zf_tree *t, const char *want)
{
    char name[256];
    struct zf_stat s;

    for (uint64_t n = 0; t->ops->entry(t, ZF_TREE_ROOT, n, name, &s); n++)
        if (strcmp(name, want) == 0)
            return true;
    return false;
}

/* Whether it is listed or not, each is found. */
static void sets_beside_the_weights_are_listed_by_their_word(void **state)
{
    static const struct {
        const char *set, *dir;
        uint32_t word;
    } beside[] = {{"stacked", "stacked", ZF_SHOW_STORED},
                  {"bucket", "bucket", ZF_SHOW_STORED},
                  {"adapter", "adapter", ZF_SHOW_TRAINED},
                  {"optim/exp_avg", "optim", ZF_SHOW_OPTIM}};
    static const uint32_t words[] = {ZF_SHOW_RAW, ZF_SHOW_STORED, ZF_SHOW_TRAINED, ZF_SHOW_OPTIM};
    struct zf_limits lim = zf_limits_default();

    (void)state;
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        struct zf_build *b = made_build(false);

        made_vector(b, "w", ZF_DT_F32, 3);
        for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
            made_tensor(b, beside[i].set, "w", ZF_DT_F32, 1, &(uint64_t){3});
        struct zf_checkpoint *c = zf_build_seal(b, "made", "by a test", &err);
        assert_ok(c, &err);
        zf_auto(tree) struct zf_tree *t =
            zf_tree_new(c, &(struct zf_view_opts){.show = words[k], .lim = &lim}, &err);
        assert_ok(t, &err);
        for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
            assert_int_equal(lists(t, beside[i].dir), beside[i].word == words[k]);
            assert_int_equal(walk(t, beside[i].dir).kind, ZF_NODE_DIR);
        }
    }
}

static void other_spellings_are_not_found(void **state)
{
    static const char *const bad[] = {"w",         "w.",
                                      "w.f16",     "w.npy",
                                      "%77.f32",   "w.f32.f32",
                                      ".f32",      "W.f32",
                                      "npy/w.f32", "w.f32/x",
                                      "as/f64",    "%.f32",
                                      "%zz.f32",   "x~0000000000000000.f32"};
    struct zf_build *b = made_build(false);
    struct zf_stat s;

    (void)state;
    made_vector(b, "w", ZF_DT_F32, 3);
    zf_auto(tree) struct zf_tree *t = made_tree(b, 0, NULL);
    assert_ok(t, &err);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (zf_tree_walk(t, bad[i], &s))
            fail_msg("%s is found", bad[i]);
    assert_false(t->ops->stat(t, 0, &s));
    assert_false(t->ops->stat(t, UINT64_MAX, &s));
    assert_false(t->ops->stat(t, (uint64_t)1 << 32, &s));
    assert_false(t->ops->stat(t, (uint64_t)1 << 32 | 2, &s));
}

/* A raw name that looks like what another's cut one becomes. */
static void two_names_of_one_file_are_refused(void **state)
{
    char name[300], file[ZF_NAME_MAX + 1];
    struct zf_build *b = made_build(false);

    (void)state;
    memset(name, 'p', sizeof name);
    made_vector(b, (name[280] = '\0', name), ZF_DT_F32, 1);
    (void)zf_name_encode(file, name, 280, ".f32");
    file[strlen(file) - 4] = '\0';
    made_vector(b, file, ZF_DT_F32, 1);
    assert_null(made_tree(b, 0, NULL));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "would both be the file ppp");
}

static void a_tensor_may_not_take_a_kept_name(void **state)
{
    struct zf_build *b = made_build(false);

    (void)state;
    made_vector(b, "config", ZF_DT_F32, 1);
    assert_ok(zf_build_text(b, "config.f32", "x", 1, &err), &err);
    assert_null(made_tree(b, 0, NULL));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE,
               "the tensor \"config\" would have the same name as another file, config.f32");
}

static void tied_names_are_one_inode(void **state)
{
    struct zf_build *b = made_build(false);
    struct zf_draft *d = made_vector(b, "embed", ZF_DT_F32, 4);

    (void)state;
    made_vector(b, "alone", ZF_DT_F32, 4);
    assert_ok(zf_build_alias(b, d, "head", 4, &err), &err);
    assert_ok(zf_build_alias(b, d, "a", 1, &err), &err);
    zf_auto(tree) struct zf_tree *t = made_tree(b, 0, "head");
    assert_ok(t, &err);
    check_listing(t, ZF_TREE_ROOT);
    static const char *const dirs[] = {"", "npy/", "as/f16/", "as/bf16/npy/"};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        char path[64];
        const char *suffix = strstr(dirs[i], "npy") ? "npy" : "f32";

        (void)snprintf(path, sizeof path, "%sembed.%s", dirs[i], suffix);
        struct zf_stat one = walk(t, path);
        (void)snprintf(path, sizeof path, "%shead.%s", dirs[i], suffix);
        struct zf_stat two = walk(t, path);
        (void)snprintf(path, sizeof path, "%sa.%s", dirs[i], suffix);
        struct zf_stat three = walk(t, path);

        assert_int_equal(one.ino, two.ino);
        assert_int_equal(one.ino, three.ino);
        assert_int_equal(one.nlink, 3);
        assert_int_equal(one.size, two.size);
    }
    /* keep= named one of the three: all are as they were, the other tensor is cast. */
    assert_int_equal(walk(t, "as/f16/embed.f32").size, 16);
    assert_int_equal(walk(t, "as/f16/alone.f16").size, 8);
    assert_int_equal(walk(t, "alone.f32").nlink, 1);
}

/* Every way to cut a file in two gives the same bytes; nothing is behind its end. */
static void reads_begin_and_end_anywhere(void **state)
{
    static const char *const paths[] = {"b.bf16",    "npy/b.npy",    "npy/h.npy",
                                        "npy/c.npy", "as/f32/h.f32", "as/bf16/npy/h.npy",
                                        "npy/e.npy"};
    struct zf_build *b = made_build(false);
    unsigned char whole[1024], part[1024];
    size_t n, m;

    (void)state;
    made_vector(b, "b", ZF_DT_BF16, 37);
    made_vector(b, "h", ZF_DT_F8_E5M2, 41);
    made_vector(b, "c", ZF_DT_C32, 11);
    made_vector(b, "e", ZF_DT_F32, 0);
    zf_auto(tree) struct zf_tree *t = made_tree(b, 0, NULL);
    assert_ok(t, &err);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct zf_stat s = walk(t, paths[i]);

        assert_ok(t->ops->read(t, s.ino, whole, sizeof whole, 0, &n, &err), &err);
        assert_int_equal(n, s.size);
        for (uint64_t at = 0; at <= s.size + 1; at++) {
            for (size_t len = 0; len <= 9; len++) {
                size_t want = at >= n ? 0 : n - at < len ? n - at : len;

                assert_ok(t->ops->read(t, s.ino, part, len, at, &m, &err), &err);
                assert_int_equal(m, want);
                assert_memory_equal(part, whole + (at < n ? at : 0), m);
            }
            assert_ok(t->ops->read(t, s.ino, part, sizeof part, at, &m, &err), &err);
            assert_int_equal(m, at >= n ? 0 : n - at);
            assert_memory_equal(part, whole + (at < n ? at : 0), m);
        }
        assert_ok(t->ops->read(t, s.ino, part, 8, UINT64_MAX, &m, &err), &err);
        assert_int_equal(m, 0);
    }
    assert_false(t->ops->read(t, ZF_TREE_ROOT, part, 8, 0, &m, &err));
    assert_err(&err, ZF_E_NOENT, ZF_OFF_NONE, "no file has inode 1");
}

/* A widened read longer than the buffer it goes through. */
static void long_reads_are_widened_in_pieces(void **state)
{
    enum { N = 100003 };
    struct zf_build *b = made_build(false);
    size_t n;

    (void)state;
    made_vector(b, "h", ZF_DT_F8_E4M3, N);
    zf_auto(tree) struct zf_tree *t = made_tree(b, 0, NULL);
    assert_ok(t, &err);
    struct zf_stat raw = walk(t, "as/bf16/h.bf16"), npy = walk(t, "as/bf16/npy/h.npy");
    unsigned char *a = malloc(raw.size), *w = malloc(npy.size);
    assert_non_null(a);
    assert_non_null(w);
    assert_ok(t->ops->read(t, raw.ino, a, raw.size, 0, &n, &err), &err);
    assert_ok(t->ops->read(t, npy.ino, w, npy.size, 0, &n, &err), &err);
    assert_int_equal(n, 128 + 4 * N);
    for (size_t i = 0; i < N; i++) {
        /* bf16 is the upper half of its f32. */
        assert_int_equal(w[128 + 4 * i], 0);
        assert_int_equal(w[128 + 4 * i + 1], 0);
        assert_memory_equal(w + 128 + 4 * i + 2, a + 2 * i, 2);
    }
    free(a);
    free(w);
}

static void lost_bytes_are_errors_and_only_those(void **state)
{
    struct zf_build *b = made_build(true);
    uint64_t shape = 8;
    unsigned char got[32];
    size_t n;

    (void)state;
    made_vector(b, "whole", ZF_DT_U8, 8);
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "half", 4},
                                         (struct zf_type){ZF_DT_U8, 1, &shape}, &err);
    assert_ok(d, &err);
    assert_ok(zf_draft_flat(d, 0, 4, (struct zf_from){.src = NULL}, &err), &err);
    assert_ok(zf_draft_flat(d, 4, 4,
                            (struct zf_from){.lost = &(struct zf_lost){.file = "rank1.pt",
                                                                       .why = "is not there"}},
                            &err),
              &err);
    zf_auto(tree) struct zf_tree *t = made_tree(b, 0, NULL);
    assert_ok(t, &err);
    struct zf_stat s = walk(t, "half.u8");
    assert_true(s.lost);
    assert_false(walk(t, "whole.u8").lost);
    assert_true(walk(t, "model.safetensors").lost);
    assert_ok(t->ops->read(t, s.ino, got, 4, 0, &n, &err), &err);
    assert_int_equal(n, 4);
    assert_false(t->ops->read(t, s.ino, got, 5, 0, &n, &err));
    assert_string_equal(err.path, "rank1.pt");
    assert_non_null(strstr(err.msg, "is not there"));
    s = walk(t, "npy/half.npy");
    assert_ok(t->ops->read(t, s.ino, got, 4, 128, &n, &err), &err);
    assert_false(t->ops->read(t, s.ino, got, 1, 135, &n, &err));
}

static const char *attribute(struct zf_tree *t, uint64_t ino, const char *want, char *value)
{
    struct zf_xattr x = {.value = value, .cap = 4095};

    for (size_t i = 0; t->ops->xattr(t, ino, i, &x); i++) {
        value[x.len] = '\0';
        if (strcmp(x.name, want) == 0)
            return value;
    }
    return NULL;
}

/* Where no file is to blame, none is named. */
static void lost_without_a_file(void **state)
{
    struct zf_build *b = made_build(true);
    uint64_t shape = 8;
    char value[4096];

    (void)state;
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "gone", 4},
                                         (struct zf_type){ZF_DT_U8, 1, &shape}, &err);
    assert_ok(d, &err);
    assert_ok(zf_draft_flat(d, 0, 4, (struct zf_from){.src = NULL}, &err), &err);
    assert_ok(zf_draft_flat(d, 4, 4,
                            (struct zf_from){.lost = &(struct zf_lost){.why = "nobody has it"}},
                            &err),
              &err);
    zf_auto(tree) struct zf_tree *t = made_tree(b, 0, NULL);
    assert_ok(t, &err);
    assert_non_null(attribute(t, walk(t, "gone.u8").ino, "user.zerofs.sources", value));
    assert_non_null(strstr(value, "\"why\":\"nobody has it\""));
    assert_null(strstr(value, "\"file\""));
}

static void attributes_tell_what_a_file_is(void **state)
{
    struct zf_build *b = made_build(false);
    uint64_t shape[2] = {2, 3};
    char v[4096];

    (void)state;
    made_tensor(b, "", "w/x", ZF_DT_F32, 2, shape);
    zf_build_step(b, -3);
    zf_auto(tree) struct zf_tree *t = made_tree(b, 0, NULL);
    assert_ok(t, &err);
    struct zf_stat s = walk(t, "as/bf16/w%2Fx.bf16");
    assert_string_equal(attribute(t, s.ino, "user.zerofs.dtype", v), "bf16");
    assert_string_equal(attribute(t, s.ino, "user.zerofs.shape", v), "[2,3]");
    assert_string_equal(attribute(t, s.ino, "user.zerofs.name", v), "w/x");
    assert_string_equal(attribute(t, s.ino, "user.zerofs.step", v), "-3");
    static const char begin[] = "[{\"start\":[0,0],\"count\":[2,3],\"file\":\"made\",\"data\":\"";
    static const char end[] = "\",\"dtype\":\"f32\"}]";
    assert_non_null(attribute(t, s.ino, "user.zerofs.sources", v));
    assert_memory_equal(v, begin, sizeof begin - 1);
    assert_string_equal(v + sizeof begin - 1 + 2 * 24, end);
    assert_null(attribute(t, s.ino, "user.zerofs.tag", v));
    assert_string_equal(attribute(t, ZF_TREE_ROOT, "user.zerofs.format", v), "made");
    assert_null(attribute(t, ZF_TREE_ROOT, "user.zerofs.dtype", v));
}

static void a_long_list_of_sources_says_so(void **state)
{
    struct zf_build *b = made_build(false);
    uint64_t n = 5000;
    char v[4096];

    (void)state;
    unsigned char *p = calloc(2 * n, 1);
    assert_non_null(p);
    zf_auto(source) struct zf_source *src = zf_mem_new("r\"0", p, 2 * n, true, &err);
    struct zf_draft *d =
        zf_build_tensor(b, (struct zf_spot){"", "w", 1}, (struct zf_type){ZF_DT_U8, 1, &n}, &err);
    assert_ok(d, &err);
    for (uint64_t i = 0; i < n; i++)
        assert_ok(zf_draft_flat(d, i, 1, (struct zf_from){.src = src, .off = 2 * i}, &err), &err);
    zf_auto(tree) struct zf_tree *t = made_tree(b, 0, NULL);
    assert_ok(t, &err);
    assert_non_null(attribute(t, walk(t, "w.u8").ino, "user.zerofs.sources", v));
    static const char begin[] =
        "[{\"start\":[0],\"count\":[1],\"file\":\"r\\\"0\",\"data\":\"00\"},";
    assert_memory_equal(v, begin, sizeof begin - 1);
    assert_true(strlen(v) > 4000);
    /* What is listed and what is not are all the pieces. */
    const char *more = strstr(v, ",{\"more\":");
    uint64_t listed = 0;
    assert_non_null(more);
    for (const char *at = v; (at = strstr(at, "{\"start\"")); at++)
        listed++;
    assert_int_equal(strtoull(more + 9, NULL, 10), n - listed);
}

/* A tree for each rank: sets, state/ and extra/ below it, and in its hf/ the side files of the rank,
 * or those of the root that it has not. */
static void a_prefix_has_a_tree_of_its_own(void **state)
{
    struct zf_build *b = made_build(false);
    const uint64_t n = 3;
    struct zf_stat s;

    (void)state;
    made_vector(b, "w", ZF_DT_F32, 3);
    assert_ok(zf_build_text(b, "config.json", "{}", 2, &err), &err);
    assert_ok(zf_build_text(b, "vocab.txt", "a", 1, &err), &err);
    for (int rank = 0; rank < 2; rank++) {
        assert_ok(zf_build_prefix(b, rank ? "mp_rank_01" : "mp_rank_00", &err), &err);
        made_vector(b, "w", ZF_DT_F32, 4 + (uint64_t)rank);
        made_tensor(b, "stored", "w", ZF_DT_BF16, 1, &n);
        made_tensor(b, "optim/exp_avg", "w", ZF_DT_F32, 1, &n);
        made_tensor(b, "extra", "rng", ZF_DT_U8, 1, &n);
        assert_ok(zf_build_text(b, "state/args.json", "[1]", 3, &err), &err);
        assert_ok(zf_build_text(b, "extra/note", "12345", 5, &err), &err);
    }
    assert_ok(zf_build_text(b, "config.json", "{\"a\":1}", 7, &err), &err);
    zf_auto(tree) struct zf_tree *t = made_tree(b, 0, NULL);
    assert_ok(t, &err);
    static const struct {
        const char *path;
        uint64_t size;
    } want[] = {
        {"w.f32", 12},
        {"mp_rank_00/w.f32", 16},
        {"mp_rank_01/w.f32", 20},
        {"mp_rank_01/npy/w.npy", 128 + 20},
        {"mp_rank_01/optim/exp_avg/w.f32", 12},
        {"mp_rank_01/state/args.json", 3},
        {"mp_rank_01/extra/note", 5},
        {"mp_rank_01/extra/rng.u8", 3},
        {"mp_rank_01/config.json", 7},
        {"hf/config.json", 2},
        {"mp_rank_00/hf/config.json", 2},
        {"mp_rank_00/hf/vocab.txt", 1},
        {"mp_rank_01/hf/config.json", 7},
        {"mp_rank_01/hf/vocab.txt", 1},
        {"mp_rank_01/stored/hf/config.json", 7},
        {"mp_rank_00/stored/hf/config.json", 2},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_int_equal(walk(t, want[i].path).size, want[i].size);
    assert_false(zf_tree_walk(t, "mp_rank_00/config.json", &s));
    assert_false(zf_tree_walk(t, "mp_rank_01/optim/exp_avg/hf/config.json", &s));
    assert_false(zf_tree_walk(t, "mp_rank_01/extra/hf/config.json", &s));
}

/* The type in a config.json is that which is served; but what is longer than 16 MiB is no settings, and as it was. */
static void long_settings_are_passed_on(void **state)
{
    static const char head[] = "{\"torch_dtype\":\"float32\",\"x\":\"", tail[] = "\"}",
                      edited[] = "{\"torch_dtype\":\"bfloat16\",\"x\":\"";
    static const uint64_t most = 16 << 20;

    (void)state;
    for (uint64_t n = most; n <= most + 1; n++) {
        const char *want = n == most ? edited : head;
        struct zf_build *b = made_build(false);
        zf_auto(mem) char *text = malloc(n);
        char got[sizeof edited] = "";
        size_t k;

        assert_non_null(text);
        memset(text, 'a', n);
        memcpy(text, head, sizeof head - 1);
        memcpy(text + n - 2, tail, 2);
        made_vector(b, "w", ZF_DT_F32, 3);
        assert_ok(zf_build_text(b, "config.json", text, n, &err), &err);
        zf_auto(tree) struct zf_tree *t = made_tree(b, 0, NULL);
        assert_ok(t, &err);
        const struct zf_stat st = walk(t, "as/bf16/hf/config.json");
        assert_int_equal(st.size, n + (n == most));
        assert_ok(t->ops->read(t, st.ino, got, strlen(want), 0, &k, &err), &err);
        assert_string_equal(got, want);
        assert_ok(t->ops->read(t, st.ino, got, 4, st.size - 3, &k, &err), &err);
        assert_int_equal(k, 3);
        assert_memory_equal(got, "a\"}", 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_listed_name_is_found),
        cmocka_unit_test(a_cut_name_is_found_where_it_is_the_only_one),
        cmocka_unit_test(sets_beside_the_weights_are_listed_by_their_word),
        cmocka_unit_test(other_spellings_are_not_found),
        cmocka_unit_test(two_names_of_one_file_are_refused),
        cmocka_unit_test(a_tensor_may_not_take_a_kept_name),
        cmocka_unit_test(tied_names_are_one_inode),
        cmocka_unit_test(reads_begin_and_end_anywhere),
        cmocka_unit_test(long_reads_are_widened_in_pieces),
        cmocka_unit_test(lost_bytes_are_errors_and_only_those),
        cmocka_unit_test(lost_without_a_file),
        cmocka_unit_test(attributes_tell_what_a_file_is),
        cmocka_unit_test(a_long_list_of_sources_says_so),
        cmocka_unit_test(a_prefix_has_a_tree_of_its_own),
        cmocka_unit_test(long_settings_are_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
