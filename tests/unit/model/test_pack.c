/* SPDX-License-Identifier: Apache-2.0 */
/* A build that was packed and unpacked seals to what it seals to itself; bytes that are cut are refused, bytes that were
 * changed make a sound model or none. */
#include "support/unit.h"

#include <zf/model/pack.h>

#include "support/build_verbs.h"
#include "support/same_model.h"

#define ROUNDS 30000
#define SCRIPT 60

static uint64_t seed = 20261122;

static uint64_t rnd(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % n;
}

static unsigned char bytes[400];
static struct zf_source *src[VERBS_SOURCES];

static int make_sources(void **state)
{
    struct zf_err err;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)rnd(256);
    for (int i = 0; i < VERBS_SOURCES - 1; i++) {
        src[i] = zf_mem_new(&"xyz"[i], bytes + i, (uint64_t[]){8, 60, 390}[i], false, &err);
        assert_non_null(src[i]);
    }
    return 0;
}

static int drop_sources(void **state)
{
    (void)state;
    for (int i = 0; i < VERBS_SOURCES - 1; i++)
        zf_source_unref(&src[i]);
    return 0;
}

static struct zf_build *new_build(bool degraded)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    struct zf_build *b = zf_build_new(NULL, &lim, degraded, &err);

    assert_non_null(b);
    return b;
}

static bool number(void *ctx, struct zf_source *s, uint64_t *out, struct zf_err *err)
{
    (void)ctx, (void)err;
    for (*out = 0; src[*out] != s; (*out)++)
        assert_true(*out < VERBS_SOURCES - 1);
    return true;
}

/* Unpacks and seals; NULL: refused. */
static struct zf_checkpoint *unpacked(const void *p, size_t n, struct zf_err *err)
{
    struct zf_bytes in = zf_bytes_of(p, n);
    struct zf_build *b = new_build(false);

    if (!zf_build_unpack(b, &in, src, VERBS_SOURCES - 1, err)) {
        zf_build_free(b);
        return NULL;
    }
    return zf_build_seal(b, "test", "", err);
}

static void any_verbs_come_back(void **state)
{
    uint8_t script[SCRIPT];
    uint32_t sealed = 0;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        zf_auto(out) struct zf_out out = {0};
        struct zf_err err, again;
        struct verbs v = {.p = script, .n = rnd(SCRIPT), .b = new_build(false)};

        for (size_t i = 0; i < v.n; i++)
            script[i] = (uint8_t)rnd(256);
        memcpy(v.src, src, sizeof src);
        verbs_run(&v, true);
        if (!zf_build_pack(v.b, number, NULL, &out, &err)) {
            assert_int_equal(err.code, ZF_E_UNSUPPORTED); /* something is missing */
            zf_build_free(v.b);
            continue;
        }
        zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(v.b, "test", "", &err);
        zf_auto(checkpoint) struct zf_checkpoint *d = unpacked(out.p, out.n, &again);
        assert_int_equal(c != NULL, d != NULL);
        if (c) {
            same_model(c, d);
            sealed += c->n_pieces > 0;
        } else {
            assert_string_equal(err.msg, again.msg);
        }
    }
    assert_true(sealed > ROUNDS / 100);
}

/* One of everything that a build can hold. */
static struct zf_build *one_of_everything(void)
{
    static const uint64_t shape[] = {4, 6}, half[] = {4, 3}, right[] = {0, 3}, turned[] = {1, 4};
    struct zf_build *b = new_build(false);
    const struct zf_type type = {ZF_DT_U8, 2, shape}, row = {ZF_DT_U8, 1, shape};
    const struct zf_from from[] = {{.src = src[2]}, {.src = src[1], .off = 7}};
    struct zf_err err;
    struct zf_draft *d, *hidden = zf_build_hidden(b, "h", 1, type, &err);

