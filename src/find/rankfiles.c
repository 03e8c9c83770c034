/* SPDX-License-Identifier: Apache-2.0 */
/* Files that every rank writes next to the weights, such as its random state.  No other file refers to them, so
 * only the number of ranks shows that some are missing. */
#include "beside.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>
#include <zf/assemble/numbered.h>
#include <zf/base/name.h>
#include <zf/base/out.h>

/* Patterns of numbered.h; only %r counts all ranks of the job.  Source: transformers trainer.py, _save_rng_state
 * (4.x, 5.x); accelerate checkpointing.py, save_accelerator_state (0.20 … 1.x); NeMo AutoModel
 * components/checkpoint/checkpointing.py, save_on_dp_ranks, called with "rng" (0.1 … 0.7); nanotron
 * serialize/random.py (0.4). */
static const struct {
    const char *dir, *pattern;
} rankfiles_form[] = {
    {"", "rng_state_%r.pth"},
    {"", "random_states_%r.pkl"},
    {"rng", "rng_global_rank_%r.pt"},
    {"random", "tp-%t-of-%T_dp-%d-of-%D_pp-%p-of-%P.pt"},
};
enum { RANKFILES_FORMS = sizeof rankfiles_form / sizeof rankfiles_form[0] };

/* Names of shards that give the least number of ranks: the product of the counts for each letter.  Source: torch
 * distributed/checkpoint/filesystem.py; deepspeed/runtime/engine.py, _get_zero_ckpt_name, which counts the ranks
 * of data and model parallelism; verl utils/checkpoint/fsdp_checkpoint_manager.py. */
static const struct {
    const char *pattern, *letters;
} rankfiles_shard[] = {
    {"__%r_%f.distcp", "r"},
    {"zero_pp_rank_%d_mp_rank_%02m_optim_states.pt", "dm"},
    {"bf16_zero_pp_rank_%d_mp_rank_%02m_optim_states.pt", "dm"},
    {"fp16_zero_pp_rank_%d_mp_rank_%02m_optim_states.pt", "dm"},
    {"model_world_size_%W_rank_%r.pt", "W"},
};
enum { RANKFILES_SHARDS = sizeof rankfiles_shard / sizeof rankfiles_shard[0], LETTERS = 2 };

/* The least number of ranks that wrote the files in b; 0: unknown. */
static uint32_t rankfiles_world(const struct zf_build *b)
{
    uint64_t places[RANKFILES_SHARDS][LETTERS] = {{0}}, most = 0;
    struct zf_numbered_file f;
    const char *path;

    for (size_t i = 0; (path = zf_build_source(b, i)) != NULL; i++) {
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

        for (size_t k = 0; k < RANKFILES_SHARDS; k++) {
            const char *letter = rankfiles_shard[k].letters;

            if (!zf_numbered_fits(rankfiles_shard[k].pattern, name, &f))
                continue;
            for (size_t l = 0; letter[l]; l++) {
                const uint64_t at = zf_numbered_get(rankfiles_shard[k].pattern, &f, letter[l]);
                const uint64_t n = letter[l] == 'W' ? at : at + 1;

                places[k][l] = n > places[k][l] ? n : places[k][l];
            }
        }
    }
    for (size_t k = 0; k < RANKFILES_SHARDS; k++) {
        const uint64_t n = places[k][0] * (rankfiles_shard[k].letters[1] ? places[k][1] : 1);

        most = n > most ? n : most;
    }
    return most <= ZF_NUMBERED_MAX ? (uint32_t)most : 0;
}

static const struct zf_entry *rankfiles_find(struct zf_store *st, const struct zf_numbered *l,
                                             const char *name, char path[2 * ZF_NAME_MAX + 2])
{
    (void)snprintf(path, 2 * ZF_NAME_MAX + 2, "%s%s%.*s", l->dir, *l->dir ? "/" : "", ZF_NAME_MAX,
                   name);
    return zf_store_find(st, path);
}

