/* SPDX-License-Identifier: Apache-2.0 */
/* A bytes item is a torch.save file, or a pickle.  Both mark their end: a zip archive with its last
 * record, a pickle with its STOP opcode.  So a range that is too short, too long or misplaced is
 * detected without a checksum.  Only a few items are checked while mounting; dcp_whole_new makes a
 * source that checks the item before its first read. */
#include "whole.h"

#include <stdio.h>
#include <string.h>

#include <zf/base/arena.h>
#include <zf/base/bytes.h>
#include <zf/base/num.h>
#include <zf/codec/pickle.h>
#include <zf/codec/zip.h>

#define ZIP_END_BYTES 22u
#define ZIP_COMMENT_MAX 65535u
#define ZIP_END_SIG 0x06054b50u

enum whole_kind { WHOLE_ZIP, WHOLE_PICKLE, WHOLE_OTHER };

static enum whole_kind whole_kind(const uint8_t *head, size_t n)
{
    if (n >= 4 && memcmp(head, "PK\3\4", 4) == 0)
        return WHOLE_ZIP;
    return n >= 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 ? WHOLE_PICKLE : WHOLE_OTHER;
}

/* Is the last byte the end of a zip archive's end record, or of the comment after it? */
static bool whole_zip_end(struct zf_source *s, bool *ends, struct zf_err *err)
{
    uint64_t most = ZIP_END_BYTES + ZIP_COMMENT_MAX, n = s->size < most ? s->size : most;
    zf_auto(mem) uint8_t *tail = malloc(n + 1);

    *ends = false;
    if (!tail)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for the end of an archive");
    for (uint64_t k = ZIP_END_BYTES; !*ends && k <= n; k = k < n ? n : n + 1) {
        /* hardly any archive has a comment: reads 22 bytes first, then the longest possible comment */
        if (!zf_source_pread(s, tail, k, s->size - k, err))
            return false;
        for (uint64_t at = 0; !*ends && at + ZIP_END_BYTES <= k; at++) {
            struct zf_bytes b = zf_bytes_of(tail + at, k - at);

            if (zf_bytes_le32(&b) == ZIP_END_SIG) {
                b.at = ZIP_END_BYTES - 2;
                *ends = zf_bytes_le16(&b) == k - at - ZIP_END_BYTES;
            }
        }
    }
    return true;
}

static bool whole_zip(struct zf_source *s, const struct zf_limits *lim, struct zf_err *err)
{
    bool ends;

    if (!whole_zip_end(s, &ends, err))
        return false;
    if (!ends) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "a zip archive begins there but does not end");
    }
    zf_auto(zip) struct zf_zip *z = zf_zip_open(s, lim, err);

    return z != NULL;
}

/* Checks for one or more pickles up to the last byte.  In torch.save's older stream the storages follow
 * the pickles; zf_torch_open checks their lengths, but not that nothing follows the last one. */
static bool whole_pickle(struct zf_source *s, const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(arena) struct zf_arena *arena = NULL;
    zf_auto(mem) char *p = NULL;

    if (zf_torch_sniff(s)) {
        zf_auto(torch) struct zf_torch *t = zf_torch_open(s, lim, err);

        return t != NULL;
    }
    if (s->size > lim->pickle_bytes)
        return true;
    arena = zf_arena_new(lim->pickle_memory, err);
    p = arena ? zf_source_slurp(s, 0, s->size, err) : NULL;
    struct zf_bytes in = zf_bytes_of(p, s->size);
    if (!p || !zf_pickle_load(&in, arena, lim, err))
        return false;
    return zf_bytes_left(&in) == 0 ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a pickle ends %llu bytes earlier",
                   (unsigned long long)zf_bytes_left(&in));
}

static bool whole_body(struct zf_source *s, const struct zf_limits *lim, struct zf_err *err)
{
    uint8_t head[4] = {0};
    size_t n = s->size < sizeof head ? (size_t)s->size : sizeof head;

    if (!zf_source_pread(s, head, n, 0, err))
        return false;
    switch (whole_kind(head, n)) {
    case WHOLE_ZIP:
        return whole_zip(s, lim, err);
    case WHOLE_PICKLE:
        return whole_pickle(s, lim, err);
    case WHOLE_OTHER:
        break;
    }
    if (zf_torch_sniff(s)) { /* a tar of torch 0.1, a stream of protocol 0 */
        zf_auto(torch) struct zf_torch *t = zf_torch_open(s, lim, err);

        return t != NULL;
    }
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "neither an archive nor a pickle begins there");
}

