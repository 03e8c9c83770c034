/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/limits.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

struct zf_limits zf_limits_default(void)
{
    return (struct zf_limits){
#define X(name, dflt, unit, what) .name = (dflt),
        ZF_LIMITS(X)
#undef X
    };
}

uint64_t zf_limits_meta(const struct zf_limits *lim, uint64_t disk)
{
    uint64_t bytes;

    return zf_mul_add(disk, lim->meta_memory, lim->meta_slack, &bytes) ? bytes : UINT64_MAX;
}

struct limits_row {
    const char *name, *unit, *what;
    size_t at;
};

static const struct limits_row rows[] = {
#define X(name, dflt, unit, what) {#name, unit, what, offsetof(struct zf_limits, name)},
    ZF_LIMITS(X)
#undef X
};
#define N_ROWS (sizeof rows / sizeof rows[0])

static bool limits_unknown(const char *name, int n, struct zf_err *err)
{
    char known[320] = "";
    size_t at = 0;

    for (size_t i = 0; i < N_ROWS && at < sizeof known - 1; i++) {
        int k = snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", rows[i].name);
        at += k > 0 ? (size_t)k : 0;
    }
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "no limit is called \"%.*s\"; there are %s", n,
                   name, known);
}

bool zf_limits_set(struct zf_limits *lim, const char *assignment, struct zf_err *err)
{
    const char *eq = strchr(assignment, '=');
    size_t n = eq ? (size_t)(eq - assignment) : strlen(assignment);
    uint64_t v;

    for (size_t i = 0; i < N_ROWS; i++) {
        if (strlen(rows[i].name) != n || memcmp(rows[i].name, assignment, n) != 0)
            continue;
        if (!eq || !zf_num_size(eq + 1, &v)) {
            return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                           "limit %s needs a number of %s, found \"%s\"", rows[i].name,
                           rows[i].unit, eq ? eq + 1 : "");
        }
        memcpy((char *)lim + rows[i].at, &v, sizeof v);
        return true;
    }
    return limits_unknown(assignment, (int)(n < 80 ? n : 80), err);
}

const char *zf_limit_name(enum zf_limit limit)
{
    return limit == ZF_LIMIT_NONE ? NULL : rows[limit - 1].name;
}

bool zf_fail_limit(struct zf_err *err, enum zf_limit limit, uint64_t off, const char *fmt, ...)
{
    char msg[2 * sizeof err->msg]; /* zf_fail cuts it */
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    (void)zf_fail(err, ZF_E_LIMIT, off, "%s", msg);
    err->limit = (uint8_t)limit;
    return false;
}
