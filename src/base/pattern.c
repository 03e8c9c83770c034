/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/pattern.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdlib.h>
#include <string.h>

enum {
    PATTERN_BYTES = 4000,   /* length of an expression */
    PATTERN_NEST = 100,     /* nested groups */
    PATTERN_CODE = 1 << 20, /* bytes of a compiled expression: ((a{99}){99}){99} */
    PATTERN_STEPS = 100000, /* steps of a match */
    PATTERN_DEPTH = 10000,
    PATTERN_HEAP = 1 << 10, /* KiB */
};

struct zf_pattern {
    const pcre2_code *code;
};

/* PCRE2's memory is the arena's, which has a budget. */
struct pattern_memory {
    struct zf_arena *a;
    struct zf_err *err;
};

static void *pattern_get(size_t n, void *ctx)
{
    const struct pattern_memory *m = ctx;

    return zf_arena_get(m->a, n, 1, m->err);
}

static void pattern_give_back(void *p, void *ctx)
{
    (void)p; /* freed with the arena */
    (void)ctx;
}

/* False for expressions that PCRE2 and Python read differently: in Python {,3} is {0,3}, \Z the very end, [[:alpha:]] a
 * set of eight characters, and \Q and \K are unknown.
 * Source: Lib/re/_parser.py (3.6 ... 3.14); pcre2pattern(3), 10.36 ... 10.46. */
static bool pattern_is_common(const char *p, size_t n)
{
    static const char *const apart[] = {"{,", "\\Z", "[[:", "\\Q", "\\E", "\\K"};
    bool common = true;

    for (size_t i = 0; i < sizeof apart / sizeof apart[0]; i++)
        common = common && !memmem(p, n, apart[i], strlen(apart[i]));
    return common;
}

static pcre2_code *pattern_compile(const char *p, size_t n, uint32_t options, struct zf_arena *a,
                                   struct zf_err *err)
{
    struct zf_err none = {.code = ZF_OK};
    struct pattern_memory memory = {a, &none};
    pcre2_general_context *in =
        pcre2_general_context_create(pattern_get, pattern_give_back, &memory);
    pcre2_compile_context *how = in ? pcre2_compile_context_create(in) : NULL;
    pcre2_code *code = NULL;
    int failed = 0;
    size_t at = 0, bytes = 0;
    char why[160];

    if (how) {
        (void)pcre2_set_newline(how, PCRE2_NEWLINE_LF);
        (void)pcre2_set_parens_nest_limit(how, PATTERN_NEST);
        code = pcre2_compile((PCRE2_SPTR)p, n, options, &failed, &at, how);
    }
    if (!code && none.code != ZF_OK) {
        *err = none;
        return NULL;
    }
    if (!code) {
        (void)pcre2_get_error_message(failed, (PCRE2_UCHAR *)why, sizeof why);
        return zf_null(
            zf_fail(err, ZF_E_UNSUPPORTED, at, "the expression is not understood: %s", why));
    }
    if (pcre2_pattern_info(code, PCRE2_INFO_SIZE, &bytes) != 0 || bytes > PATTERN_CODE) {
        return zf_null(
            zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "the expression has too many repetitions"));
    }
    return code;
}

const struct zf_pattern *zf_pattern_new(const char *p, size_t n, enum zf_pattern_where where,
                                        struct zf_arena *a, struct zf_err *err)
{
    static const uint32_t options[] = {
        [ZF_PATTERN_ANYWHERE] = 0,
        [ZF_PATTERN_FRONT] = PCRE2_ANCHORED,
        [ZF_PATTERN_WHOLE] = PCRE2_ANCHORED | PCRE2_ENDANCHORED,
    };
    struct zf_pattern *x = zf_arena_get(a, 1, sizeof *x, err);

    if (!x)
        return NULL;
    if (n > PATTERN_BYTES) {
        return zf_null(zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                               "the expression has %zu bytes, more than %d", n, PATTERN_BYTES));
    }
    if (!pattern_is_common(p, n)) {
        return zf_null(
            zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                    "the expression has something that Python and PCRE2 understand differently"));
    }
    x->code = pattern_compile(p, n,
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF |
                                  PCRE2_NEVER_BACKSLASH_C | options[where],
                              a, err);
    return x->code ? x : NULL;
}

/* PCRE2_ERROR_NOMATCH, the number of groups, 0 for more than there is room for, or another error. */
static int pattern_run(const struct zf_pattern *x, const char *name, size_t n,
                       pcre2_match_data *data)
{
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    int rc = PCRE2_ERROR_NOMEMORY;

    if (limits) {
        (void)pcre2_set_match_limit(limits, PATTERN_STEPS);
        (void)pcre2_set_depth_limit(limits, PATTERN_DEPTH);
        (void)pcre2_set_heap_limit(limits, PATTERN_HEAP);
        rc = pcre2_match(x->code, (PCRE2_SPTR)name, n, 0, PCRE2_NO_JIT, data, limits);
    }
    pcre2_match_context_free(limits);
    return rc;
}

bool zf_pattern_match(const struct zf_pattern *x, const char *name, size_t n,
                      struct zf_pattern_span *groups, bool *found, struct zf_err *err)
{
    pcre2_match_data *data = pcre2_match_data_create(ZF_PATTERN_GROUPS, NULL);
    int rc = data ? pattern_run(x, name, n, data) : PCRE2_ERROR_NOMEMORY;
    const PCRE2_SIZE *at = data ? pcre2_get_ovector_pointer(data) : NULL;
    char why[160] = "";

    *found = rc >= 0;
    for (int i = 0; *found && groups && i < ZF_PATTERN_GROUPS; i++) {
        bool in = rc == 0 || i < rc;

        groups[i].from = in ? at[2 * i] : SIZE_MAX;
        groups[i].to = in ? at[2 * i + 1] : SIZE_MAX;
    }
    pcre2_match_data_free(data);
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH)
        return true;
    (void)pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
    return zf_fail(err, rc == PCRE2_ERROR_NOMEMORY ? ZF_E_NOMEM : ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "an expression takes too long with \"%.100s\": %s", name, why);
}

const char *zf_pattern_version(void)
{
    static char text[32];
    char all[64]; /* "10.42 2022-12-11" */

    if (!text[0] && pcre2_config(PCRE2_CONFIG_VERSION, NULL) <= (int)sizeof all &&
        pcre2_config(PCRE2_CONFIG_VERSION, all) > 0)
        memcpy(text, all, strcspn(all, " ") < sizeof text ? strcspn(all, " ") : 0);
    return text;
}
