/* SPDX-License-Identifier: Apache-2.0 */
/* What is withdrawn was never there: a build in which any verbs came between a mark and its undo
 * seals to what the same build is without them. */
#include "support/unit.h"

#include "support/build_verbs.h"
#include "support/same_model.h"

#define ROUNDS 4000
#define SCRIPT 400

static uint64_t seed = 20240303;

static uint64_t rnd(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % n;
}

struct script {
    uint8_t p[SCRIPT];
    size_t n;
};

static void make_script(struct script *s)
{
    s->n = rnd(SCRIPT);
    for (size_t i = 0; i < s->n; i++)
        s->p[i] = (uint8_t)rnd(256);
}

static void run(struct verbs *v, const struct script *s, bool marks)
{
    v->p = s->p;
    v->n = s->n;
    verbs_run(v, marks);
}

static void undone_verbs_leave_nothing(void **state)
{
    static struct script before, undone, kept, after;
    struct zf_limits lim = zf_limits_default();
    uint32_t sealed = 0;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        bool degraded = round % 8 != 0;
        struct zf_err err[2];
        struct zf_checkpoint *c[2];
        struct zf_source *src[VERBS_SOURCES] = {NULL};
        unsigned char bytes[300];

        make_script(&before);
        make_script(&undone);
        make_script(&kept);
        make_script(&after);
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)rnd(256);
        for (int i = 0; i < VERBS_SOURCES - 1; i++) {
            src[i] = zf_mem_new(&"xyz"[i], bytes + i, (uint64_t[]){8, 60, 290}[i], false, &err[0]);
            assert_non_null(src[i]);
        }
        for (int with = 0; with < 2; with++) {
            struct verbs v = {.b = zf_build_new(NULL, &lim, degraded, &err[with])};

            assert_non_null(v.b);
            memcpy(v.src, src, sizeof src);
            run(&v, &before, false);
            if (with) {
                uint64_t refs[VERBS_SOURCES - 1];

                for (int i = 0; i < VERBS_SOURCES - 1; i++)
                    refs[i] = src[i]->refs;
                assert_ok(zf_build_mark(v.b, &err[1]), &err[1]);
                run(&v, &undone, true);
                while (v.depth > 0) {
                    zf_build_keep(v.b);
                    v.depth--;
                }
                zf_build_undo(v.b);
                for (int i = 0; i < VERBS_SOURCES - 1; i++)
                    assert_int_equal(src[i]->refs, refs[i]);
                assert_ok(zf_build_mark(v.b, &err[1]), &err[1]);
            }
            run(&v, &kept, false);
            if (with)
                zf_build_keep(v.b);
            run(&v, &after, false);
            c[with] = zf_build_seal(v.b, "test", "", &err[with]);
        }
        assert_int_equal(c[0] == NULL, c[1] == NULL);
        if (c[0]) {
            sealed++;
            same_model(c[0], c[1]);
        } else {
            assert_string_equal(err[0].msg, err[1].msg);
        }
        zf_checkpoint_free(c[0]);
        zf_checkpoint_free(c[1]);
        for (int i = 0; i < VERBS_SOURCES - 1; i++) {
            assert_int_equal(src[i]->refs, 1);
            zf_source_unref(&src[i]);
        }
    }
    assert_true(sealed > ROUNDS / 4);
}

/* A piece takes the place of one that was withdrawn, of which nothing may stay: neither that it was
 * a part of another tensor nor its strides. */
static void a_piece_in_the_place_of_another(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    const uint64_t shape[2] = {4, 2}, half[2] = {4, 1}, right[2] = {0, 1}, stride[2] = {3, 5};
    unsigned char bytes[32], got[8];

    (void)state;
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    zf_auto(source) struct zf_source *s = zf_mem_new("x", bytes, 32, false, &err);
    struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
    assert_true(s && b);
    const struct zf_from from = {.src = s, .off = 8};
    const struct zf_type type = {ZF_DT_U8, 2, shape};
    struct zf_draft *of = zf_build_tensor(b, (struct zf_spot){"", "a", 1}, type, &err);
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "b", 1}, type, &err);
    struct zf_draft *boxes = zf_build_tensor(b, (struct zf_spot){"", "c", 1}, type, &err);
    assert_true(of && d && boxes);
    assert_ok(zf_draft_flat(of, 0, 8, from, &err), &err);
    for (uint64_t i = 0; i < 2; i++)
        assert_ok(zf_draft_flat(d, i, 1, from, &err), &err);
    assert_ok(zf_draft_box(boxes, NULL, (uint64_t[]){1, 1}, from, &err), &err);
    assert_ok(zf_draft_box(boxes, (uint64_t[]){1, 0}, (uint64_t[]){3, 1}, from, &err), &err);
    assert_ok(zf_build_mark(b, &err), &err);
    assert_ok(zf_draft_part(d, 2, 6, of, 0, &err), &err);
    assert_ok(zf_draft_box(boxes, right, half,
                           (struct zf_from){.src = s, .off = 8, .stride = stride}, &err),
              &err);
    zf_build_undo(b);
    assert_ok(zf_draft_flat(d, 2, 6, from, &err), &err);
    assert_ok(zf_draft_put(boxes, (struct zf_where){right, half, 0, 4, false}, from, &err), &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "t", "", &err);
    assert_ok(c, &err);
    assert_ok(zf_map_read(c->set[0].tensor[1].data, got, 8, 0, &err), &err);
    assert_memory_equal(got, ((unsigned char[]){8, 8, 8, 9, 10, 11, 12, 13}), 8);
    assert_ok(zf_map_read(c->set[0].tensor[2].data, got, 8, 0, &err), &err);
    assert_memory_equal(got, ((unsigned char[]){8, 8, 8, 9, 9, 10, 10, 11}), 8);
}

