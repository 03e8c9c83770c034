/* SPDX-License-Identifier: Apache-2.0 */
/* Files for codec tests: from tests/data, or written by a Python script into a directory of their
 * own. */
#ifndef TESTS_UNIT_CODEC_FIXTURE_H
#define TESTS_UNIT_CODEC_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#include <zf/source/store.h>

#include "support/unit.h"

/* Runs tests/unit/codec/SCRIPT with a new directory, whose path is written to dir[64]. */
static inline void fixture_make(const char *script, char *dir)
{
    const char *top = getenv("top_srcdir");
    char cmd[4096];

    strcpy(dir, "/tmp/zf-codec-XXXXXX");
    assert_non_null(mkdtemp(dir));
    (void)snprintf(cmd, sizeof cmd, "python3 '%s/tests/unit/codec/%s' '%s'", top ? top : ".",
                   script, dir);
    assert_int_equal(system(cmd), 0);
}

static inline void fixture_drop(const char *dir)
{
    char cmd[128];

    (void)snprintf(cmd, sizeof cmd, "rm -r '%s'", dir);
    assert_int_equal(system(cmd), 0);
}

/* The file `name` of that directory, read where it lies. */
static inline struct zf_source *fixture_open(const char *dir, const char *name)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    zf_auto(store) struct zf_store *st = zf_store_dir(dir, &lim, &err);

    assert_ok(st != NULL, &err);
    struct zf_source *src = zf_store_open(st, name, &err);
    assert_ok(src != NULL, &err);
    return src;
}

/* A file of tests/data. */
static inline struct zf_source *fixture_data(const char *path)
{
    const char *data = getenv("ZF_DATA");

    return fixture_open(data ? data : "tests/data", path);
}

/* The first n bytes of src in memory of their own (so that a sanitizer sees every step outside). */
static inline struct zf_source *fixture_cut(struct zf_source *src, uint64_t n)
{
    struct zf_err err;
    void *p = malloc(n ? n : 1);

    assert_non_null(p);
    assert_ok(zf_source_pread(src, p, n, 0, &err), &err);
    struct zf_source *cut = zf_mem_new("cut", p, n, true, &err);
    assert_ok(cut != NULL, &err);
    return cut;
}

#endif
