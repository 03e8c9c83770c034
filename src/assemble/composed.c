/* SPDX-License-Identifier: Apache-2.0 */
/* Joins tensors composed of several parts (tensor subclasses), part by part, which is possible if chunks and parts are
 * cut along the same rows.  An optimizer's state in 8 or 4 bits (codes, scale[, qmap]) is quantized in blocks that end
 * with a rank's rows: scales, and codes of 4 bits, are concatenated as the rows are; the table is the same in all ranks.
 * Source: torchao/optim/subclass_8bit.py, subclass_4bit.py, subclass_fp8.py (0.18; 0.4 … 0.17 in
 * torchao/prototype/low_bit_optim). */
#include <zf/assemble/composed.h>

#include <stdlib.h>
#include <string.h>

#include <zf/assemble/names.h>
#include <zf/base/num.h>

#define DEPTH_MAX 4    /* nested subclasses */
#define TABLE_MAX 4096 /* values of a table that all ranks repeat */

/* ---- parts of a value ---- */

struct composed_walk {
    struct zf_torch *torch;
    zf_composed_fn *fn;
    void *ctx;
    struct zf_out name, *attrs;
    uint32_t depth;
};

static bool composed_walk_part(void *ctx, const struct zf_torch_part *part, struct zf_err *err)
{
    struct composed_walk *w = ctx;
    size_t before = w->name.n;
    struct zf_number number = {.dtype = ZF_DT_I64};
    bool ok = true;

    if (strcmp(part->name, "int_repr") != 0) {
        zf_out_str(&w->name, before ? "." : "");
        zf_out_str(&w->name, part->name);
    }
    if (!zf_out_ok(&w->name, err))
        return false;
    if (part->tensor || (part->value && zf_number_of(part->value, &number))) {
        ok = w->fn(w->ctx, zf_out_text(&w->name), part->tensor, number, err);
    } else if (part->value && w->depth < DEPTH_MAX &&
               zf_torch_kind(w->torch, part->value) == ZF_TORCH_PARTS) {
        w->depth++;
        zf_torch_attrs(w->torch, part->value, w->attrs);
        ok = zf_torch_parts(w->torch, part->value, composed_walk_part, w, err);
        w->depth--;
    }
    zf_out_cut(&w->name, before);
    return ok;
}

bool zf_composed_each(struct zf_torch *t, const struct zf_pv *v, struct zf_out *attrs,
                      zf_composed_fn *fn, void *ctx, struct zf_err *err)
{
    struct composed_walk w = {.torch = t, .fn = fn, .ctx = ctx, .attrs = attrs};

    zf_torch_attrs(t, v, attrs);
    bool ok = zf_out_ok(attrs, err) && zf_torch_parts(t, v, composed_walk_part, &w, err);

    zf_auto_out(&w.name);
    return ok;
}

bool zf_composed_note(struct zf_build *b, const char *file, const char *attrs, struct zf_err *err)
{
    return !attrs || !attrs[0] ||
           zf_build_note_once(b, attrs, ZF_NOTE_LEFT_OUT, file, err,
                              "%s: attributes that are not tensors are not shown: %.400s", file,
                              attrs);
}

/* ---- joining ---- */

void zf_composed_fini(struct zf_composed *c)
{
    zf_auto_out(&c->part);
}

bool zf_composed_begin(struct zf_composed *c, struct zf_spot spot, struct zf_err *err)
{
    c->spot = spot;
    c->n_chunks = c->n_parts = c->n_first = 0;
    c->taken = c->apart = c->codes = c->scale = false;
    return zf_build_mark(c->b, err);
}

/* Checks that the chunk just read has as many parts as the first. */
static bool composed_check_parts(struct zf_composed *c, struct zf_err *err)
{
    c->n_first = c->n_chunks == 1 ? c->n_parts : c->n_first;
    c->apart = c->n_parts != c->n_first;
    return !c->apart ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.120s\" has %u parts here, %u in %.100s",
                   c->name, c->n_parts, c->n_first, c->from);
}

bool zf_composed_chunk(struct zf_composed *c, const char *file, const uint64_t *start,
                       const uint64_t *size, struct zf_err *err)
{
    if (!composed_check_parts(c, err))
        return false;
    c->from = c->n_chunks == 0 ? file : c->from;
    c->file = file;
    c->start = start;
    c->size = size;
    c->n_parts = 0;
    c->n_chunks++;
    return true;
}

