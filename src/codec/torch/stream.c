/* SPDX-License-Identifier: Apache-2.0 */
/* Consecutive pickles in a file, followed by the storages. */
#include <stdlib.h>
#include <string.h>

#include "file.h"

#define STREAM_STEP (1u << 20)

/* The slot for the next pickle's own arena; NULL: all are in use, and further pickles share t->arena. */
static struct zf_arena **stream_place_of_arena(struct zf_torch *t)
{
    size_t i = 0;

    while (i < sizeof t->large / sizeof t->large[0] && t->large[i])
        i++;
    return i < sizeof t->large / sizeof t->large[0] ? &t->large[i] : NULL;
}

/* The bytes of a pickle that were read so far. */
struct stream {
    uint8_t *p;
    uint64_t n;
};

static void zf_auto_stream(struct stream *s)
{
    free(s->p);
}

/* Reads more, so that s holds n bytes from `off` on. */
static bool stream_read(struct zf_torch *t, struct stream *s, uint64_t off, uint64_t n,
                        struct zf_err *err)
{
    uint8_t *p = realloc(s->p, n ? n : 1);

    if (!p)
        return torch_no_room(t, n, err);
    s->p = p;
    if (!zf_source_pread(t->src, p + s->n, n - s->n, off + s->n, err))
        return false;
    s->n = n;
    return true;
}

/* The number of bytes to read next, after n: few steps, and little is read beyond the pickle's end. */
static uint64_t stream_step(uint64_t n)
{
    return n < STREAM_STEP ? n : n / 16 > STREAM_STEP ? n / 16 : STREAM_STEP;
}

/* Reads a pickle, whose length is stored nowhere: up to its STOP, at most `most` bytes. */
static bool stream_find_end(struct zf_torch *t, struct stream *s, uint64_t off, uint64_t guess,
                            uint64_t most, struct zf_err *err)
{
    uint64_t at = 0, want = guess;

    for (;;) {
        uint64_t n = want < most - at ? at + want : most;

        if (!stream_read(t, s, off, n, err))
            return false;
        struct zf_bytes in = zf_bytes_of(s->p, s->n);

        in.at = at;
        if (zf_pickle_end(&in, &want) || !in.bad || s->n == most)
            return true;
        at = in.at;
        n = s->n - at + stream_step(s->n);
        want = want > n ? want : n;
    }
}

const struct zf_pv *torch_stream_load(struct zf_torch *t, uint64_t *off, uint64_t guess,
                                      struct zf_err *err)
{
    uint64_t left = t->src->size - *off;
    uint64_t most = left < t->lim.pickle_bytes ? left : t->lim.pickle_bytes;
    uint64_t bound = t->src->size - t->src->stored > t->lim.meta_slack
                         ? t->src->stored + t->lim.meta_slack
                         : UINT64_MAX; /* limits only a file that is decompressed */
    zf_auto(stream) struct stream s = {.n = 0};

    if (!stream_find_end(t, &s, *off, guess, most < bound ? most : bound, err))
        return NULL;
    struct zf_bytes in = zf_bytes_of(s.p, s.n);
    struct zf_arena **place = stream_place_of_arena(t);

    in.base = *off;
    if (place && !(*place = zf_arena_new(t->lim.pickle_memory, err)))
        return NULL;
    const struct zf_pv *v = zf_pickle_load_with(
        &in, place ? *place : t->arena, &t->lim,
        &(struct zf_pickle_with){.stored = t->src->stored, .pids_out = &t->pids}, err);

    if (!v)
        return zf_null(zf_err_in(err, "%s", t->src->name));
    *off += in.at;
    t->pickle_bytes = in.at > t->pickle_bytes ? in.at : t->pickle_bytes;
    return v;
}
