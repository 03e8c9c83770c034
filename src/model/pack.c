/* SPDX-License-Identifier: Apache-2.0 */
/* Serializes a model.  One walk both writes and reads, so each record is described once.  Input is
 * untrusted: a count is at most the number of bytes left, an index refers to an earlier record, and
 * everything else is checked by the functions that build a model, and by the seal.
 *
 * Numbers are written by zf_out_var; texts have their length in front:
 *
 *   tag, step (0, or 1 and the step), notes
 *   stretches: how many; of each: bytes, n, and source and offset [n]
 *   sets: how many; of each: path, raw_only
 *   tensors: how many; of each a byte of enum pack_flags and kind, then
 *     not hidden: number of its set
 *     name
 *     a tie, or shown elsewhere: number of the tensor; nothing else
 *     dtype, ndim, shape
 *     flat: how many pieces; of each: first, n, source, offset, or PACK_PART, tensor, its first element
 *     boxes: how many pieces; of each: start, size, source, offset, 0 or 1 and the strides
 *     value: its bytes
 *     slots: number of its stretches, at, slot
 *   files: how many; of each: path, then 1, source, offset and size, or 0 and the bytes
 *   files that repeat others: how many; of each: path
 *
 * A source is its number and PACK_SOURCES, or PACK_ZEROS. */
#include <zf/model/pack.h>

#include <stdio.h>

#include "draft.h"
#include "map_slots.h"

enum { PACK_ZEROS, PACK_PART, PACK_SOURCES };
enum pack_flags { PACK_KIND = 7, PACK_HIDDEN = 8, PACK_SAME = 16, PACK_TIE = 32, PACK_APART = 64 };

struct pack_stretches {
    UT_hash_handle hh; /* key: the address */
    uint64_t number;
};

struct pack {
    struct zf_build *b;
    struct zf_out *out;  /* writing, or NULL */
    struct zf_bytes *in; /* reading, or NULL; bad like this */
    bool bad;            /* failed with *err; further writes and reads do nothing */
    struct zf_err *err;
    /* Writing. */
    zf_pack_source_fn *number;
    void *ctx;
    uint64_t *known;                /* [sources] number + 1, or 0 */
    struct pack_stretches *written; /* uthash */
    /* Reading. */
    struct zf_source *const *source; /* [n_sources] */
    uint64_t n_sources, n_paths;
    const char **path; /* [n_paths] of sets; the build's memory */

    zf_vec(const struct zf_stretches *) stretches; /* by number */
    zf_vec(uint64_t) words;                        /* scratch for one shape or piece */
};

/* ---- numbers and texts: each function writes its argument, or returns what it read ---------- */

static void pack_check(struct pack *p, bool ok)
{
    if (!ok) {
        p->bad = true;
        if (p->in)
            p->in->bad = true;
    }
}

static void pack_refuse(struct pack *p, const char *what)
{
    if (!p->bad) {
        pack_check(
            p, zf_fail(p->err, ZF_E_FORMAT, zf_bytes_off(p->in), "the stored model has %s", what));
    }
}

/* Is this a read that has succeeded so far? */
static bool pack_reads(const struct pack *p)
{
    return p->in && !p->bad;
}

static uint64_t pack_var(struct pack *p, uint64_t v)
{
    if (p->out) {
        zf_out_var(p->out, v);
        return v;
    }
    v = zf_bytes_var(p->in);
    if (p->in->bad)
        pack_refuse(p, "a truncated number");
    return v;
}

static uint8_t pack_byte(struct pack *p, uint8_t v)
{
    if (p->out) {
        zf_out_u8(p->out, v);
        return v;
    }
    v = zf_bytes_u8(p->in);
    if (p->in->bad)
        pack_refuse(p, "a missing byte");
    return v;
}

static void pack_each(struct pack *p, uint64_t *v, uint64_t n)
{
    for (uint64_t i = 0; i < n && !p->bad; i++)
        v[i] = pack_var(p, v[i]);
}

/* A count of records, each of at least one byte; 0 if fewer bytes are left. */
static uint64_t pack_count(struct pack *p, uint64_t n)
{
    n = pack_var(p, n);
    if (p->in && n > zf_bytes_left(p->in)) {
        pack_refuse(p, "more things than bytes");
        n = 0;
    }
    return n;
}

/* A text read is borrowed from the input, and not terminated. */
static const char *pack_text(struct pack *p, const char *text, uint64_t *n)
{
    if (p->out) {
        zf_out_counted(p->out, text, *n);
        return text;
    }
    text = zf_bytes_counted(p->in, n);
    if (!text) {
        pack_refuse(p, "a text that is cut");
        *n = 0;
    }
    return text ? text : "";
}

