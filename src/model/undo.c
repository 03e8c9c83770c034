/* SPDX-License-Identifier: Apache-2.0 */
/* All or nothing.  Whatever is new since a mark lies behind a count that the mark remembers, so withdrawing it is going back to these.  Only drafts that are older and got pieces,
 * and the counts of notes, change in place: their bytes are saved before the first change after a
 * mark, and put back, the last first. */
#include <string.h>

#include "build_kind.h"

bool zf_build_mark(struct zf_build *b, struct zf_err *err)
{
    struct build_mark *m = zf_arena_get(b->temp, 1, sizeof *m, err);

    if (m) {
        *m = (struct build_mark){.outer = b->mark,
                                 .number = ++b->n_marks,
                                 .n_drafts = b->drafts.n,
                                 .n_sets = b->sets.n,
                                 .n_blobs = b->lists.blobs.n,
                                 .n_told = b->lists.told.n,
                                 .n_notes = b->lists.notes.n,
                                 .n_named = b->lists.named.n,
                                 .n_missing = b->lists.missing.n,
                                 .n_copies = b->lists.copies.n,
                                 .n_sources = (uint32_t)b->sources->n,
                                 .rest = b->rest,
                                 .saved = b->saved};
        b->mark = m;
    }
    return m != NULL;
}

void zf_build_keep(struct zf_build *b)
{
    b->mark = b->mark->outer;
}

void zf_build_undo(struct zf_build *b)
{
    const struct build_mark *m = b->mark;

    build_forget_asked(b);
    for (; b->saved != m->saved; b->saved = b->saved->next)
        memcpy(b->saved->at, b->saved->was, b->saved->n);
    while (b->drafts.n > m->n_drafts) {
        struct zf_draft *d = b->drafts.at[--b->drafts.n];

        if (d->set) {
            HASH_DEL(d->set->drafts, d);
            d->set->n--;
        }
    }
    while (b->sets.n > m->n_sets)
        HASH_DEL(b->by_path, b->sets.at[--b->sets.n]);
    sources_cut(b->sources, m->n_sources);
    b->lists.blobs.n = m->n_blobs;
    b->lists.told.n = m->n_told;
    b->lists.notes.n = m->n_notes;
    b->lists.named.n = m->n_named;
    b->lists.missing.n = m->n_missing;
    b->lists.copies.n = m->n_copies;
    b->rest = m->rest;
    b->mark = m->outer;
}

bool build_save(struct zf_build *b, void *at, size_t n, uint32_t *mark, struct zf_err *err)
{
    if (!b->mark || *mark == b->mark->number)
        return true;
    struct build_saved *s = zf_arena_get(b->temp, 1, sizeof *s + n, err);
    if (!s)
        return false;
    *s = (struct build_saved){.next = b->saved, .at = at, .n = n};
    memcpy(s->was, at, n);
    b->saved = s;
    *mark = b->mark->number;
    return true;
}

/* Pieces are added to the last block in place; the table of names stays as it is. */
static bool undo_save_draft(struct zf_draft *d, struct zf_err *err)
{
    struct zf_build *b = d->b;
    struct piece_block *last = draft_blocks(d) ? d->pieces.last : NULL;
    uint32_t no_mark = 0;

    if (!b->mark || d->number >= b->mark->n_drafts || d->mark == b->mark->number)
        return true;
    return (!last || build_save(b, last, sizeof *last, &no_mark, err)) &&
           build_save(b, &d->b, sizeof *d - sizeof d->hh, &d->mark, err);
}

bool draft_change(struct zf_draft *d, struct zf_err *err)
{
    if (!undo_save_draft(d, err))
        return false;
    d->map = NULL;
    return true;
}
