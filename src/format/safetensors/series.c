/* SPDX-License-Identifier: Apache-2.0 */
#include "series.h"

#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/base/name.h>

bool st_series(const char *file, struct zf_series *out)
{
    return zf_series_parse(file, out) && zf_name_ends(out->tail, ".safetensors");
}

static bool series_is_plain(const char *name)
{
    struct zf_series s;

    return st_series(name, &s) && !zf_st_file_rank(name);
}

static bool series_check_plain(const struct zf_entry *e, size_t n, struct zf_build *b,
                               struct zf_err *err)
{
    struct zf_series_list list = {0};
    bool ok = zf_series_list(e, n, series_is_plain, &list, err);

    for (size_t i = 0; ok && i < list.of.n; i++) {
        ok = list.of.at[i].lacks == 0 ||
             (!zf_series_fail(&list.of.at[i], err) && zf_forgive(b, err));
    }
    zf_vec_fini(&list.of);
    return ok;
}

/* Checks that no rank is missing; they ascend in the listing. */
static bool series_check_ranks(struct zf_st_files *files, const struct zf_entry *e, size_t n,
                               struct zf_build *b, struct zf_err *err)
{
    unsigned long want = 1;

    for (size_t i = 0; i < n; i++) {
        unsigned long r = zf_st_file_rank(e[i].name);

        if (r > want) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "the files shard-%05lu-… of rank %lu are missing, but %.80s exists", want,
                          want, e[i].name);
            if (!zf_forgive(b, err) || !zf_build_note_names(b, e[i].name, "", err) ||
                !zf_st_files_lack(files, err, "shard-%05lu-… of rank %lu", want, want))
                return false;
        }
        want = r >= want ? r + 1 : want;
    }
    files->n_ranks = want - 1;
    return true;
}

/* Checks that each number F has a file of at least one rank: a rank without any part of its tensors
 * writes none.  All boxes of a tensor are in files of the same number.
 * Source: torch 2.13, distributed/checkpoint/hf_storage.py, _split_by_storage_plan. */
static bool series_check_files(const struct zf_entry *e, size_t n, struct zf_build *b,
                               struct zf_err *err)
{
    zf_auto(mem) bool *have = NULL;
    struct zf_series s, first = {0};
    const char *name = "";

    for (size_t i = 0; i < n; i++) {
        if (!zf_st_file_rank(e[i].name) || !st_series(e[i].name, &s))
            continue;
        if (!have) {
            have = calloc(s.of + 1, sizeof *have);
            first = s;
            name = e[i].name;
        }
        if (!have)
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for %lu files", s.of);
        if (s.of != first.of) {
            (void)zf_fail(
                err, ZF_E_FORMAT, ZF_OFF_NONE,
                "%.80s and %.80s belong to different saves: one has %lu files, the other %lu", name,
                e[i].name, first.of, s.of);
            return zf_forgive(b, err);
        }
        have[s.number <= s.of ? s.number : 0] = true;
    }
    for (unsigned long k = 1; k <= first.of; k++) {
        if (!have[k]) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "file %05lu of %05lu is missing from all ranks, but %.80s exists", k,
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