    assert_true(hidden &&
                zf_draft_flat(hidden, 0, 10, (struct zf_from){.src = src[2], .off = 100}, &err) &&
                zf_draft_flat(hidden, 10, 14, (struct zf_from){0}, &err));
    d = zf_build_tensor(b, (struct zf_spot){"", "boxes", 5}, type, &err);
    assert_true(d && zf_draft_box(d, NULL, half, from[1], &err) &&
                zf_draft_box(d, right, half,
                             (struct zf_from){.src = src[2], .off = 3, .stride = turned}, &err));
    assert_true(zf_build_alias(b, d, "tied", 4, &err));
    d = zf_build_tensor(b, (struct zf_spot){"stored", "part", 4}, row, &err);
    assert_true(d && zf_draft_part(d, 0, 4, hidden, 8, &err) && zf_draft_mark_piece(d, &err));
    assert_non_null(zf_build_show(b, (struct zf_spot){"optim/x", "shown", 5}, hidden, &err));
    struct zf_stretches *s = zf_build_stretches(b, from, 2, 20, &err);
    d = s ? zf_build_tensor(b, (struct zf_spot){"", "slots", 5}, type, &err) : NULL;
    assert_true(d && zf_draft_slots(d, s, 5, 13, &err));
    assert_true(zf_build_scalar(b, (struct zf_spot){"", "step", 4}, ZF_DT_F32, "abcd", &err));
    assert_true(zf_build_raw_only(b, "stored", &err) && zf_build_tag(b, "step7", &err));
    assert_true(zf_build_blob(b, "config.json", src[1], 1, 9, &err) &&
                zf_build_text(b, "state/a.json", "{}", 2, &err) &&
                zf_build_text(b, "extra/none", "", 0, &err));
    zf_build_step(b, -7);
    for (int i = 0; i < 300; i++)
        assert_true(zf_build_note(b, &err, "note %d", i));
    assert_true(zf_build_note_on(b, ZF_NOTE_LEFT_OUT, "a.pt", &err, "a.pt has more"));
    return b;
}

static void cut_or_changed_bytes_are_met(void **state)
{
    zf_auto(out) struct zf_out out = {0};
    struct zf_build *b = one_of_everything();
    struct zf_err err;

    (void)state;
    assert_ok(zf_build_pack(b, number, NULL, &out, &err), &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "test", "", &err);
    zf_auto(checkpoint) struct zf_checkpoint *d = unpacked(out.p, out.n, &err);
    assert_non_null(c);
    assert_non_null(d);
    same_model(c, d);
    assert_int_equal(d->step, -7);
    assert_int_equal(d->n_notes, 258);
    /* In memory of just that size, so that a step over its end is seen. */
    for (size_t n = 0; n < out.n; n++) {
        uint8_t *cut = malloc(n ? n : 1);

        memcpy(cut, out.p, n);
        assert_null(unpacked(cut, n, &err));
        free(cut);
    }
    for (size_t at = 0; at < out.n; at++) {
        for (int bit = 0; bit < 8; bit++) {
            out.p[at] ^= (char)(1 << bit);
            struct zf_checkpoint *e = unpacked(out.p, out.n, &err);

            for (uint32_t i = 0; e && i < e->n_sets; i++)
                for (uint32_t k = 0; k < e->set[i].n; k++)
                    same_model_bytes(e->set[i].tensor[k].data, e->set[i].tensor[k].data);
            zf_checkpoint_free(e);
            out.p[at] ^= (char)(1 << bit);
        }
    }
}

static void what_is_damaged_is_not_packed(void **state)
{
    zf_auto(build) struct zf_build *b = new_build(true);
    zf_auto(out) struct zf_out out = {0};
    struct zf_err err;

    (void)state;
    assert_false(zf_build_pack(b, number, NULL, &out, &err));
    assert_err(&err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "damaged");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_verbs_come_back),
        cmocka_unit_test(cut_or_changed_bytes_are_met),
        cmocka_unit_test(what_is_damaged_is_not_packed),
    };
    return cmocka_run_group_tests(tests, make_sources, drop_sources);
}
