/* SPDX-License-Identifier: Apache-2.0 */
/* Every number is a stranger's: what is counted is there at least once a byte, what is pointed
 * at was read before, and all else is for the verbs and the seal to refuse. */
#include <zf/model/pack.h>

#include "draft.h"
#include "map_slots.h"
#include "pack.h"

struct unpacking {
    struct zf_build *b;
    struct zf_bytes *in;
    struct zf_source *const *source;
    uint64_t n_sources;
    struct zf_stretches **stretches; /* [n_stretches]; in b's memory, like paths */
    const char **path;               /* [n_paths] of sets */
    uint64_t n_stretches, n_paths;
    zf_vec(uint64_t) numbers; /* of one piece */
};

static bool unpack_bad(const struct unpacking *u, const char *what, struct zf_err *err)
{
    return zf_fail(err, ZF_E_FORMAT, zf_bytes_off(u->in), "a packed model with %s", what);
}

/* A number of things of a byte at least each. */
static bool unpack_count(struct unpacking *u, uint64_t *n_out, struct zf_err *err)
{
    *n_out = zf_bytes_var(u->in);
    return (!u->in->bad && *n_out <= zf_bytes_left(u->in)) ||
           unpack_bad(u, "more things than bytes", err);
}

/* Borrowed from the input, not terminated. */
static const char *unpack_text(struct unpacking *u, uint64_t *n_out, struct zf_err *err)
{
    const char *p = zf_bytes_counted(u->in, n_out);

    if (!p) {
        (void)unpack_bad(u, "a text that is cut", err);
    }
    return p;
}

/* A copy that lives as long as the build. */
static const char *unpack_str(struct unpacking *u, struct zf_err *err)
{
    uint64_t n;
    const char *p = unpack_text(u, &n, err);

    return p ? zf_arena_str(u->b->temp, p, n, err) : NULL;
}

static bool unpack_source(struct unpacking *u, uint64_t number, struct zf_source **out,
                          struct zf_err *err)
{
    *out = NULL;
    if (number == PACK_ZEROS) {
        return true;
    }
    if (number < PACK_SOURCES || number - PACK_SOURCES >= u->n_sources) {
        return unpack_bad(u, "a source that it does not have", err);
    }
    *out = u->source[number - PACK_SOURCES];
    return true;
}

/* n numbers, good until the next call. */
static uint64_t *unpack_numbers(struct unpacking *u, uint64_t n, struct zf_err *err)
{
    if (n > zf_bytes_left(u->in)) {
        (void)unpack_bad(u, "more numbers than bytes", err);
        return NULL;
    }
    u->numbers.n = 0;
    if (!zf_vec_room(&u->numbers, (size_t)n + 1, err)) {
        return NULL;
    }
    for (uint64_t i = 0; i < n; i++) {
        u->numbers.at[i] = zf_bytes_var(u->in);
    }
    return u->numbers.at;
}

/* ---- notes and stretches ---- */

static bool unpack_notes(struct unpacking *u, struct zf_err *err)
{
    uint64_t n, len;

    if (!unpack_count(u, &n, err)) {
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        const char *p = unpack_text(u, &len, err);

        if (!p || !build_keep_note(u->b, p, len, err)) {
            return false;
        }
    }
    return true;
}

static struct zf_stretches *unpack_stretches(struct unpacking *u, struct zf_err *err)
{
    uint64_t bytes = zf_bytes_var(u->in), n;

    if (!unpack_count(u, &n, err) ||
        (n > UINT32_MAX && !unpack_bad(u, "too many stretches", err))) {
        return NULL;
    }
    zf_auto(mem) struct zf_from *from = calloc(n + 1, sizeof *from);
    if (!from) {
        (void)zf_fail_sys(err, "unpack a model");
        return NULL;
    }
    for (uint64_t k = 0; k < n; k++) {
        if (!unpack_source(u, zf_bytes_var(u->in), &from[k].src, err)) {
            return NULL;
        }
        from[k].off = zf_bytes_var(u->in);
    }
    return zf_build_stretches(u->b, from, (uint32_t)n, bytes, err);
}

static bool unpack_all_stretches(struct unpacking *u, struct zf_err *err)
{
    if (!unpack_count(u, &u->n_stretches, err)) {
        return false;
    }
    u->stretches = zf_arena_get(u->b->temp, u->n_stretches, sizeof *u->stretches, err);
    for (uint64_t i = 0; u->stretches && i < u->n_stretches; i++) {
        u->stretches[i] = unpack_stretches(u, err);
        if (!u->stretches[i]) {
            return u->in->bad ? unpack_bad(u, "stretches that are cut", err) : false;
        }
    }
    return u->stretches != NULL;
}