/* A text read is copied into the build's memory. */
static const char *pack_str(struct pack *p, const char *text)
{
    uint64_t n = text ? strlen(text) : 0;

    text = pack_text(p, text, &n);
    if (pack_reads(p)) {
        text = zf_arena_str(p->b->temp, text, n, p->err);
        pack_check(p, text != NULL);
    }
    return text;
}

/* Scratch for n numbers: the first `keep` copied from v, the others 0. */
static uint64_t *pack_words(struct pack *p, uint64_t n, const uint64_t *v, uint64_t keep)
{
    p->words.n = 0;
    if (!zf_vec_room(&p->words, (size_t)n + 1, p->err)) {
        pack_check(p, false);
        return NULL;
    }
    memset(p->words.at, 0, (size_t)(n + 1) * sizeof *p->words.at);
    return keep ? memcpy(p->words.at, v, (size_t)keep * sizeof *v) : p->words.at;
}

/* ---- sources and stretches ------------------------------------------------------------------ */

/* The number written for source i of the build's table. */
static uint64_t pack_code(struct pack *p, uint64_t i)
{
    uint64_t number = 0;

    if (i == 0 || p->bad)
        return PACK_ZEROS;
    if (!p->known[i]) {
        pack_check(p, p->number(p->ctx, p->b->sources->at[i], &number, p->err));
        p->known[i] = number + 1;
    }
    return PACK_SOURCES + p->known[i] - 1;
}

static struct zf_source *pack_source(struct pack *p, uint64_t code)
{
    if (p->out || code == PACK_ZEROS)
        return NULL;
    if (code < PACK_SOURCES || code - PACK_SOURCES >= p->n_sources) {
        pack_refuse(p, "a missing source");
        return NULL;
    }
    return p->source[code - PACK_SOURCES];
}

/* A source and offset. */
static struct zf_from pack_place(struct pack *p, uint64_t i, uint64_t off)
{
    const uint64_t code = pack_var(p, pack_code(p, i));

    return (struct zf_from){.src = pack_source(p, code), .off = pack_var(p, off)};
}

/* s: NULL when it is read. */
static void pack_stretches(struct pack *p, const struct zf_stretches *s)
{
    const uint64_t bytes = pack_var(p, s ? s->bytes : 0), n = pack_count(p, s ? s->n : 0);
    zf_auto(mem) struct zf_from *from = calloc(n + 1, sizeof *from);

    if (!from || n > UINT32_MAX) {
        pack_check(p,
                   from ? zf_table_full(UINT32_MAX, p->err) : zf_fail_sys(p->err, "pack a model"));
        return;
    }
    for (uint64_t k = 0; k < n; k++)
        from[k] = pack_place(p, s ? s->src[k] : 0, s ? s->off[k] : 0);
    if (pack_reads(p)) {
        s = zf_build_stretches(p->b, from, (uint32_t)n, bytes, p->err);
        pack_check(p, s && zf_vec_room(&p->stretches, 1, p->err));
        if (!p->bad)
            p->stretches.at[p->stretches.n++] = s;
    }
}

/* Gives the stretches of all drafts their numbers. */
static bool pack_number_stretches(struct pack *p)
{
    for (size_t i = 0; i < p->b->drafts.n; i++) {
        const struct zf_draft *d = p->b->drafts.at[i];
        const struct zf_stretches *of = d->kind == ZF_DRAFT_SLOTS ? d->slots->of : NULL;

        if (!of || zf_table_find_id(p->written, (uintptr_t)of))
            continue;
        struct pack_stretches *e = zf_table_make_id(p->written, (uintptr_t)of, p->err);
        if (!e || !zf_vec_room(&p->stretches, 1, p->err))
            return false;
        e->number = p->stretches.n;
        p->stretches.at[p->stretches.n++] = of;
    }
    return true;
}