void zf_composed_note_part(struct zf_composed *c, const char *part, uint32_t ndim)
{
    c->codes = c->codes || strcmp(part, "codes") == 0;
    c->scale = c->scale || (strcmp(part, "scale") == 0 && ndim == 1);
}

bool zf_composed_is_plain(struct zf_composed *c, struct zf_err *err)
{
    c->apart = true;
    return zf_fail(
        err, ZF_E_FORMAT, ZF_OFF_NONE,
        "\"%.120s\" is a plain tensor in one chunk, but consists of several tensors in another",
        c->name);
}

/* Is every chunk a range of rows of the tensor? */
static bool composed_is_rows(const struct zf_composed *c)
{
    for (uint32_t d = 1; d < c->ndim; d++)
        if (c->size[d] != c->shape[d])
            return false;
    return c->ndim > 0;
}

static bool composed_is(const struct zf_composed *c, const char *part, const char *name)
{
    return c->codes && c->scale && strcmp(part, name) == 0;
}

/* Checks that a table which all chunks repeat equals that of the first chunk. */
static bool composed_same_table(struct zf_composed *c, struct zf_draft *first, struct zf_type t,
                                struct zf_from from, struct zf_err *err)
{
    uint64_t n = 0, size = zf_dtype_info(t.dtype)->bytes;

    c->apart = !zf_elems(t.ndim, t.shape, &n) || n > TABLE_MAX || !from.src || from.stride;
    if (c->apart) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "its table \"%.80s\" is not a table",
                       c->part.p);
    }
    if (c->n_chunks == 1)
        return true;
    zf_auto(mem) char *bytes = zf_source_slurp(from.src, from.off, n * size, err);
    zf_auto(mem) char *table = bytes ? malloc(n * size + 1) : NULL;
    if (!table)
        return bytes ? zf_fail_sys(err, "allocate memory") : false;
    c->apart = !first || !zf_type_equal(zf_draft_type(first), t);
    if (!c->apart && !zf_draft_read(first, 0, n, table, err))
        return false;
    c->apart = c->apart || memcmp(table, bytes, n * size) != 0;
    return !c->apart || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.120s\" differs in %.100s",
                                c->part.p, c->from);
}

/* This chunk's rows are `have` elements of the part: *whole is the size of the whole part, *start the first element. */
static bool composed_flat(struct zf_composed *c, uint64_t have, uint64_t *whole, uint64_t *start,
                          struct zf_err *err)
{
    uint64_t rows = c->size[0], all, before, n;

    c->apart = !composed_is_rows(c) || rows == 0 ||
               __builtin_mul_overflow(have, c->shape[0], &all) ||
               __builtin_mul_overflow(have, c->start[0], &before) || all % rows || before % rows;
    if (c->apart) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "\"%.100s\" consists of several tensors and is saved in chunks, but the "
                       "%llu elements of its part \"%.60s\" are not rows of it",
                       c->name, (unsigned long long)have, c->part.p);
    }
    c->apart = have == 0 || !zf_elems(c->ndim, c->size, &n) || n % have;
    if (c->apart) {
        return zf_fail(
            err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
            "\"%.100s\" is quantized in blocks, but the elements of a chunk are not whole "
            "blocks of the %llu in its part \"%.60s\"",
            c->name, (unsigned long long)have, c->part.p);
    }
    *whole = all / rows;
    *start = before / rows;
    return true;
}

/* Turns the shape of a chunk's part into that of the whole part, and sets its start in it. */
static bool composed_place(struct zf_composed *c, const char *part, uint32_t ndim, uint64_t *shape,
                           uint64_t *start, struct zf_err *err)
{
    bool codes = composed_is(c, part, "codes"), rows = composed_is_rows(c);

    if (ndim == 1 && (composed_is(c, part, "scale") ||
                      (codes && (c->ndim != 1 || !rows || shape[0] != c->size[0]))))
        return composed_flat(c, shape[0], &shape[0], &start[0], err);
    c->apart = !rows || ndim == 0 || shape[0] != c->size[0];
    if (c->apart) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "\"%.100s\" consists of several tensors and is saved in chunks, but its "
                       "part \"%.60s\" is not cut at the same rows",
                       c->name, c->part.p);
    }
    shape[0] = c->shape[0];
    start[0] = c->start[0];
    return true;
}