/* ---- tensors ---- */

static bool unpack_flat_piece(struct unpacking *u, struct zf_draft *d, struct zf_err *err)
{
    uint64_t first = zf_bytes_var(u->in), n = zf_bytes_var(u->in), number = zf_bytes_var(u->in);
    uint64_t of = number == PACK_PART ? zf_bytes_var(u->in) : 0, off = zf_bytes_var(u->in);
    struct zf_from from = {.off = off};

    if (u->in->bad) {
        return unpack_bad(u, "a piece that is cut", err);
    }
    if (number == PACK_PART) {
        return of < d->number ? zf_draft_part(d, first, n, u->b->drafts.at[of], off, err)
                              : unpack_bad(u, "a part of a later tensor", err);
    }
    return unpack_source(u, number, &from.src, err) && zf_draft_flat(d, first, n, from, err);
}

static bool unpack_box_piece(struct unpacking *u, struct zf_draft *d, struct zf_err *err)
{
    const uint64_t nd = d->ndim;
    /* start, size, source, offset, strided, strides */
    uint64_t *v = unpack_numbers(u, 2 * nd + 3, err);
    struct zf_from from = {0};

    if (!v || u->in->bad || !unpack_source(u, v[2 * nd], &from.src, err)) {
        return v && u->in->bad ? unpack_bad(u, "a box that is cut", err) : false;
    }
    from.off = v[2 * nd + 1];
    if (!v[2 * nd + 2]) {
        return zf_draft_box(d, v, v + nd, from, err);
    }
    zf_auto(mem) uint64_t *box = malloc((size_t)(2 * nd + 1) * sizeof *box);
    if (!box) {
        return zf_fail_sys(err, "unpack a model");
    }
    memcpy(box, v, (size_t)(2 * nd) * sizeof *box);
    from.stride = unpack_numbers(u, nd, err);
    if (!from.stride || u->in->bad) {
        return from.stride ? unpack_bad(u, "a box that is cut", err) : false;
    }
    return zf_draft_box(d, box, box + nd, from, err);
}

static bool unpack_pieces(struct unpacking *u, struct zf_draft *d, bool boxes, struct zf_err *err)
{
    uint64_t n;

    if (!unpack_count(u, &n, err)) {
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!(boxes ? unpack_box_piece(u, d, err) : unpack_flat_piece(u, d, err))) {
            return false;
        }
    }
    return true;
}

static bool unpack_value(struct unpacking *u, struct zf_draft *d, struct zf_err *err)
{
    const void *p = zf_bytes_take(u->in, draft_bytes(d));

    if (!p) {
        return unpack_bad(u, "a value that is cut", err);
    }
    d->kind = ZF_DRAFT_MEM;
    d->mem = zf_arena_str(u->b->keep, p, draft_bytes(d), err);
    return d->mem != NULL;
}

static bool unpack_slots(struct unpacking *u, struct zf_draft *d, struct zf_err *err)
{
    uint64_t of = zf_bytes_var(u->in), at = zf_bytes_var(u->in), slot = zf_bytes_var(u->in);

    return of < u->n_stretches ? zf_draft_slots(d, u->stretches[of], at, slot, err)
                               : unpack_bad(u, "stretches that it does not have", err);
}

static bool unpack_data(struct unpacking *u, struct zf_spot spot, uint8_t kind, bool apart,
                        struct zf_err *err)
{
    uint8_t dtype = zf_bytes_u8(u->in);
    uint64_t ndim = zf_bytes_var(u->in);
    const uint64_t *shape = dtype < ZF_DT_COUNT ? unpack_numbers(u, ndim, err) : NULL;

    if (dtype >= ZF_DT_COUNT || (shape && (u->in->bad || ndim > UINT32_MAX))) {
        return unpack_bad(u, "a tensor of no type", err);
    }
    struct zf_draft *d =
        shape ? zf_build_tensor(u->b, spot, (struct zf_type){dtype, (uint32_t)ndim, shape}, err)
              : NULL;
    if (!d || (apart && !zf_draft_apart(d, err))) {
        return false;
    }
    switch (kind) {
    case ZF_DRAFT_EMPTY:
        return true;
    case ZF_DRAFT_FLAT:
    case ZF_DRAFT_BOX:
        return unpack_pieces(u, d, kind == ZF_DRAFT_BOX, err);
    case ZF_DRAFT_MEM:
        return unpack_value(u, d, err);
    case ZF_DRAFT_SLOTS:
        return unpack_slots(u, d, err);
    }
    return unpack_bad(u, "a tensor of no kind", err);
}

