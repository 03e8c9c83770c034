/* SPDX-License-Identifier: Apache-2.0 */
#include "series.h"

#include <string.h>

#include <zf/assemble/degraded.h>

bool st_series(const char *file, struct zf_series *out)
{
    return zf_series_parse(file, out) && out->padded && strcmp(out->tail, ".safetensors") == 0;
}

/* want: the next number. */
static bool series_end(const struct zf_series *s, const char *name, unsigned long want,
                       struct zf_build *b, struct zf_err *err)
{
    if (want > s->of) {
        return true;
    }
    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                  "file %05lu of %05lu of the series %.*s is missing", want, s->of, (int)s->stem,
                  name);
    return zf_forgive(b, err);
}

/* Numbers ascend in the listing. */
static bool series_check_plain(const struct zf_entry *e, size_t n, struct zf_build *b,
                               struct zf_err *err)
{
    struct zf_series s, last = {0};
    const char *name = "";
    unsigned long want = 1;

    for (size_t i = 0; i < n; i++) {
        if (!st_series(e[i].name, &s) || zf_st_file_rank(e[i].name)) {
            continue;
        }
        if (s.stem != last.stem || strncmp(e[i].name, name, s.stem) != 0) {
            if (!series_end(&last, name, want, b, err)) {
                return false;
            }
            name = e[i].name;
            want = 1;
        }
        last = s;
        want += s.number == want;
    }
    return series_end(&last, name, want, b, err);
}

/* Ranks ascend in the listing. */
static bool series_check_ranks(struct zf_st_files *files, const struct zf_entry *e, size_t n,
                               struct zf_build *b, struct zf_err *err)
{
    unsigned long want = 1;

    for (size_t i = 0; i < n; i++) {
        unsigned long r = zf_st_file_rank(e[i].name);

        if (r > want) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "the files shard-%05lu-… of rank %lu are missing, though %.80s is here",
                          want, want, e[i].name);
            if (!zf_forgive(b, err) ||
                !zf_st_files_lack(files, err, "shard-%05lu-… of rank %lu", want, want)) {
                return false;
            }
        }
        want = r >= want ? r + 1 : want;
    }
    files->n_ranks = want - 1;
    return true;
}

/* A rank has no file F when it has nothing of the tensors there, but not every rank.  All boxes
 * of a tensor are in files of one number, so those of the others are whole.
 * Source: torch 2.13, distributed/checkpoint/hf_storage.py, _split_by_storage_plan. */
static bool series_check_files(const struct zf_entry *e, size_t n, struct zf_build *b,
                               struct zf_err *err)
{
    zf_auto(mem) bool *have = NULL;
    struct zf_series s, first = {0};
    const char *name = "";

    for (size_t i = 0; i < n; i++) {
        if (!zf_st_file_rank(e[i].name) || !st_series(e[i].name, &s)) {
            continue;
        }
        if (!have) {
            have = calloc(s.of + 1, sizeof *have);
            first = s;
            name = e[i].name;
        }
        if (!have) {
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for %lu files", s.of);
        }
        if (s.of != first.of) {
            (void)zf_fail(
                err, ZF_E_FORMAT, ZF_OFF_NONE,
                "%.80s and %.80s are of different saves: one has %lu files, the other %lu", name,
                e[i].name, first.of, s.of);
            return zf_forgive(b, err);
        }
        have[s.number <= s.of ? s.number : 0] = true;
    }
    for (unsigned long k = 1; k <= first.of; k++) {
        if (!have[k]) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "file %05lu of %05lu is missing from all ranks, though %.80s is here", k,
                          first.of, name);
            return zf_forgive(b, err);
        }
    }
    return true;
}

bool st_series_check(struct zf_st_files *files, const struct zf_entry *e, size_t n,
                     struct zf_build *b, struct zf_err *err)
{
    return series_check_plain(e, n, b, err) && series_check_ranks(files, e, n, b, err) &&
           series_check_files(e, n, b, err);
}
