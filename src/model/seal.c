/* SPDX-License-Identifier: Apache-2.0 */
/* From drafts to a frozen checkpoint. */
#include <string.h>

#include <zf/base/name.h>
#include <zf/base/search.h>

#include "build_kind.h"
#include "model_sealed.h"

/* ---- order -------------------------------------------------------------------------------- */

static int seal_by_path(const void *a, const void *b)
{
    return path_order((*(struct draft_set *const *)a)->path, (*(struct draft_set *const *)b)->path);
}

static int seal_by_set_and_name(const void *a, const void *b)
{
    const struct zf_draft *x = *(struct zf_draft *const *)a, *y = *(struct zf_draft *const *)b;

    if (x->set != y->set)
        return (x->set->rank > y->set->rank) - (x->set->rank < y->set->rank);
    return zf_name_cmp(draft_name(x), x->name_len, draft_name(y), y->name_len);
}

static int seal_blob_by_path(const void *a, const void *b)
{
    return path_order(((const struct zf_blob *)a)->path, ((const struct zf_blob *)b)->path);
}

/* ---- tensors ------------------------------------------------------------------------------ */

static bool seal_prove_all(struct zf_build *b, struct zf_err *err)
{
    for (size_t i = 0; i < b->drafts.n; i++) {
        struct zf_draft *d = b->drafts.at[i];

        if (d->kind != ZF_DRAFT_SAME && !draft_prove(d, err))
            return false;
    }
    return true;
}

/* Sorts sets by path and drafts by set and name.  Their numbers are not used any more. */
static void seal_sort(struct zf_build *b)
{
    if (b->drafts.n == 0 || b->sets.n == 0)
        return;
    qsort(b->sets.at, b->sets.n, sizeof *b->sets.at, seal_by_path);
    for (uint32_t i = 0; i < b->sets.n; i++)
        b->sets.at[i]->rank = i;
    for (size_t i = 1; i < b->drafts.n; i++) {
        if (seal_by_set_and_name(&b->drafts.at[i - 1], &b->drafts.at[i]) > 0) {
            qsort(b->drafts.at, b->drafts.n, sizeof *b->drafts.at, seal_by_set_and_name);
            break;
        }
    }
    for (size_t i = 0; i < b->drafts.n; i++) {
        struct zf_draft *d = b->drafts.at[i];
        bool first = i == 0 || d->set != b->drafts.at[i - 1]->set;

        d->number = first ? 0 : b->drafts.at[i - 1]->number + 1;
    }
}

/* Removes hidden drafts, which were needed only to prove the shown ones. */
static void seal_drop_hidden(struct zf_build *b)
{
    size_t n = 0;

    for (size_t i = 0; i < b->drafts.n; i++)
        if (b->drafts.at[i]->set)
            b->drafts.at[n++] = b->drafts.at[i];
    b->drafts.n = n;
}

static bool seal_fill_sets(struct zf_build *b, struct zf_checkpoint *c, struct zf_err *err)
{
    seal_drop_hidden(b);
    struct zf_set *set = zf_arena_get(b->keep, b->sets.n, sizeof *set, err);
    struct zf_tensor *t = set ? zf_arena_get(b->keep, b->drafts.n, sizeof *t, err) : NULL;

    if (!t)
        return false;
    seal_sort(b);
    for (size_t i = 0; i < b->drafts.n; i++) {
        struct zf_draft *d = b->drafts.at[i], *data = draft_data(d), *tie = draft_tie(d);
        uint8_t nan[16];

        t[i] = (struct zf_tensor){.name = draft_name(d),
                                  .name_len = d->name_len,
                                  .ndim = d->ndim,
                                  .dtype = d->dtype,
                                  .shape = d->shape,
                                  .data = data->map,
                                  .alias_of = tie ? tie->number : d->number,
                                  .lost = data->lost,
                                  .apart = d->apart,
                                  .filled = data->lost && b->rest.fill_lost && !data->unshaped &&
                                            zf_dtype_nan(d->dtype, nan) > 0};
    }
    /* A set is created with its first tensor, so it is empty only if that was refused. */
    for (size_t i = 0; i < b->sets.n; i++) {
        const struct draft_set *s = b->sets.at[i];

        if (s->n > 0) {
            set[c->n_sets++] =
                (struct zf_set){.path = s->path, .tensor = t, .n = s->n, .raw_only = s->raw_only};
            t += s->n;
        }
    }
    c->set = set;
    return true;
}

/* ---- blobs -------------------------------------------------------------------------------- */

static bool seal_is_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && path[n] == '/';
}