/* Another name of a tensor that was unpacked before. */
static bool unpack_same(struct unpacking *u, struct zf_spot spot, uint8_t flags, struct zf_err *err)
{
    uint64_t of = zf_bytes_var(u->in);
    struct zf_draft *d = of < u->b->drafts.n ? u->b->drafts.at[of] : NULL;

    if (!d || u->in->bad || !spot.set) {
        return unpack_bad(u, "a name of a tensor that it does not have", err);
    }
    if (flags & PACK_TIE) {
        return d->set && strcmp(d->set->path, spot.set) == 0
                   ? zf_build_alias(u->b, d, spot.name, spot.name_len, err)
                   : unpack_bad(u, "a tie across sets", err);
    }
    return zf_build_show(u->b, spot, d, err) != NULL;
}

static bool unpack_draft(struct unpacking *u, struct zf_err *err)
{
    uint8_t flags = zf_bytes_u8(u->in);
    uint64_t set = flags & PACK_HIDDEN ? 0 : zf_bytes_var(u->in), n;
    const char *name = unpack_text(u, &n, err);
    struct zf_spot spot = {.name = name, .name_len = (size_t)n};

    if (!name) {
        return false;
    }
    if (!(flags & PACK_HIDDEN)) {
        if (set >= u->n_paths) {
            return unpack_bad(u, "a set that it does not have", err);
        }
        spot.set = u->path[set];
    }
    if (!(flags & (PACK_SAME | PACK_TIE))) {
        return unpack_data(u, spot, flags & PACK_KIND, flags & PACK_APART, err);
    }
    return unpack_same(u, spot, flags, err) &&
           (!(flags & PACK_APART) || zf_draft_apart(u->b->drafts.at[u->b->drafts.n - 1], err));
}

static bool unpack_drafts(struct unpacking *u, struct zf_err *err)
{
    uint64_t n;

    if (!unpack_count(u, &u->n_paths, err) ||
        !(u->path = zf_arena_get(u->b->temp, u->n_paths, sizeof(*u->path), err))) {
        return false;
    }
    for (uint64_t i = 0; i < u->n_paths; i++) {
        if (!(u->path[i] = unpack_str(u, err)) ||
            (zf_bytes_u8(u->in) && !zf_build_raw_only(u->b, u->path[i], err))) {
            return false;
        }
    }
    if (!unpack_count(u, &n, err)) {
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!unpack_draft(u, err)) {
            return false;
        }
    }
    return true;
}

/* ---- files ---- */

static bool unpack_file(struct unpacking *u, struct zf_err *err)
{
    const char *path = unpack_str(u, err), *text;
    struct zf_source *src;
    uint64_t n;

    if (!path) {
        return false;
    }
    if (zf_bytes_u8(u->in) == PACK_BYTES) {
        text = unpack_text(u, &n, err);
        return text && zf_build_text(u->b, path, text, n, err);
    }
    if (!unpack_source(u, zf_bytes_var(u->in), &src, err) || !src) {
        return src ? false : unpack_bad(u, "a file of nothing", err);
    }
    uint64_t off = zf_bytes_var(u->in);
    n = zf_bytes_var(u->in);
    return zf_build_blob(u->b, path, src, off, n, err);
}

static bool unpack_files(struct unpacking *u, struct zf_err *err)
{
    uint64_t n;

    if (!unpack_count(u, &n, err)) {
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!unpack_file(u, err)) {
            return false;
        }
    }
    if (!unpack_count(u, &n, err)) {
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        const char *path = unpack_str(u, err);

        if (!path || !zf_build_told(u->b, path, err)) {
            return false;
        }
    }
    return (!u->in->bad && zf_bytes_left(u->in) == 0) || unpack_bad(u, "a wrong end", err);
}

static bool unpack_all(struct unpacking *u, struct zf_err *err)
{
    const char *tag = unpack_str(u, err);

    if (!tag || (*tag && !zf_build_tag(u->b, tag, err))) {
        return false;
    }
    bool has_step = zf_bytes_u8(u->in);
    uint64_t step = zf_bytes_var(u->in);
    if (has_step) {
        zf_build_step(u->b, (int64_t)step);
    }
    return unpack_notes(u, err) && unpack_all_stretches(u, err) && unpack_drafts(u, err) &&
           unpack_files(u, err);
}

bool zf_build_unpack(struct zf_build *b, struct zf_bytes *in, struct zf_source *const *source,
                     uint64_t n, struct zf_err *err)
{
    struct unpacking u = {.b = b, .in = in, .source = source, .n_sources = n};
    bool ok = unpack_all(&u, err);

    zf_vec_fini(&u.numbers);
    return ok;
}
