/* SPDX-License-Identifier: Apache-2.0 */
/* The losses of a degraded checkpoint: the line of its mount, and the JSON that names them. */
#include "support/unit.h"

#include <stdlib.h>

#include <zf/model/build.h>
#include <zf/overlay/index.h>
#include <zf/overlay/lost.h>

static struct zf_err err;

static struct zf_build *fresh(void)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_build *b = zf_build_new(NULL, &lim, true, &err);

    assert_non_null(b);
    return b;
}

static struct zf_checkpoint *seal(struct zf_build *b)
{
    struct zf_checkpoint *c = zf_build_seal(b, "fmt", "why", &err);

    assert_ok(c, &err);
    return c;
}

/* A tensor of bytes of which every second one is lost, `n` of them, each of a file of its own if that is asked for. */
static void every_second(struct zf_build *b, const char *name, uint64_t n, bool of_its_own)
{
    uint64_t all = 2 * n;
    unsigned char *p = calloc(1, all);
    struct zf_source *s = zf_mem_new("rank0.pt", p, all, true, &err);
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", name, (uint32_t)strlen(name)},
                                         (struct zf_type){ZF_DT_U8, 1, &all}, &err);
    char file[20];

    assert_non_null(p);
    assert_non_null(s);
    assert_ok(d, &err);
    for (uint64_t i = 0; i < n; i++) {
        (void)snprintf(file, sizeof file, "rank%u.pt", of_its_own ? (unsigned)i + 1 : 1);
        const struct zf_lost how = {.file = file, .why = "is missing"};

        assert_ok(zf_draft_flat(d, 2 * i, 1, (struct zf_from){.src = s, .off = 2 * i}, &err), &err);
        assert_ok(zf_draft_flat(d, 2 * i + 1, 1, (struct zf_from){.lost = &how}, &err), &err);
    }
    zf_source_unref(&s);
}

static void whole(struct zf_build *b, const char *name)
{
    uint64_t n = 3;
    struct zf_source *s = zf_mem_new("rank0.pt", "abc", 3, false, &err);
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", name, (uint32_t)strlen(name)},
                                         (struct zf_type){ZF_DT_U8, 1, &n}, &err);

    assert_non_null(s);
    assert_ok(d && zf_draft_flat(d, 0, n, (struct zf_from){.src = s, .off = 0}, &err), &err);
    zf_source_unref(&s);
}

/* What the log says of the checkpoint, behind its time. */
static void assert_said(const struct zf_checkpoint *c, const char *want)
{
    char *printed = NULL;
    size_t n;
    FILE *to = open_memstream(&printed, &n);
    zf_auto(log) struct zf_log *log = to ? zf_log_new(to, &err) : NULL;

    assert_ok(log, &err);
    zf_lost_say(c, log);
    assert_int_equal(fclose(to), 0);
    assert_string_equal(printed, want);
    free(printed);
}

static void nothing_is_lost(void **state)
{
    struct zf_build *b = fresh();
    (void)state;
    whole(b, "w");
    zf_auto(checkpoint) struct zf_checkpoint *c = seal(b);
    json_t *list = zf_lost_json(c);

    assert_said(c, "");
    assert_true(json_is_array(list));
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
}

static void files_are_counted(void **state)
{
    static const struct {
        unsigned n;
        const char *said;
    } row[] = {
        {1, "zerofs: 1 of 2 tensors have lost bytes: rank1.pt is missing (zerofs info -v lists "
            "them)\n"},
        {2, "zerofs: 1 of 2 tensors have lost bytes: rank1.pt is missing, and 1 more file (zerofs "
            "info -v lists them)\n"},
        {3, "zerofs: 1 of 2 tensors have lost bytes: rank1.pt is missing, and 2 more files (zerofs "
            "info -v lists them)\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct zf_build *b = fresh();

        every_second(b, "a", row[i].n, true);
        whole(b, "b");
        zf_auto(checkpoint) struct zf_checkpoint *c = seal(b);
        assert_said(c, row[i].said);
    }
}

/* Of a tensor of which nothing but the name is left. */
static void a_missing_tensor(void **state)
{
    const struct zf_lost how = {.file = "gone.pt", .why = "is missing"};
    struct zf_build *b = fresh();
    json_t *want = json_pack("[{s:s, s:s, s:s, s:s}]", "set", "", "name", "lost.weight", "file",
                             "gone.pt", "why", "is missing");

    (void)state;
    whole(b, "b");
    assert_ok(zf_build_missing(b, "lost.weight", 11, &how, &err), &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = seal(b);
    json_t *list = zf_lost_json(c);

    assert_said(
        c,
        "zerofs: 1 of 2 tensors have lost bytes: gone.pt is missing (zerofs info -v lists them)\n");
    assert_true(json_equal(list, want));
    json_decref(list);
    json_decref(want);
}

/* The ranges in their order, each with its file; and that there are more. */
static void ranges_of_a_tensor(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 100; n++) {
        struct zf_build *b = fresh();
        every_second(b, "a", n, false);
        zf_auto(checkpoint) struct zf_checkpoint *c = seal(b);
        json_t *list = zf_lost_ranges(&c->set[0].tensor[0]);
        size_t got = json_array_size(list);
        bool more = json_is_true(json_object_get(json_array_get(list, got - 1), "more"));

        got -= more;
        assert_true(more ? got >= 24 && got < n : got == n); /* a few dozen */
        for (size_t i = 0; i < got; i++) {
            json_t *want =
                json_pack("{s:I, s:I, s:s, s:s}", "first", (json_int_t)(2 * i + 1), "end",
                          (json_int_t)(2 * i + 2), "file", "rank1.pt", "why", "is missing");

            assert_true(json_equal(json_array_get(list, i), want));
            json_decref(want);
        }
        json_decref(list);
    }
}

static unsigned lines(const char *text)
{
    unsigned n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* What greps well: a line for each tensor of the index, and for each member of the smaller files. */
static void a_line_each(void **state)
{
    struct zf_build *b = fresh();
    size_t n;

    (void)state;
    whole(b, "a");
    every_second(b, "b", 2, false);
    whole(b, "c");
    zf_auto(checkpoint) struct zf_checkpoint *c = seal(b);
    char *text = zf_index_text(c, &n, &err);
    assert_ok(text, &err);
    assert_int_equal(n, strlen(text));
    assert_int_equal(lines(text), 1 + 3);
    json_t *j = json_loads(text, 0, NULL), *tensors = json_object_get(j, "tensors");
    assert_int_equal(json_array_size(tensors), 3);
    assert_null(json_object_get(json_array_get(tensors, 0), "lost"));
    assert_true(json_is_true(json_object_get(json_array_get(tensors, 1), "lost")));
    assert_int_equal(json_array_size(json_object_get(json_array_get(tensors, 1), "lost_bytes")), 2);
    json_decref(j);
    free(text);

    text = zf_index_dump(json_pack("{s:i, s:i}", "one", 1, "two", 2), &n, &err);
    assert_ok(text, &err);
    assert_int_equal(n, strlen(text));
    assert_true(lines(text) >= 2);
    j = json_loads(text, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(j, "two")), 2);
    json_decref(j);
    free(text);
    assert_null(zf_index_dump(NULL, &n, &err));
    assert_int_equal(err.code, ZF_E_NOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost),  cmocka_unit_test(files_are_counted),
        cmocka_unit_test(a_missing_tensor), cmocka_unit_test(ranges_of_a_tensor),
        cmocka_unit_test(a_line_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
