/* SPDX-License-Identifier: Apache-2.0 */
/* Which masters are of which weights.  A weight is a word, an element a letter, and a master rounds to its own letter. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/assemble/prove.h>

enum { MOST = 16, LETTERS = 100 };

struct made {
    float letter[LETTERS];
    struct zf_source *src;
    uint64_t used; /* letters */
    uint64_t shape[MOST];
    struct zf_tensor_ref view[MOST], own[MOST];
    struct zf_values part[MOST];
    uint64_t begin[MOST + 4];
    struct zf_prove_weight weight[MOST];
    struct zf_prove_vector vector[4];
    struct zf_prove p;
};

/* Words between spaces are weights of one storage, behind '|' another one begins; '-' is an entry without a weight. */
static void made_weights(struct made *m, const char *text)
{
    static const char *const keys[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    uint32_t n = 0, key = 0;

    for (const char *p = text; *p; n++) {
        size_t len = strcspn(p, " |");
        struct zf_tensor_ref *v = &m->view[n];

        m->shape[n] = len;
        *v = (struct zf_tensor_ref){.key = keys[key],
                                    .dtype = ZF_DT_F32,
                                    .ndim = 1,
                                    .n = len,
                                    .shape = &m->shape[n],
                                    .off = 4 * m->used,
                                    .packed = true};
        m->weight[n].view = *p == '-' ? NULL : v;
        for (size_t i = 0; i < len; i++)
            m->letter[m->used++] = (float)p[i];
        p += len;
        key += *p == '|';
        p += *p != '\0';
    }
    m->p.weight = m->weight;
    m->p.n_weights = n;
}

/* '/' is between vectors, ' ' between their parts. */
static void made_vectors(struct made *m, const char *text, const char *how)
{
    uint32_t parts = 0, n = 0, begin = 0;

    for (const char *p = text;; n++) {
        struct zf_prove_vector *v = &m->vector[n];

        *v = (struct zf_prove_vector){.part = &m->part[parts],
                                      .begin = &m->begin[begin],
                                      .own = strchr(how, 'o') ? &m->own[parts] : NULL,
                                      .pad = strchr(how, 'p') ? 3 : 0};
        for (size_t len = 1; len > 0 && *p && *p != '/'; p += len + (p[len] == ' ')) {
            len = strcspn(p, " /");
            m->part[parts] = (struct zf_values){NULL, 4 * m->used, ZF_DT_F32};
            m->own[parts] = (struct zf_tensor_ref){.n = len, .ndim = 1, .shape = &m->begin[MOST]};
            for (uint32_t i = 0; i < m->p.n_weights; i++)
                if (m->shape[i] == len)
                    m->own[parts].shape = &m->shape[i];
            for (size_t i = 0; i < len; i++)
                m->letter[m->used++] = p[i] == '0' ? 0 : (float)p[i];
            m->begin[begin + 1] = m->begin[begin] + len;
            begin++;
            parts++;
            v->n_parts++;
        }
        begin++;
        v->dealt = strchr(how, 'd') ? v->n_parts : 0;
        if (*p++ == '\0')
            break;
    }
    m->p.vector = m->vector;
    m->p.n_vectors = n + 1;
    m->p.any_order = strchr(how, 'a') != NULL;
    m->p.sample = (struct zf_sample){1, 1};
}

static void made_say(const struct made *m, bool proven, bool why, char *out, size_t n)
{
    size_t at = 0;

    *out = '\0';
    for (uint32_t g = 0; proven && g < m->p.n_vectors; g++) {
        for (uint32_t i = 0; i < m->vector[g].n; i++) {
            at += (size_t)snprintf(out + at, n - at, "%s%u", i ? " " : "",
                                   m->p.piece.at[m->vector[g].first + i].to);
        }
        at += (size_t)snprintf(out + at, n - at, "%s", g + 1 < m->p.n_vectors ? "/" : "");
    }
    if (proven || !why)
        return;
    if (m->p.why.kind == ZF_PROVE_TWO) {
        (void)snprintf(out, n, "two %u %d", m->p.why.two[0], (int)m->p.why.two[1]);
    } else if (m->p.why.kind == ZF_PROVE_NONE) {
        (void)snprintf(out, n, "none at %u, near %d", (unsigned)m->p.why.at,
                       (int)m->p.why.near.weight);
        if (m->p.why.near.weight != ZF_PROVE_NOBODY) {
            size_t end = strlen(out);

            (void)snprintf(out + end, n - end, "[%u]", (unsigned)m->p.why.near.miss.at);
        }
    } else {
        (void)snprintf(out, n, "order");
    }
}

/* how: o(wn masters), p(adding of less than 3), d(ealt), a(ny order). */
static void proofs(void **state)
{
    static const struct {
        const char *weights, *vectors, *how, *storage, *value;
    } row[] = {
        /* one storage a group */
        {"ab c|de f", "abc/def", "", "0 1/2 3", "0 1/2 3"},
        {"ab c|de f", "def/abc", "", "2 3/0 1", "2 3/0 1"},
        {"ab c|de f", "de f00/abc", "p", "2 3/0 1", "2 3/0 1"},
        {"ab c|ab c", "abc", "", "", "two 0 2"},
        {"ab c|ab c", "abc/abc", "", "", "two 0 2"},
        {"ab c|-|de f", "def/", "", "3 4/", "3 4/"},
        {"ab c|de f", "abx", "", "", "none at 2, near 1[0]"},
        {"ab c|de f", "xbc", "", "", "none at 0, near 0[0]"},
        {"ab c|de f", "dxf", "", "", "none at 0, near 2[1]"},
        /* one a weight: the order */
        {"ab|c|de|f", "abde", "", "", "0 2"},
        {"ab|c|de|f", "cf/abde", "", "", "1 3/0 2"},
        {"ab|c|de|f", "deab", "", "", "order"},
        {"ab|c|de|f", "deab", "a", "", "2 0"},
        {"ab|ab|ab", "ab ab ab", "", "", "0 1 2"},
        {"ab|ab|ab", "abab", "", "", "two 0 1"},
        {"ab|x|ab", "abx", "", "", "0 1"},
        {"ab|x|ab", "xab", "a", "", "1 2"},
        {"ab|x|ab|y", "yxab", "a", "", "two 0 2"},
        {"a|ab", "ab", "", "", "two 0 1"},
        {"ab|c", "abcx", "", "", "none at 3, near -1"},
        {"ab|cd|e", "abcx", "", "", "none at 2, near 1[1]"},
        /* padding */
        {"ab|c", "abc00", "p", "", "0 1"},
        {"ab|c", "abc000", "p", "", "none at 3, near -1"},
        /* dealt to two ranks: a c, b d */
        {"aa|bb|cc|dd", "aacc bbdd", "d", "", "0 2 1 3"},
        {"aa|bb|cc|dd|ee", "aacce ebbdd", "d", "", "0 2 4 1 3"},
        {"aa|bb|cc|dd", "aadd bbcc", "d", "", "order"},
        {"aa|aa|aa", "aaa aaa", "d", "", "two 1 2"},
        /* a list of masters, each in its shape */
        {"ab|abc|c|ab", "abc c", "o", "", "1 2"},
        {"ab|abc|c|ab", "ab c", "o", "", "0 2"},
        {"ab|abc|c|ab", "ab ab", "o", "", "0 3"},
        {"ab|abc|c|ab", "ab", "o", "", "two 0 3"},
        {"ab|abc|c", "c abc", "oa", "", "2 1"},
        {"ab|abc|c", "c xyzz", "oa", "", "none at 1, near -1"},
        {"ab|abc|c", "c xy", "oa", "", "none at 1, near 0[0]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        for (int value = 0; value < 2; value++) {
            struct zf_err err = {.code = ZF_OK};
            struct made m = {.used = 0};
            char said[100];
            bool proven = false;

            made_weights(&m, row[i].weights);
            made_vectors(&m, row[i].vectors, row[i].how);
            zf_auto(source) struct zf_source *src =
                zf_mem_new("letters", m.letter, sizeof m.letter, false, &err);
            for (uint32_t k = 0; k < MOST; k++)
                m.view[k].src = m.part[k].src = src;
            assert_ok(zf_prove_by_storage(&m.p, &proven, &err), &err);
            if (value && !proven)
                assert_ok(zf_prove_by_value(&m.p, &proven, &err), &err);
            made_say(&m, proven, value, said, sizeof said);
            if (strcmp(said, value ? row[i].value : row[i].storage) != 0)
                fail_msg("%s: %s %s: \"%s\"", row[i].weights, row[i].vectors, row[i].how, said);
            for (uint32_t k = 0; proven && k < m.p.piece.n; k++)
                assert_true(m.weight[m.p.piece.at[k].to].taken);
            zf_auto_prove(&m.p);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proofs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