/* Adds part t of a chunk: the same rows of the whole part. */
static bool composed_draft(struct zf_composed *c, const char *part, struct zf_type t,
                           struct zf_from from, struct zf_err *err)
{
    uint64_t shape[64], start[64] = {0}, n;
    const struct zf_spot spot = {c->spot.set, c->part.p, c->part.n};
    const struct zf_type type = {t.dtype, t.ndim, shape};
    const bool once = !c->whole && composed_is(c, part, "qmap");
    struct zf_draft *draft = zf_build_find(c->b, spot);

    if (t.ndim > sizeof shape / sizeof *shape) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "part \"%.80s\" has %u dimensions", c->part.p,
                       t.ndim);
    }
    if (!zf_elems(t.ndim, t.shape, &n))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "part \"%.80s\" is too large", c->part.p);
    memcpy(shape, t.shape, t.ndim * sizeof *shape);
    if (once ? !composed_same_table(c, draft, t, from, err)
             : !c->whole && !composed_place(c, part, t.ndim, shape, start, err))
        return false;
    if (c->n_chunks == 1) {
        c->taken = draft != NULL;
        draft = zf_build_tensor(c->b, spot, type, err);
    } else if (!draft || !zf_type_equal(zf_draft_type(draft), type)) {
        c->apart = true;
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "part \"%.120s\" differs from the one in %.100s", c->part.p, c->from);
    }
    if (!draft || n == 0 || (once && c->n_chunks > 1))
        return draft != NULL;
    return zf_draft_box(draft, start, t.shape, from, err);
}

/* Sets the full name of the current part, and counts it. */
static bool composed_name(struct zf_composed *c, const char *part, struct zf_err *err)
{
    c->n_parts++;
    zf_out_cut(&c->part, 0);
    zf_out_add(&c->part, c->spot.name, c->spot.name_len);
    zf_out_str(&c->part, *part ? "." : "");
    zf_out_str(&c->part, part);
    return zf_out_ok(&c->part, err);
}

bool zf_composed_put(struct zf_composed *c, const char *part, struct zf_type type,
                     struct zf_from from, struct zf_err *err)
{
    return composed_name(c, part, err) && composed_draft(c, part, type, from, err);
}

bool zf_composed_put_number(struct zf_composed *c, const char *part, struct zf_number number,
                            struct zf_err *err)
{
    unsigned char first[sizeof number.bits];

    if (!composed_name(c, part, err))
        return false;
    const struct zf_spot spot = {c->spot.set, c->part.p, c->part.n};
    struct zf_draft *d = zf_build_find(c->b, spot);
    if (c->n_chunks == 1) {
        c->taken = d != NULL;
        return zf_build_scalar(c->b, spot, number.dtype, &number.bits, err);
    }
    c->apart = !d || !zf_type_equal(zf_draft_type(d), (struct zf_type){.dtype = number.dtype});
    if (!c->apart && !zf_draft_read(d, 0, 1, first, err))
        return false;
    c->apart = c->apart || memcmp(first, &number.bits, sizeof first) != 0;
    return !c->apart ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "part \"%.120s\" differs from the one in %.100s",
                   c->part.p, c->from);
}

bool zf_composed_end(struct zf_composed *c, bool ok, struct zf_err *err)
{
    if (ok && composed_check_parts(c, err)) {
        zf_build_keep(c->b);
        return true;
    }
    zf_build_undo(c->b);
    return false;
}

bool zf_composed_forgive(struct zf_composed *c, struct zf_err *err)
{
    const struct zf_err why = *err;
    char text[800];

    if (!c->apart || !zf_names_is_optim(c->spot))
        return false;
    (void)zf_err_text(err, text, sizeof text);
    zf_err_clear(err);
    return zf_build_note_names(c->b, why.path, why.msg, err) &&
           zf_build_note_on(c->b, ZF_NOTE_LEFT_OUT, why.path, err, "%s/%.200s is left out: %.700s",
                            c->spot.set, c->name, text);
}