static void pack_all_stretches(struct pack *p)
{
    const uint64_t n = pack_count(p, p->stretches.n);

    for (uint64_t i = 0; i < n && !p->bad; i++)
        pack_stretches(p, p->out ? p->stretches.at[i] : NULL);
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* x: the piece to write, or the record to read into. */
static void pack_flat_piece(struct pack *p, struct zf_draft *d, struct piece *x)
{
    pack_each(p, x->box, 2);
    const uint64_t code = pack_var(p, x->of ? PACK_PART : pack_code(p, x->src));
    const bool part = code == PACK_PART;
    const uint64_t of = part ? pack_var(p, x->of ? x->of->number : 0) : 0;
    const uint64_t off = pack_var(p, part ? x->off / zf_dtype_info(d->dtype)->bytes : x->off);
    const struct zf_from from = {.src = part ? NULL : pack_source(p, code), .off = off};

    if (!pack_reads(p))
        return;
    if (!part)
        pack_check(p, zf_draft_flat(d, x->box[0], x->box[1], from, p->err));
    else if (of < d->number)
        pack_check(p, zf_draft_part(d, x->box[0], x->box[1], p->b->drafts.at[of], off, p->err));
    else
        pack_refuse(p, "a part of a later tensor");
}

/* The same for a box; its strides are stored after it. */
static void pack_box_piece(struct pack *p, struct zf_draft *d, struct piece *x)
{
    uint64_t *start = x->box, *size = start + d->ndim, *stride = size + d->ndim;

    pack_each(p, start, 2 * (uint64_t)d->ndim);
    struct zf_from from = pack_place(p, x->src, x->off);
    if (pack_byte(p, x->stride != NULL)) {
        if (x->stride)
            memcpy(stride, x->stride, d->ndim * sizeof *stride);
        pack_each(p, stride, d->ndim);
        from.stride = stride;
    }
    if (pack_reads(p))
        pack_check(p, zf_draft_box(d, start, size, from, p->err));
}

static void pack_pieces(struct pack *p, struct zf_draft *d, bool boxes)
{
    const uint64_t n = pack_count(p, d->n_pieces);
    const uint64_t words = piece_words(d), room = sizeof(struct piece) / 8 + 3 * (d->ndim + 1ull);
    struct piece_walk walk = piece_walk(d);

    for (uint64_t i = 0; i < n && !p->bad; i++) {
        const struct piece *from = p->out ? piece_next(&walk) : NULL;
        struct piece *x = (void *)pack_words(p, room, (const void *)from, from ? words : 0);

        if (x && boxes)
            pack_box_piece(p, d, x);
        else if (x)
            pack_flat_piece(p, d, x);
    }
}

static void pack_value(struct pack *p, struct zf_draft *d)
{
    const uint64_t n = draft_bytes(d);

    if (p->out) {
        zf_out_add(p->out, d->mem, (size_t)n);
        return;
    }
    const void *value = zf_bytes_take(p->in, n);
    if (!value) {
        pack_refuse(p, "a truncated value");
        return;
    }
    d->kind = ZF_DRAFT_MEM;
    d->mem = zf_arena_str(p->b->keep, value, n, p->err);
    pack_check(p, d->mem != NULL);
}

static void pack_slots(struct pack *p, struct zf_draft *d)
{
    const uint64_t elem = zf_dtype_info(d->dtype)->bytes;
    const struct slots s = p->out ? *d->slots : (struct slots){0};
    const struct pack_stretches *e = p->out ? zf_table_find_id(p->written, (uintptr_t)s.of) : NULL;
    const uint64_t of = pack_var(p, e ? e->number : 0), at = pack_var(p, s.at / elem);
    const uint64_t slot = pack_var(p, s.slot / elem);

    if (pack_reads(p) && of >= p->stretches.n)
        pack_refuse(p, "missing stretches");
    else if (pack_reads(p))
        pack_check(p, zf_draft_slots(d, p->stretches.at[of], at, slot, p->err));
}

static void pack_data(struct pack *p, struct zf_draft *d, unsigned kind)
{
    if (kind == ZF_DRAFT_FLAT || kind == ZF_DRAFT_BOX)
        pack_pieces(p, d, kind == ZF_DRAFT_BOX);
    else if (kind == ZF_DRAFT_MEM)
        pack_value(p, d);
    else if (kind == ZF_DRAFT_SLOTS)
        pack_slots(p, d);
    else if (kind != ZF_DRAFT_EMPTY)
        pack_refuse(p, "a tensor of an unknown kind");
}

/* The tensor's type.  Returns the draft, which a read creates; NULL: that failed. */
static struct zf_draft *pack_type(struct pack *p, struct zf_draft *d, struct zf_spot spot)
{
    const uint8_t dtype = pack_byte(p, d ? d->dtype : 0);
    const uint64_t ndim = pack_count(p, d ? d->ndim : 0);
    uint64_t *shape = pack_words(p, ndim, d ? d->shape : NULL, d ? ndim : 0);

    if (!shape)
        return NULL;
    pack_each(p, shape, ndim);
    if (dtype >= ZF_DT_COUNT || ndim > UINT32_MAX)
        pack_refuse(p, "a tensor of an unknown dtype");
    if (pack_reads(p)) {
        d = zf_build_tensor(p->b, spot, (struct zf_type){dtype, (uint32_t)ndim, shape}, p->err);
        pack_check(p, d != NULL);
    }
    return p->bad ? NULL : d;
}

/* Another name for an earlier tensor.  tie: both are in the same set. */
static void pack_same(struct pack *p, const struct zf_draft *d, struct zf_spot spot, bool tie)
{
    const uint64_t of = pack_var(p, !d ? 0 : tie ? d->same.tie->number : d->same.as->number);

    if (!pack_reads(p))
        return;
    struct zf_draft *as = of < p->b->drafts.n ? p->b->drafts.at[of] : NULL;
    if (!as || !spot.set)
        pack_refuse(p, "the name of a missing tensor");
    else if (!tie)
        pack_check(p, zf_build_show(p->b, spot, as, p->err) != NULL);
    else if (as->set && strcmp(as->set->path, spot.set) == 0)
        pack_check(p, zf_build_alias(p->b, as, spot.name, spot.name_len, p->err));
    else
        pack_refuse(p, "a tie across sets");
}

static uint8_t pack_flags(const struct zf_draft *d)
{
    const bool same = d->kind == ZF_DRAFT_SAME;
    const unsigned kind = same ? 0 : d->kind == ZF_DRAFT_WHOLE ? ZF_DRAFT_FLAT : d->kind;
    const unsigned how = !same ? 0 : draft_tie(d) ? PACK_TIE : PACK_SAME;

    return (uint8_t)(kind | how | (d->set ? 0 : PACK_HIDDEN) | (d->apart ? PACK_APART : 0));
}

/* d: NULL when it is read. */
static void pack_draft(struct pack *p, struct zf_draft *d)
{
    const uint8_t flags = pack_byte(p, d ? pack_flags(d) : 0);
    const bool shown = !(flags & PACK_HIDDEN);
    const uint64_t set = shown ? pack_var(p, d ? d->set->number : 0) : 0;
    uint64_t n = d ? d->name_len : 0;
    const char *name = pack_text(p, d ? draft_name(d) : NULL, &n);
    struct zf_spot spot = {.name = name, .name_len = (size_t)n};

    if (p->in && shown && set >= p->n_paths) {
        pack_refuse(p, "a missing set");
        return;
    }
    spot.set = p->in && shown ? p->path[set] : NULL;
    if (flags & (PACK_SAME | PACK_TIE))
        pack_same(p, d, spot, flags & PACK_TIE);
    else if ((d = pack_type(p, d, spot)))
        pack_data(p, d, flags & PACK_KIND);
    if (pack_reads(p) && flags & PACK_APART)
        pack_check(p, zf_draft_mark_piece(p->b->drafts.at[p->b->drafts.n - 1], p->err));
}

static void pack_sets(struct pack *p)
{
    p->n_paths = pack_count(p, p->b->sets.n);
    p->path = p->in ? zf_arena_get(p->b->temp, p->n_paths, sizeof(*p->path), p->err) : NULL;
    pack_check(p, p->out || p->path);
    for (uint64_t i = 0; i < p->n_paths && !p->bad; i++) {
        const struct draft_set *s = p->out ? p->b->sets.at[i] : NULL;
        const char *path = pack_str(p, s ? s->path : NULL);
        const bool raw_only = pack_byte(p, s && s->raw_only);

        if (pack_reads(p)) {
            p->path[i] = path;
            pack_check(p, !raw_only || zf_build_raw_only(p->b, path, p->err));
        }
    }
}

static void pack_drafts(struct pack *p)
{
    const uint64_t n = pack_count(p, p->b->drafts.n);

    for (uint64_t i = 0; i < n && !p->bad; i++)
        pack_draft(p, p->out ? p->b->drafts.at[i] : NULL);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void pack_head(struct pack *p)
{
    const struct build_rest *rest = &p->b->rest;
    const char *tag = pack_str(p, rest->tag);
    const bool has_step = pack_byte(p, rest->has_step);
    const uint64_t step = pack_var(p, has_step ? (uint64_t)rest->step : 0);

    if (pack_reads(p) && *tag)
        pack_check(p, zf_build_tag(p->b, tag, p->err));
    if (pack_reads(p) && has_step)
        zf_build_step(p->b, (int64_t)step);
}

static void pack_notes(struct pack *p)
{
    const uint64_t there = p->b->lists.notes.n;
    uint64_t made = 0;
    char more[100];

    for (const struct note_form *k = p->b->rest.note_forms; k; k = k->next)
        made += k->n;
    /* The seal's note on dropped notes. */
    const uint64_t dropped = made > there ? made - there : 0;
    (void)snprintf(more, sizeof more, NOTES_MORE, (unsigned long long)dropped);
    const uint64_t n = pack_count(p, there + (dropped > 0));
    for (uint64_t i = 0; i < n && !p->bad; i++) {
        struct zf_note note = p->out && i < there ? p->b->lists.notes.at[i]
                                                  : (struct zf_note){.about = "", .text = more};

        note.kind = pack_byte(p, (uint8_t)note.kind);
        note.about = pack_str(p, note.about);
        note.text = pack_str(p, note.text);
        if (note.kind >= ZF_NOTE_KINDS)
            pack_refuse(p, "a note of an unknown kind");
        pack_check(p, p->out || (!p->bad && build_keep_note(p->b, note, p->err)));
    }
}

/* f: NULL when it is read. */
static void pack_file(struct pack *p, const struct zf_blob *f)
{
    const char *path = pack_str(p, f ? f->path : NULL);
    uint64_t n = f ? zf_map_size(f->data) : 0;
    const struct zf_run run = n ? zf_map_at(f->data, 0) : (struct zf_run){.mem = ""};
    uint32_t number = 0;

    if (run.kind != ZF_RUN_SRC && run.kind != ZF_RUN_MEM) {
        pack_check(p, zf_fail(p->err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                              "the bytes of \"%.200s\" are computed", path));
        return;
    }
    if (!pack_byte(p, run.kind == ZF_RUN_SRC)) {
        const char *text = pack_text(p, run.mem, &n);

        pack_check(p, p->out || (!p->bad && zf_build_text(p->b, path, text, n, p->err)));
        return;
    }
    pack_check(p, p->in || sources_add(p->b->sources, run.src, &number, p->err));
    const struct zf_from from = pack_place(p, number, run.off);
    n = pack_var(p, n);
    if (pack_reads(p) && !from.src)
        pack_refuse(p, "a file without bytes");
    else if (pack_reads(p))
        pack_check(p, zf_build_blob(p->b, path, from.src, from.off, n, p->err));
}

static void pack_files(struct pack *p)
{
    const struct build_lists *l = &p->b->lists;
    uint64_t n = pack_count(p, l->blobs.n);

    for (uint64_t i = 0; i < n && !p->bad; i++)
        pack_file(p, p->out ? &l->blobs.at[i] : NULL);
    n = pack_count(p, l->told.n);
    for (uint64_t i = 0; i < n && !p->bad; i++) {
        const char *path = pack_str(p, p->out ? l->told.at[i] : NULL);

        pack_check(p, p->out || (!p->bad && zf_build_told(p->b, path, p->err)));
    }
}

static bool pack_all(struct pack *p)
{
    pack_head(p);
    pack_notes(p);
    pack_all_stretches(p);
    pack_sets(p);
    pack_drafts(p);
    pack_files(p);
    zf_table_free(p->written);
    zf_vec_fini(&p->stretches);
    zf_vec_fini(&p->words);
    return !p->bad;
}

bool zf_build_pack(const struct zf_build *b, zf_pack_source_fn *number, void *ctx,
                   struct zf_out *out, struct zf_err *err)
{
    /* Writing does not change the build. */
    struct pack p = {
        .b = (struct zf_build *)b, .out = out, .err = err, .number = number, .ctx = ctx};

    if (b->degraded || b->lists.missing.n)
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "damaged checkpoints are not cached");
    /* Room for the files, too, whose sources may be in no piece. */
    p.known = calloc(b->sources->n + b->lists.blobs.n + 1, sizeof *p.known);
    if (!p.known)
        return zf_fail_sys(err, "pack a model");
    pack_check(&p, pack_number_stretches(&p));
    bool ok = pack_all(&p) && zf_out_ok(out, err);
    free(p.known);
    return ok;
}

bool zf_build_unpack(struct zf_build *b, struct zf_bytes *in, struct zf_source *const *source,
                     uint64_t n, struct zf_err *err)
{
    struct pack p = {.b = b, .in = in, .err = err, .source = source, .n_sources = n};

    if (pack_all(&p) && zf_bytes_left(in) > 0)
        pack_refuse(&p, "a wrong ending");
    return !p.bad;
}
