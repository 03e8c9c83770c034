/* SPDX-License-Identifier: Apache-2.0 */
/* What PEFT calls a parameter in the file of one adapter.  The rows are what get_peft_model_state_dict makes of the names
 * (peft/utils/save_and_load.py, 0.4 … 0.21). */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/assemble/adapter.h>
#include <zf/base/limits.h>

/* The names of a tree, and what is shown of them. */
struct made {
    struct zf_limits lim;
    struct zf_source *src;
    struct zf_build *b;
    struct zf_err err;
};

static void make(struct made *m, const char *prefix)
{
    static uint8_t bytes[4];

    *m = (struct made){.lim = zf_limits_default()};
    m->src = zf_mem_new("", bytes, sizeof bytes, false, &m->err);
    m->b = zf_build_new(NULL, &m->lim, false, &m->err);
    assert_non_null(m->b);
    assert_ok(zf_build_prefix(m->b, prefix, &m->err), &m->err);
}

static void unmake(struct made *m)
{
    zf_build_free(m->b);
    zf_source_unref(&m->src);
}

static void add(struct made *m, const char *name, size_t n)
{
    static const uint64_t one = 1;
    struct zf_draft *d = zf_build_tensor(m->b, (struct zf_spot){"", name, n},
                                         (struct zf_type){ZF_DT_F32, 1, &one}, &m->err);

    assert_ok(d && zf_draft_flat(d, 0, 1, (struct zf_from){.src = m->src, .off = 0}, &m->err),
              &m->err);
}

/* The other half of a lora_A or lora_B. */
static void add_partner(struct made *m, const char *name, size_t n)
{
    char *other = malloc(n);
    char *at;

    assert_non_null(other);
    memcpy(other, name, n);
    at = memmem(other, n, ".lora_", 6);
    if (at && (at[6] == 'A' || at[6] == 'B') && at[7] == '.') {
        at[6] = at[6] == 'A' ? 'B' : 'A';
        add(m, other, n);
    } else if ((at = memmem(other, n, "lora_embedding_", 15))) {
        at[15] = at[15] == 'A' ? 'B' : 'A';
        add(m, other, n);
    }
    free(other);
}

/* Both halves of an adapter, without which it is none. */
static void add_pair(struct made *m, const char *adapter)
{
    char name[100];

    for (int i = 0; i < 2; i++) {
        add(m, name,
            (size_t)snprintf(name, sizeof name, "pair.lora_%c.%s.weight", "AB"[i], adapter));
    }
}

static bool shown(const struct made *m, const char *prefix, const char *adapter, const char *name)
{
    char set[100];

    (void)snprintf(set, sizeof set, "adapter/%s", adapter);
    return zf_build_find_below(m->b, prefix, (struct zf_spot){set, name, strlen(name)}) != NULL;
}

