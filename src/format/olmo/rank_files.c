/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_files.h"

#include <inttypes.h>
#include <string.h>

enum { RANK_FILES_MAX = 1000000 };

bool rank_files_parse(const char *name, const char *stem, const char *tail, uint32_t *rank_out)
{
    size_t n = strlen(stem);

    if (strncmp(name, stem, n) != 0) {
        return false;
    }
    const char *digits = name + n;
    size_t wide = strspn(digits, "0123456789");
    if (wide == 0 || wide > 7 || (wide > 1 && digits[0] == '0') ||
        strcmp(digits + wide, tail) != 0) {
        return false;
    }
    *rank_out = (uint32_t)strtoul(digits, NULL, 10);
    return true;
}

static uint32_t rank_files_count(struct zf_store *st, struct olmo_series s)
{
    uint32_t n = 0, rank;

    for (struct zf_entries l = zf_store_entries(st, s.dir); l.e < l.end; l.e++) {
        if (rank_files_parse(l.e->name, s.stem, s.tail, &rank) && rank >= n) {
            n = rank + 1;
        }
    }
    return n;
}

bool rank_files_list(struct zf_store *st, struct zf_arena *a, struct olmo_series s, uint32_t world,
                     struct olmo_ranks *out, struct zf_err *err)
{
    const char *slash = *s.dir ? "/" : "";
    uint32_t rank, n = rank_files_count(st, s);

    *out = (struct olmo_ranks){.n = n > world ? n : world};
    if (out->n > RANK_FILES_MAX) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "%" PRIu32 " ranks are more than %d", out->n,
                       RANK_FILES_MAX);
    }
    out->dir = zf_arena_fmt(a, err, "%s%s", s.dir, slash);
    out->path = out->dir ? zf_arena_get(a, out->n, sizeof *out->path, err) : NULL;
    out->here = out->path ? zf_arena_get(a, out->n, sizeof *out->here, err) : NULL;
    for (uint32_t r = 0; out->here && r < out->n; r++) {
        out->path[r] = zf_arena_fmt(a, err, "%s%s%" PRIu32 "%s", out->dir, s.stem, r, s.tail);
        if (!out->path[r]) {
            return false;
        }
    }
    if (!out->here) {
        return false;
    }
    for (struct zf_entries l = zf_store_entries(st, s.dir); l.e < l.end; l.e++) {
        if (rank_files_parse(l.e->name, s.stem, s.tail, &rank) && !out->here[rank]) {
            out->here[rank] = true;
            out->n_here++;
        }
    }
    return true;
}

bool rank_files_complete(const struct olmo_ranks *r, struct zf_err *err)
{
    uint32_t i = 0;

    while (i < r->n && r->here[i]) {
        i++;
    }
    if (i == r->n) {
        return true;
    }
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "it is missing: %" PRIu32 " of %" PRIu32 " ranks have a file in %s", r->n_here, r->n,
            *r->dir ? r->dir : "this directory");
    return zf_err_in(err, "%s", r->path[i]);
}