/* The first set at or after `path` in the order: the only one that can be at or below the path. */
static const struct zf_set *seal_next_set(const struct zf_checkpoint *c, const char *path)
{
    size_t i;

    ZF_SEARCH(i, c->n_sets, path_order(c->set[i].path, path) >= 0);
    return i < c->n_sets ? &c->set[i] : NULL;
}

/* Checks that no path is used twice, or both as a file and as a directory. */
static bool seal_check_blobs(const struct zf_checkpoint *c, struct zf_err *err)
{
    for (uint32_t i = 0; i < c->n_blobs; i++) {
        const char *path = c->blob[i].path;
        const char *next = i + 1 < c->n_blobs ? c->blob[i + 1].path : NULL;
        const struct zf_set *set = seal_next_set(c, path);

        if (next && strcmp(path, next) == 0) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "there are two files named \"%.200s\"",
                           path);
        }
        if ((next && seal_is_below(next, path)) ||
            (set && (strcmp(set->path, path) == 0 || seal_is_below(set->path, path)))) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "\"%.200s\" is the name of both a file and a directory", path);
        }
    }
    return true;
}

static bool seal_fill_blobs(struct zf_build *b, struct zf_checkpoint *c, struct zf_err *err)
{
    const size_t n = b->lists.blobs.n;
    struct zf_blob *blob = zf_arena_copy(b->keep, b->lists.blobs.at, n, sizeof *blob, err);

    if (!blob)
        return false;
    c->n_blobs = (uint32_t)n;
    qsort(blob, c->n_blobs, sizeof *blob, seal_blob_by_path);
    c->blob = blob;
    for (size_t i = 0; n && i < b->lists.told.n; i++) {
        struct zf_blob *of = bsearch(&(struct zf_blob){.path = b->lists.told.at[i]}, blob, n,
                                     sizeof *blob, seal_blob_by_path);

        if (of)
            of->told = true;
    }
    return seal_check_blobs(c, err);
}

/* ---- notes -------------------------------------------------------------------------------- */

static bool seal_fill_notes(struct zf_build *b, struct zf_checkpoint *c, struct zf_err *err)
{
    uint64_t before = b->lists.notes.n, made = 0;

    for (struct note_form *k = b->rest.note_forms; k; k = k->next)
        made += k->n;
    /* The only note of its form, so it is never dropped itself. */
    if (made > before && !zf_build_note(b, err, NOTES_MORE, (unsigned long long)(made - before)))
        return false;
    c->n_notes = (uint32_t)b->lists.notes.n;
    c->note = zf_arena_copy(b->keep, b->lists.notes.at, c->n_notes, sizeof *c->note, err);
    return c->note != NULL;
}

/* Fills in missing files and copies. */
static bool seal_fill_rest(struct zf_build *b, struct zf_checkpoint *c, struct zf_err *err)
{
    c->n_missing = (uint32_t)b->lists.missing.n;
    c->missing = zf_arena_copy(b->keep, b->lists.missing.at, c->n_missing, sizeof *c->missing, err);
    c->n_copies = b->lists.copies.n;
    c->copy = zf_arena_copy(b->keep, b->lists.copies.at, c->n_copies, sizeof *c->copy, err);
    return c->missing && c->copy;
}

/* ---- sealing ------------------------------------------------------------------------------ */

static bool seal_fill(struct zf_build *b, struct zf_checkpoint *c, const char *format,
                      const char *why, struct zf_err *err)
{
    c->format = zf_arena_str(b->keep, format, strlen(format), err);
    c->why = c->format ? zf_arena_str(b->keep, why, strlen(why), err) : NULL;
    if (!c->why || !seal_prove_all(b, err) || !seal_fill_sets(b, c, err) ||
        !seal_fill_blobs(b, c, err) || !seal_fill_notes(b, c, err) || !seal_fill_rest(b, c, err))
        return false;
    c->tag = b->rest.tag;
    c->has_step = b->rest.has_step;
    c->step = b->rest.step;
    c->n_pieces = b->rest.n_pieces + b->rest.n_ruled;
    if (b->store)
        c->mtime = zf_store_mtime(b->store);
    return true;
}

struct zf_checkpoint *zf_build_seal(struct zf_build *build, const char *format, const char *why,
                                    struct zf_err *err)
{
    zf_auto(build) struct zf_build *b = build;
    struct sealed *s = zf_arena_get(b->keep, 1, sizeof *s, err);

    /* The tables are not needed any more, and memory peaks here, with drafts and sealed tensors at once. */
    build_forget_names(b);
    if (!s || !seal_fill(b, &s->c, format, why ? why : "", err))
        return NULL;
    sources_seal(b->sources);
    s->sources = b->sources;
    s->c.store = b->store;
    s->c.arena = b->keep;
    b->sources = NULL;
    b->store = NULL;
    b->keep = NULL;
    return &s->c;
}