bool dcp_whole(struct zf_source *file, struct dcp_item item, const struct zf_limits *lim,
               struct zf_err *err)
{
    zf_auto(source) struct zf_source *body = NULL;
    char why[sizeof err->msg];

    if (item.wrap == ZF_DCP_OTHER)
        return true;
    body = dcp_body(file, item, lim->inflate_bytes, lim, err);
    if (body && whole_body(body, lim, err))
        return true;
    if (err->code == ZF_E_UNSUPPORTED) { /* whole, as far as can be checked */
        zf_err_clear(err);
        return true;
    }
    if (err->code != ZF_E_FORMAT && err->code != ZF_E_UNKNOWN)
        return false;
    (void)snprintf(why, sizeof why, "%s", err->msg);
    zf_err_clear(err);
    return zf_fail(err, ZF_E_FORMAT, item.off,
                   "the item of %llu bytes is not one whole torch.save file or pickle: %.200s",
                   (unsigned long long)item.len, why);
}

/* ---- checked before the first read ---- */

struct whole {
    struct zf_source src;
    struct zf_source *file;
    struct dcp_item item;
    struct zf_limits lim;
    atomic_bool known; /* the item is known to be whole */
};

static bool whole_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    struct whole *w = (struct whole *)s;

    if (!atomic_load_explicit(&w->known, memory_order_relaxed)) {
        if (!dcp_whole(w->file, w->item, &w->lim, err))
            return false;
        atomic_store_explicit(&w->known, true, memory_order_relaxed);
    }
    return zf_source_pread(w->file, buf, n, w->item.off + off, err);
}

static bool whole_origin(struct zf_source *s, uint64_t *off, struct zf_source **parent_out)
{
    struct whole *w = (struct whole *)s;

    *off += w->item.off;
    *parent_out = w->file;
    return true;
}

static void whole_fini(struct zf_source *s)
{
    struct whole *w = (struct whole *)s;

    zf_source_unref(&w->file);
    zf_source_fini(s);
    free(w);
}

static bool whole_recipe(struct zf_source *s, struct zf_recipe *out)
{
    const struct whole *w = (const struct whole *)s;

    out->kind = &dcp_whole_kind;
    out->parent = w->file;
    out->n[0] = w->item.off;
    out->n[1] = w->item.len;
    out->n[2] = w->item.wrap;
    return true;
}

static struct zf_source *whole_make(struct zf_remake *r, struct zf_err *err)
{
    const struct dcp_item item = {.off = r->n[0],
                                  .len = r->n[1],
                                  .wrap = r->n[2] == ZF_DCP_PLAIN  ? ZF_DCP_PLAIN
                                          : r->n[2] == ZF_DCP_ZSTD ? ZF_DCP_ZSTD
                                                                   : ZF_DCP_OTHER};

    if (!r->parent || !zf_within(item.off, item.len, r->parent->size))
        return zf_null(zf_fail(err, ZF_E_FORMAT, item.off, "an item outside its file"));
    return dcp_whole_new(r->parent, item, r->lim, err);
}

const struct zf_source_kind dcp_whole_kind = {.name = "whole", .make = whole_make};

static const struct zf_source_ops whole_ops = {
    .kind = "whole",
    .pread = whole_pread,
    .origin = whole_origin,
    .recipe = whole_recipe,
    .fini = whole_fini,
};

struct zf_source *dcp_whole_new(struct zf_source *file, struct dcp_item item,
                                const struct zf_limits *lim, struct zf_err *err)
{
    struct whole *w = zf_source_new(sizeof *w, &whole_ops, file->name, item.len, err);

    if (!w)
        return NULL;
    w->file = zf_source_ref(file);
    w->item = item;
    w->lim = *lim;
    atomic_init(&w->known, false);
    return &w->src;
}
