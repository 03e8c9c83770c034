/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is read completely, and what is recorded about its bytes. */
#include "stretch.h"

#include <zf/base/search.h>
#include <zf/base/thread.h>
#include <zf/codec/zip.h>
#include <zf/codec/zip_parts.h>

#define ZIP_BEGINS "PK\3\4"
#define ZIP_ENDS "PK\5\6"
#define SIGN_BYTES 4u
/* Size of zip's end record, without a comment. */
#define ZIP_END_BYTES 22u

/* Is it a zip archive?  It starts with a signature; if the start is damaged, the end record shows it. */
static bool shard_is_archive(struct zf_source *src, bool *out, struct zf_err *err)
{
    char begin[SIGN_BYTES], end[SIGN_BYTES];

    *out = false;
    if (src->size < ZIP_END_BYTES)
        return true;
    if (!zf_source_pread(src, begin, sizeof begin, 0, err) ||
        !zf_source_pread(src, end, sizeof end, src->size - ZIP_END_BYTES, err))
        return false;
    *out = memcmp(begin, ZIP_BEGINS, sizeof begin) == 0 || memcmp(end, ZIP_ENDS, sizeof end) == 0;
    return true;
}

bool shard_init(struct shard *s, struct zf_source *src, const struct places *places,
                struct zf_err *err)
{
    *s = (struct shard){.src = zf_source_ref(src),
                        .places = places_find(places, src),
                        .lock = PTHREAD_MUTEX_INITIALIZER};
    return shard_is_archive(src, &s->archive, err);
}

void shard_unload(struct shard *s)
{
    for (size_t i = 0; i < s->part.n; i++)
        free(s->part.at[i].name);
    zf_vec_fini(&s->part);
    zf_vec_fini(&s->bad);
}

void shard_fini(struct shard *s)
{
    shard_unload(s);
    zf_source_unref(&s->src);
    (void)pthread_mutex_destroy(&s->lock);
}

/* ---- loading --------------------------------------------------------------------------------- */

struct shard_loading {
    struct shard *s;
    const struct zf_limits *lim;
    uint64_t base; /* offset of the archive */
};

static bool shard_add_part(void *ctx, const struct zf_zip_part *p, struct zf_err *err)
{
    const struct shard_loading *l = ctx;
    struct shard_part *to = zf_vec_push(&l->s->part, err);

    if (!to)
        return false;
    *to = (struct shard_part){.first = l->base + p->first,
                              .end = l->base + p->end,
                              .data = l->base + (p->name ? p->data : p->first),
                              .data_end = l->base + (p->name ? p->data + p->comp_size : p->end),
                              .base = l->base,
                              .crc = p->crc,
                              .packed = p->name && p->method != 0,
                              .differs = p->differs,
                              .name = p->name ? strdup(p->name) : NULL};
    return to->name || !p->name || zf_fail_sys(err, "read an archive");
}

/* Records damage in s->bad and clears it; other failures are returned. */
static bool shard_keep_bad(struct shard *s, uint64_t first, uint64_t end, struct zf_err *err)
{
    if (err->code != ZF_E_FORMAT && err->code != ZF_E_UNSUPPORTED && err->code != ZF_E_LIMIT)
        return false;
    const struct zf_err why = *err;
    struct shard_bad *to = zf_vec_push(&s->bad, err);

    if (!to)
        return false;
    *to = (struct shard_bad){.first = first, .end = end, .why = why};
    zf_err_clear(err);
    return true;
}

/* Checks bytes outside of archives: an archive that starts there lacks its directory.  only: bytes next to the only
 * archive of a file become a part, too. */
static bool shard_add_rest(struct shard_loading *l, uint64_t first, uint64_t end, bool only,
                           struct zf_err *err)
{
    char sign[SIGN_BYTES] = "";
    const struct zf_zip_part rest = {.first = first, .end = end};

    if (end - first >= sizeof sign && !zf_source_pread(l->s->src, sign, sizeof sign, first, err))
        return false;
    if (memcmp(sign, ZIP_BEGINS, sizeof sign) == 0) {
        (void)zf_fail(err, ZF_E_FORMAT, first,
                      "a zip archive begins here, but its directory is missing");
        return shard_keep_bad(l->s, first, end, err);
    }
    l->base = 0;
    return !only || first == end || shard_add_part(l, &rest, err);
}

static bool shard_load_archive(struct shard_loading *l, struct zf_zip_span at, struct zf_err *err)
{
    zf_auto(source) struct zf_source *window =
        zf_window_new(l->s->src, at.first, at.end - at.first, NULL, err);
    const size_t before = l->s->part.n;

    l->base = at.first;
    zf_auto(zip) struct zf_zip *z = window ? zf_zip_open(window, l->lim, err) : NULL;
    if (z && zf_zip_check_overlap(z, err) && zf_zip_each_part(window, shard_add_part, l, err))
        return true;
    while (l->s->part.n > before)
        free(l->s->part.at[--l->s->part.n].name);
    return window && shard_keep_bad(l->s, at.first, at.end, err);
}

static int shard_by_place(const void *a, const void *b)
{
    const struct shard_part *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

/* Loads all archives, from the last to the first. */
static bool shard_load_all(struct shard_loading *l, struct zf_err *err)
{
    uint64_t end = l->s->src->size;
    bool found = true;

    for (unsigned n = 0; found; n++) {
        struct zf_zip_span at;

        if (!zf_zip_last(l->s->src, end, &found, &at, err) ||
            (found && !shard_load_archive(l, at, err)) ||
            !shard_add_rest(l, found ? at.end : 0, end, n < 2 && (!found || at.first == 0), err))
            return false;
        end = found ? at.first : end;
        found = found && end > 0;
    }
    if (l->s->part.n > 0)
        qsort(l->s->part.at, l->s->part.n, sizeof *l->s->part.at, shard_by_place);
    return true;
}

bool shard_load(struct shard *s, const struct zf_limits *lim, struct zf_err *err)
{
    struct shard_loading l = {.s = s, .lim = lim};
    bool ok = true;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&s->lock);
    if (s->archive && !s->loaded) {
        ok = shard_load_all(&l, err);
        s->loaded = ok;
    }
    return ok;
}

size_t shard_part_at(const struct shard *s, uint64_t off)
{
    size_t i;

    ZF_SEARCH(i, s->part.n, s->part.at[i].end > off);
    return i;
}

bool shard_unpack(const struct shard *s, const struct shard_part *p, const struct zf_limits *lim,
                  void *buf, size_t room, struct zf_err *err)
{
    uint64_t i, end = s->src->size;

    for (size_t k = shard_part_at(s, p->end); k < s->part.n && end == s->src->size; k++)
        end = s->part.at[k].base > p->base ? s->part.at[k].base : end;
    zf_auto(source) struct zf_source *window =
        zf_window_new(s->src, p->base, end - p->base, NULL, err);
    zf_auto(zip) struct zf_zip *z = window ? zf_zip_open(window, lim, err) : NULL;
    zf_auto(source) struct zf_source *src =
        z && zf_zip_find(z, p->name, &i) ? zf_zip_source(z, i, err) : NULL;

    for (uint64_t at = 0; src && at < src->size; at += room) {
        const size_t n = src->size - at < room ? (size_t)(src->size - at) : room;

        if (!zf_source_pread(src, buf, n, at, err))
            return false;
    }
    return src != NULL;
}