/* Drops entries that are not files, and empty files unless all are: no rank writes those. */
static void rankfiles_drop(struct zf_store *st, struct zf_numbered *l)
{
    char path[2 * ZF_NAME_MAX + 2];
    uint64_t most = 0;
    size_t n = 0;

    for (size_t i = 0; i < l->file.n; i++) {
        const struct zf_entry *e = rankfiles_find(st, l, l->file.at[i].name, path);

        most = e && e->kind == ZF_ENTRY_FILE && e->id.size > most ? e->id.size : most;
    }
    for (size_t i = 0; i < l->file.n; i++) {
        const struct zf_entry *e = rankfiles_find(st, l, l->file.at[i].name, path);

        if (e && e->kind == ZF_ENTRY_FILE && (e->id.size > 0 || most == 0))
            l->file.at[n++] = l->file.at[i];
    }
    l->file.n = n;
}

/* A note names at most this many missing files: file names alone may claim millions of ranks. */
#define RANKFILES_NAMED 256u

/* Notes which of the ranks 0 … n - 1 lack their file of a pattern; n is above all numbers that occur. */
static bool rankfiles_check(struct zf_store *st, const struct zf_numbered *l, uint32_t n,
                            struct zf_build *b, struct zf_err *err)
{
    zf_auto(out) struct zf_out about = {0};
    char name[ZF_NAME_MAX + 1], first[2 * ZF_NAME_MAX + 2] = "", is[ZF_ABSENT_MAX], more[48] = "";
    const struct zf_entry *e = NULL;
    size_t i = 0;

    if (l->file.n >= n)
        return true;
    for (uint32_t r = 0; r < n && r - i < RANKFILES_NAMED; r++) {
        struct zf_numbered_file f = l->file.at[0];

        if (i < l->file.n && l->file.at[i].number[0] == r) {
            i++;
            continue;
        }
        zf_numbered_set(l->pattern, &f, 'r', r);
        zf_numbered_print(l->pattern, &f, name, sizeof name);
        zf_note_about(&about, name);
        if (!*first)
            e = rankfiles_find(st, l, name, first);
    }
    if (n - l->file.n > 1)
        (void)snprintf(more, sizeof more, ", like %zu more", n - l->file.n - 1);
    return zf_out_ok(&about, err) &&
           zf_build_note_on(b, ZF_NOTE_OTHER, zf_out_text(&about), err,
                            "%s %s%s: %u ranks wrote this save, and %zu left such a file", first,
                            e && e->kind == ZF_ENTRY_FILE ? "is empty" : zf_absent(st, first, is),
                            more, n, l->file.n);
}

bool rankfiles_note(struct zf_store *st, struct zf_build *b, struct zf_err *err)
{
    for (size_t i = 0; i < RANKFILES_FORMS; i++) {
        const char *dir = rankfiles_form[i].dir, *pattern = rankfiles_form[i].pattern;
        zf_auto(numbered) struct zf_numbered l = {.dir = NULL};

        if (*dir && !zf_store_has(st, dir, ZF_ENTRY_DIR))
            continue;
        if (!zf_numbered_list(st, dir, pattern, &l, err))
            return false;
        const uint32_t named = l.file.n ? l.file.at[l.file.n - 1].number[0] + 1 : 0;
        rankfiles_drop(st, &l);
        if (l.file.n == 0)
            continue;
        if (strstr(pattern, "%r")) {
            const uint32_t world = rankfiles_world(b);

            if (!rankfiles_check(st, &l, world > named ? world : named, b, err))
                return false;
        } else if (!zf_numbered_complete(&l, 0, l.file.n, err) &&
                   (err->code == ZF_E_NOMEM ||
                    !zf_note_failure(b, ZF_NOTE_OTHER, NULL, err, "%s", ""))) {
            return false;
        }
    }
    return true;
}