static void names(void **state)
{
    static const struct {
        const char *name, *adapter,
            *out; /* out NULL: of no adapter; "": nor is the adapter shown then */
    } row[] = {
        {"base_model.model.q.lora_A.default.weight", "default", "base_model.model.q.lora_A.weight"},
        {"base_model.model.q.lora_B.french.weight", "french", "base_model.model.q.lora_B.weight"},
        {"base_model.model.q.lora_B.french.bias", "french", "base_model.model.q.lora_B.bias"},
        {"base_model.model.e.lora_embedding_A.default", "default",
         "base_model.model.e.lora_embedding_A"},
        {"base_model.model.e.lora_embedding_B.two", "two", "base_model.model.e.lora_embedding_B"},
        {"base_model.model.q.lora_magnitude_vector.default.weight", "default",
         "base_model.model.q.lora_magnitude_vector"},
        {"base_model.model.q.lora_magnitude_vector.default", "default",
         "base_model.model.q.lora_magnitude_vector"},
        {"base_model.model.score.modules_to_save.default.weight", "default",
         "base_model.model.score.weight"},
        {"base_model.model.score.modules_to_save.two.dense.bias", "two",
         "base_model.model.score.dense.bias"},
        {"module.base_model.model.q.lora_A.default.weight", "default",
         "base_model.model.q.lora_A.weight"},
        {"_forward_module.base_model.model.q.lora_A.default.weight", "default",
         "base_model.model.q.lora_A.weight"},
        {"base_model.model.q.lora_A.weight", "default", "base_model.model.q.lora_A.weight"},
        {"base_model.model.q.base_layer.weight", NULL, NULL},
        {"base_model.model.score.original_module.weight", NULL, NULL},
        {"base_model.model.score.modules_to_save.weight", NULL, NULL},
        {"base_model.model.lora_Ax.default.weight", NULL, ""},
        {"base_model.model.xlora_A.default.weight", NULL, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        const char *adapter = row[i].adapter ? row[i].adapter : "default";
        struct made m;
        uint64_t n, before;

        make(&m, "");
        add_pair(&m, adapter);
        add(&m, row[i].name, strlen(row[i].name));
        before = zf_build_n_tensors(m.b);
        bool is = row[i].out && *row[i].out;
        if (is && !memmem(row[i].name, strlen(row[i].name), ".bias", 5))
            add_partner(&m, row[i].name, strlen(row[i].name));
        n = zf_build_n_tensors(m.b);
        assert_ok(zf_adapters_show(m.b, "", NULL, (struct zf_trained){0}, &m.err), &m.err);
        if (zf_build_n_tensors(m.b) - n != (is ? n - before + 3 : (row[i].out ? 0 : 2)) ||
            (is && !shown(&m, "", adapter, row[i].out)))
            fail_msg("%s: %d shown", row[i].name, (int)(zf_build_n_tensors(m.b) - n));
        unmake(&m);
    }
}

/* A name that is too long is no adapter's, and of none more is read than it has. */
static void lengths(void **state)
{
    static const char tail[] = ".lora_A.default.weight";

    (void)state;
    for (size_t n = 4000; n < 4200; n++) {
        char *name = malloc(n);
        struct made m;
        uint64_t before;

        assert_non_null(name);
        memset(name, 'x', n);
        memcpy(name + n - (sizeof tail - 1), tail, sizeof tail - 1); /* no NUL behind it */
        make(&m, "");
        add_pair(&m, "default");
        add(&m, name, n);
        add_partner(&m, name, n);
        before = zf_build_n_tensors(m.b);
        assert_ok(zf_adapters_show(m.b, "", NULL, (struct zf_trained){0}, &m.err), &m.err);
        assert_int_equal(zf_build_n_tensors(m.b) - before, n < 4096 ? 4 : 2);
        unmake(&m);
        free(name);
    }
}

/* Below a prefix or not, and only of an adapter that has both halves. */
static void shows_pairs(void **state)
{
    static const char half[] = "m.q.lora_A.half.weight",
                      whole[] = "m.s.modules_to_save.default.bias";

    (void)state;
    for (int p = 0; p < 2; p++) {
        const char *prefix = p ? "mp_rank_01" : "";
        struct made m;

        make(&m, prefix);
        add_pair(&m, "default");
        add(&m, half, sizeof half - 1);
        add(&m, whole, sizeof whole - 1);
        assert_ok(zf_adapters_show(m.b, prefix, NULL, (struct zf_trained){0}, &m.err), &m.err);
        assert_true(shown(&m, prefix, "default", "pair.lora_A.weight"));
        assert_true(shown(&m, prefix, "default", "pair.lora_B.weight"));
        assert_true(shown(&m, prefix, "default", "m.s.bias"));
        assert_false(shown(&m, prefix, "half", "m.q.lora_A.weight"));
        assert_false(shown(&m, p ? "" : "mp_rank_01", "default", "m.s.bias"));
        unmake(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(lengths),
        cmocka_unit_test(shows_pairs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
