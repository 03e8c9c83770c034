/* SPDX-License-Identifier: Apache-2.0 */
/* A fresh store in memory for each test, with everything that opening it takes: setup and teardown for
 * cmocka_unit_test_setup_teardown. */
#ifndef TESTS_SUPPORT_IN_MEMORY_H
#define TESTS_SUPPORT_IN_MEMORY_H

#include <stdlib.h>

#include "unit.h"
#include "store_mem.h"

#include <zf/find.h>

struct fixture {
    struct zf_limits lim;
    struct zf_open_opts o;
    struct zf_err err;
    struct zf_store *st;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    f->lim = zf_limits_default();
    f->o.lim = &f->lim;
    f->st = store_mem_new(&f->lim, &f->err);
    assert_non_null(f->st);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    zf_store_unref(&f->st);
    free(f);
    return 0;
}

#endif