/* The build keeps its last answer: it must not be that of a draft that was taken out. */
static void a_withdrawn_name_is_free(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    const struct zf_spot spot = {"side", "a", 1};
    const struct zf_type type = {ZF_DT_U8, 1, (uint64_t[]){4}};
    const char *const dirs[] = {"side"};

    (void)state;
    zf_auto(source) struct zf_source *s = zf_mem_new("x", "12345678", 8, false, &err);
    struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
    assert_true(s && b);
    assert_non_null(zf_build_tensor(b, spot, type, &err));
    assert_non_null(zf_build_find(b, spot));
    zf_build_withdraw(b, dirs, 1);
    assert_null(zf_build_find(b, spot));
    struct zf_draft *d = zf_build_tensor(b, spot, type, &err);
    assert_ok(d && zf_draft_flat(d, 0, 4, (struct zf_from){.src = s, .off = 4}, &err), &err);
    assert_true(zf_build_find(b, spot) == d);
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "t", "", &err);
    assert_ok(c, &err);
    assert_int_equal(c->n_sets, 1);
    assert_int_equal(c->set[0].n, 1);
}

/* One for each key and sentence, also of keys that begin alike; of what was undone nothing is known. */
static void a_note_once(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_build *b;
    struct zf_err err;

    (void)state;
    b = zf_build_new(NULL, &lim, false, &err);
    assert_non_null(b);
    for (int i = 0; i < 4; i++) {
        const char *const key = i % 2 ? "ab" : "a";

        if (i == 2) {
            assert_ok(zf_build_mark(b, &err), &err);
            assert_ok(zf_build_note_once(b, "abc", ZF_NOTE_LEFT_OUT, "f", &err, "no %s", "abc"),
                      &err);
            zf_build_undo(b);
        }
        assert_ok(zf_build_note_once(b, key, ZF_NOTE_LEFT_OUT, "f", &err, "no %s", key), &err);
    }
    assert_ok(zf_build_note_once(b, "abc", ZF_NOTE_LEFT_OUT, "f", &err, "no %s", "abc"), &err);
    assert_ok(zf_build_note_once(b, "a", ZF_NOTE_OTHER, NULL, &err, "not %s either", "a"), &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "t", "", &err);
    assert_ok(c, &err);
    const char *const want[] = {"no a", "no ab", "no abc", "not a either"};
    assert_int_equal(c->n_notes, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(c->note[i].text, want[i]);
    assert_int_equal(c->note[2].kind, ZF_NOTE_LEFT_OUT);
    assert_string_equal(c->note[2].about, "f");
}

/* Names of files are recognized by what a note was made with, not by its words. */
static void a_note_names_files(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_build *b;
    struct zf_err err, why = {.path = "/save/run/c.pt", .msg = "cannot open the file"};

    (void)state;
    b = zf_build_new(NULL, &lim, false, &err);
    assert_non_null(b);
    assert_ok(zf_build_note_on(b, ZF_NOTE_OTHER, "xa.pt\nrun10/b.pt\nd", &err, "a.pt, run1, d/"),
              &err);
    assert_ok(zf_build_mark(b, &err), &err);
    assert_ok(zf_build_note_names(b, "run/c.pt!c/data.pkl", "cannot open the file", &err), &err);
    assert_true(zf_build_noted(b, "c.pt") && zf_build_noted(b, "run/"));
    assert_true(zf_build_noted_failure(b, &why));
    strcpy(why.msg, "cannot open");
    assert_false(zf_build_noted_failure(b, &why));
    strcpy(why.msg, "cannot open the file");
    strcpy(why.path, "cc.pt");
    assert_false(zf_build_noted_failure(b, &why));
    zf_build_undo(b);
    strcpy(why.path, "c.pt");
    assert_false(zf_build_noted(b, "c.pt") || zf_build_noted_failure(b, &why));
    assert_false(zf_build_noted(b, "a.pt") || zf_build_noted(b, "run1") || zf_build_noted(b, ""));
    assert_true(zf_build_noted(b, "xa.pt") && zf_build_noted(b, "b.pt") && zf_build_noted(b, "d"));
    assert_true(zf_build_noted(b, "run10") && zf_build_noted(b, "run10/"));
    assert_false(zf_build_noted(b, "d/") || zf_build_noted(b, "b.pt/"));
    zf_build_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undone_verbs_leave_nothing),
        cmocka_unit_test(a_piece_in_the_place_of_another),
        cmocka_unit_test(a_withdrawn_name_is_free),
        cmocka_unit_test(a_note_once),
        cmocka_unit_test(a_note_names_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
