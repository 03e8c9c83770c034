/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No more problems than this are collected. */
#define MAX_PROBLEMS 1000

bool plan_bad(const struct plan *p)
{
    return p->problem.n > 0;
}

bool plan_problem(struct plan *p, size_t at, struct zf_err *err, const char *fmt, ...)
{
    char msg[300];
    struct zf_err why;
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(msg, sizeof msg, fmt, args);
    va_end(args);
    if (p->problem.n >= MAX_PROBLEMS)
        return true;
    (void)text_fail(p->line->of->name, p->line->of->p, at == SIZE_MAX ? 0 : at, &why, "%s", msg);
    char text[sizeof why.path + sizeof why.msg];
    char *copy = strdup(at == SIZE_MAX ? msg : zf_err_text(&why, text, sizeof text));
    char **to = copy ? zf_vec_push(&p->problem, err) : NULL;
    if (!to) {
        free(copy);
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a sentence");
    }
    *to = copy;
    return true;
}

bool plan_wrong(struct plan *p, size_t at, struct zf_err *err)
{
    const struct zf_err why = *err;
    char text[sizeof why.path + sizeof why.msg];

    return why.code != ZF_E_NOMEM && plan_problem(p, why.path[0] ? SIZE_MAX : at, err, "%s",
                                                  zf_err_text(&why, text, sizeof text));
}

void plan_fini(struct plan *p)
{
    for (size_t i = 0; i < p->problem.n; i++)
        free(p->problem.at[i]);
    for (size_t i = 0; i < p->var.n; i++)
        json_decref(p->var.at[i].value);
    zf_vec_fini(&p->problem);
    zf_vec_fini(&p->var);
    zf_vec_fini(&p->target);
    zf_vec_fini(&p->use);
    json_decref(p->config);
    json_decref(p->filled);
    json_decref(p->left_out);
    json_decref(p->notes);
    given_fini(&p->src);
    zf_arena_free(p->a);
    *p = (struct plan){0};
}
