/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that all data which the tensors of all files refer to is shown.  The files themselves say what they refer to
 * (extents.c), not the reader of the format.  Bytes are accounted for if a file of the tree is made of them, if they
 * are declared a copy of such bytes and `copies` compares them, or padding that a rule of the format cuts; also if
 *  - the whole contiguous range equals a shown piece, or a tensor that is shown in pieces;
 *  - a value read into memory represents them (small tensors whose elements are scattered);
 *  - they are only part of a tensor, and zero or at most COVERAGE_SMALL: padding between parameters;
 *  - their tensor has at most COVERAGE_SMALL bytes (steps, random states, meshes, which state/ shows once), or they are
 *    a pickle, whose values are in state/.
 * The rest is reported: as a note if a note made on opening may mean the file (hints.h), else as damage. */
#include <inttypes.h>
#include <stdio.h>

#include <zf/base/ahead.h>
#include <zf/base/search.h>
#include <zf/codec/pickle.h>

#include "gaps.h"
#include "hints.h"
#include "checks.h"

#define COVERAGE_SMALL 64u
#define COVERAGE_CHUNK ((size_t)256 << 10)
#define COVERAGE_PICKLE ((uint64_t)64 << 20)

enum { SHOWN_TENSORS, SHOWN_FILES, SHOWN_COPIES, N_SHOWN };

struct coverage_name {
    UT_hash_handle hh;
};

/* A file and its bytes that are not shown. */
struct coverage_file {
    struct zf_source *src; /* a reference; NULL: it cannot be opened, or is not a file */
    struct extents x;
    struct gaps g;
    struct zf_err err; /* why it was not examined; code ZF_OK: it was */
};

/* Bytes that are shown nowhere. */
struct coverage_open {
    const struct files_path *path;
    struct zf_source *src; /* the file, a reference */
    char *record;          /* owned */
    struct gap at;
    bool beside;                /* opening the checkpoint did not open the file */
    bool stray;                 /* the file is the user's own, not the trainer's */
    bool alone;                 /* nothing of the file is shown */
    bool matched;               /* the bytes equal shown bytes */
    char sha256[ZF_SHA256_HEX]; /* "" = not computed yet */
};

struct coverage {
    struct verify *v;
    zf_vec(const struct files_path *) path;
    struct places blobs, copies;
    const struct places *shown[N_SHOWN];
    struct coverage_name *made, *series; /* series: of files that are shown */
    struct hints hints;
    zf_vec(struct coverage_open) open;
    size_t left;  /* how many of `open` are not matched */
    uint8_t *buf; /* [COVERAGE_CHUNK] */
    struct zf_err *err;
};

/* True unless out of memory: unreadable bytes are reported by the check that needs them. */
static bool coverage_goes_on(struct coverage *c, const struct zf_err *why)
{
    if (why->code == ZF_E_NOMEM)
        *c->err = *why;
    return why->code != ZF_E_NOMEM;
}

/* ---- what is shown --------------------------------------------------------------------------- */

/* Loads the tree's files that are not tensors, as tensors of bytes. */
static bool coverage_load_blobs(struct coverage *c)
{
    const struct zf_checkpoint *ck = c->v->c;
    zf_auto(mem) struct zf_tensor *tensor = calloc(ck->n_blobs + (size_t)1, sizeof *tensor);
    zf_auto(mem) struct zf_verify_tensor *of = calloc(ck->n_blobs + (size_t)1, sizeof *of);

    if (!tensor || !of)
        return zf_fail_sys(c->err, "list files");
    for (uint32_t i = 0; i < ck->n_blobs; i++) {
        tensor[i] = (struct zf_tensor){.dtype = ZF_DT_U8, .data = ck->blob[i].data};
        of[i] = (struct zf_verify_tensor){.path = ck->blob[i].path, .tensor = &tensor[i]};
    }
    return places_init(&c->blobs, of, ck->n_blobs, c->err);
}

static bool coverage_note_made(struct coverage *c, const struct places *p)
{
    for (size_t i = 0; i < p->made.n; i++) {
        const struct zf_trace t = zf_source_trace(p->made.at[i].src, p->made.at[i].off, 1);

        if (!t.src->ops->identity && *t.src->name &&
            !zf_table_make_str(c->made, t.src->name, c->err))
            return false;
    }
    return true;
}

static bool coverage_load_shown(struct coverage *c)
{
    c->shown[SHOWN_TENSORS] = &c->v->places;
    c->shown[SHOWN_FILES] = &c->blobs;
    c->shown[SHOWN_COPIES] = &c->copies;
    return coverage_load_blobs(c) &&
           places_init_copies(&c->copies, &c->v->places, c->v->c->copy, c->v->c->n_copies,
                              c->err) &&
           coverage_note_made(c, &c->v->places) && coverage_note_made(c, &c->blobs);
}

/* ---- what is not shown ----------------------------------------------------------------------- */

static void coverage_file_free(void *file)
{
    struct coverage_file *f = file;

    if (f) {
        extents_fini(&f->x);
        gaps_fini(&f->g);
        zf_source_unref(&f->src);
        free(f);
    }
}
static inline void zf_auto_coverage_file(struct coverage_file **f)
{
    coverage_file_free(*f);
}

static bool coverage_look(const struct coverage *c, const char *path, struct coverage_file *f)
{
    bool chunk = false;

    f->src = zf_store_open(c->v->c->store, path, &f->err);
    return f->src && extents_is_chunk(c->v->c->store, path, &chunk, &f->err) &&
           extents_load(&f->x, f->src, chunk, c->v->o->lim, &f->err) &&
           gaps_find(&f->g, &f->x, f->src, c->shown, N_SHOWN, &f->err);
}

static void *coverage_make(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct coverage *c = ctx;
    zf_auto(coverage_file) struct coverage_file *f = calloc(1, sizeof *f);
    zf_auto(mem) char *path = strndup(c->path.at[i]->hh.key, c->path.at[i]->hh.keylen);

    if (!f || !path) {
        (void)zf_fail_sys(err, "compare tensors with files");
        return NULL;
    }
    zf_err_clear(&f->err);
    if (!coverage_look(c, path, f) && f->err.code == ZF_E_NOMEM) {
        *err = f->err;
        return NULL;
    }
    return zf_give(f);
}

/* ---- what need not be shown ------------------------------------------------------------------ */

static bool coverage_is_zero(const struct coverage *c, struct zf_source *src, const struct gap *g,
                             bool *out, struct zf_err *err)
{
    *out = true;
    for (uint64_t at = g->off; *out && at < g->end; at += COVERAGE_CHUNK) {
        const size_t n = g->end - at < COVERAGE_CHUNK ? (size_t)(g->end - at) : COVERAGE_CHUNK;

        if (!zf_source_pread(src, c->buf, n, at, err))
            return false;
        *out = c->buf[0] == 0 && memcmp(c->buf, c->buf + 1, n - 1) == 0;
    }
    return true;
}

/* Is it a tensor whose bytes are a pickle?  Its values are in state/. */
static bool coverage_is_pickle(struct zf_source *src, const struct gap *g, bool *out,
                               struct zf_err *err)
{
    uint8_t head[2];

    *out = false;
    if (!zf_source_pread(src, head, sizeof head, g->off, err))
        return false;
    if (head[0] != 0x80 || head[1] < 2 || head[1] > 5 || g->end - g->off > COVERAGE_PICKLE)
        return true;
    zf_auto(mem) char *p = zf_source_slurp(src, g->off, g->end - g->off, err);
    struct zf_bytes in = zf_bytes_of(p, g->end - g->off);
    uint64_t want;

    *out = p && zf_pickle_end(&in, &want) && zf_bytes_left(&in) == 0;
    return p != NULL;
}

static bool coverage_is_made(const struct coverage *c, const struct coverage_file *f,
                             const struct gap *g, bool *out, struct zf_err *err)
{
    zf_auto(out) struct zf_out name = {0};

    const char *record = extents_name(&f->x, g->record);

    zf_out_fmt(&name, "%s%s", f->src->name, record);
    *out = zf_table_find_str(c->made, zf_out_text(&name)) != NULL;
    /* a file's only archive may also be listed as an item */
    zf_out_cut(&name, strlen(f->src->name));
    zf_out_fmt(&name, "!item@0%s", record);
    *out = *out || zf_table_find_str(c->made, zf_out_text(&name)) != NULL;
    return zf_out_ok(&name, err);
}

/* Is the gap accounted for, without reading other files? */
static bool coverage_is_fine(const struct coverage *c, const struct coverage_file *f,
                             const struct gap *g, bool *out, struct zf_err *err)
{
    *out = gap_bytes(g) <= COVERAGE_SMALL;
    return *out || (coverage_is_made(c, f, g, out, err) &&
                    (*out || (g->whole ? coverage_is_pickle(f->src, g, out, err)
                                       : coverage_is_zero(c, f->src, g, out, err))));
}

/* Writes the path with each number replaced by 0. */
static bool coverage_series(const struct files_path *path, struct zf_out *out, struct zf_err *err)
{
    zf_auto(mem) char *name = strndup(path->hh.key, path->hh.keylen);

    return name ? hints_series(name, out, err) : zf_fail_sys(err, "compare tensors with files");
}

/* True if the file is the user's own: the reader did not open it, and no file of its series is shown. */
static bool coverage_is_stray(struct coverage *c, const struct files_path *path,
                              const struct coverage_file *f, bool *out)
{
    zf_auto(out) struct zf_out series = {0};

    if (!coverage_series(path, &series, c->err))
        return false;
    if (f->x.at.n > 0)
        hints_add_file(&c->hints, zf_out_text(&series));
    if (f->g.shown > 0 && !zf_table_make_str(c->series, zf_out_text(&series), c->err))
        return false;
    *out = path->beside && !zf_table_find_str(c->series, zf_out_text(&series));
    return true;
}

static bool coverage_open(struct coverage *c, const struct files_path *path,
                          const struct coverage_file *f, const struct gap *g, bool stray)
{
    struct coverage_open *to = zf_vec_push(&c->open, c->err);

    if (!to)
        return false;
    *to = (struct coverage_open){.path = path,
                                 .src = zf_source_ref(f->src),
                                 .at = *g,
                                 .stray = stray,
                                 .beside = path->beside,
                                 .alone = f->g.shown == 0,
                                 .record = strdup(extents_name(&f->x, g->record))};
    return to->record || zf_fail_sys(c->err, "compare tensors with files");
}

static bool coverage_report_failure(struct coverage *c, const struct coverage_file *f,
                                    const char *text, const struct zf_err *why)
{
    const struct verify_about about = {
        .kind = ZF_FOUND_COVERAGE, .weight = ZF_WEIGHT_NOTE, .file = f->src->name};

    return verify_found(c->v, &about, c->err, text, why->msg);
}

/* Takes up the gaps of a file.  If it cannot be opened or read, the check that needs it reports that. */
static bool coverage_take(struct coverage *c, const struct files_path *path,
                          const struct coverage_file *f)
{
    zf_auto(mem) char *name = strndup(path->hh.key, path->hh.keylen);
    zf_auto(out) struct zf_out series = {0};
    struct zf_err why;
    bool fine, stray = false;

    if (!name)
        return zf_fail_sys(c->err, "compare tensors with files");
    if (!coverage_is_stray(c, path, f, &stray) || !hints_series(name, &series, c->err))
        return false;
    const bool told = hints_name(&c->hints, name, zf_out_text(&series));
    if (f->err.code != ZF_OK || told) {
        return f->err.code != ZF_E_LIMIT || told ||
               coverage_report_failure(
                   c, f, "not all bytes that its tensors refer to could be checked: %s", &f->err);
    }
    if (f->x.unknown > 0 &&
        !coverage_report_failure(c, f, "one of its tensors could not be checked: %s", &f->x.why))
        return false;
    for (size_t i = 0; i < f->g.at.n; i++) {
        if (!coverage_is_fine(c, f, &f->g.at.at[i], &fine, &why))
            return coverage_goes_on(c, &why);
        if (!fine && !coverage_open(c, path, f, &f->g.at.at[i], stray))
            return false;
    }
    return true;
}

/* ---- copies that the format does not declare ------------------------------------------------- */

static bool coverage_sum(struct zf_source *src, uint64_t off, uint64_t n, char out[ZF_SHA256_HEX],
                         struct zf_err *err)
{
    zf_auto(source) struct zf_source *window = zf_window_new(src, off, n, NULL, err);

    return window && zf_source_sha256(window, out, err);
}

/* Index of the first open gap of n bytes (c->open is ordered by size). */
static size_t coverage_first(const struct coverage *c, uint64_t n)
{
    size_t i;

    ZF_SEARCH(i, c->open.n, gap_bytes(&c->open.at[i].at) >= n);
    return i;
}

/* Marks open gaps that equal n shown bytes as matched.  Unreadable bytes match nothing. */
static bool coverage_match(struct coverage *c, struct zf_source *src, uint64_t off, uint64_t n)
{
    char is[ZF_SHA256_HEX] = "";
    struct zf_err why;

    zf_err_clear(&why);
    for (size_t i = coverage_first(c, n); i < c->open.n && gap_bytes(&c->open.at[i].at) == n; i++) {
        struct coverage_open *o = &c->open.at[i];

        if (o->matched || (o->src == src && o->at.off == off))
            continue;
        if ((!is[0] && !coverage_sum(src, off, n, is, &why)) ||
            (!o->sha256[0] && !coverage_sum(o->src, o->at.off, n, o->sha256, &why)))
            return coverage_goes_on(c, &why);
        o->matched = strcmp(is, o->sha256) == 0;
        c->left -= o->matched;
    }
    return true;
}

/* Matches gaps with pieces of tensors and with files of the tree. */
static bool coverage_match_places(struct coverage *c, const struct places *p)
{
    for (size_t i = 0; i < p->file.n && c->left > 0; i++) {
        const struct place_file *f = &p->file.at[i];

        for (size_t k = 0; k < f->at.n && c->left > 0; k++) {
            const struct place *at = &f->at.at[k];

            if (!at->rows && !coverage_match(c, f->src, at->off, at->end - at->off))
                return false;
        }
    }
    return true;
}

/* Is the extent itself an unmatched gap? */
static bool coverage_is_open(const struct coverage *c, const struct zf_source *src,
                             const struct extent *e)
{
    const uint64_t n = e->end - e->off;

    for (size_t i = coverage_first(c, n); i < c->open.n && gap_bytes(&c->open.at[i].at) == n; i++) {
        const struct coverage_open *o = &c->open.at[i];

        if (o->src == src && !o->matched && o->at.off == e->off)
            return true;
    }
    return false;
}

/* Matches gaps with the tensors of a file that are shown in several pieces. */
static bool coverage_match_extents(struct coverage *c, const struct coverage_file *f)
{
    for (size_t i = 0; f->g.shown > 0 && i < f->x.at.n && c->left > 0; i++) {
        const struct extent *e = &f->x.at.at[i];

        if (!coverage_is_open(c, f->src, e) && !coverage_match(c, f->src, e->off, e->end - e->off))
            return false;
    }
    return true;
}

/* ---- reports --------------------------------------------------------------------------------- */

static int coverage_by_bytes(const void *a, const void *b)
{
    const struct coverage_open *x = a, *y = b;

    return (gap_bytes(&x->at) > gap_bytes(&y->at)) - (gap_bytes(&x->at) < gap_bytes(&y->at));
}

static int coverage_by_file(const void *a, const void *b)
{
    const struct coverage_open *x = a, *y = b;
    const int d = strcmp(x->src->name, y->src->name);

    return d ? d : (x->at.off > y->at.off) - (x->at.off < y->at.off);
}

/* Reports n gaps in one record, or in a file of which nothing is shown. */
static bool coverage_report(struct coverage *c, const struct coverage_open *o, size_t n)
{
    zf_auto(out) struct zf_out series = {0};
    if (!coverage_series(o->path, &series, c->err))
        return false;
    const bool harmless = o->stray || hints_may_mean(&c->hints, zf_out_text(&series));
    const struct verify_about about = {.kind = ZF_FOUND_COVERAGE,
                                       .weight = harmless ? ZF_WEIGHT_NOTE : ZF_WEIGHT_DAMAGE,
                                       .file = o->src->name,
                                       .first = o->at.off,
                                       .end = o[n - 1].at.end};
    const char *record = *o->record == '!' ? o->record + 1 : o->record;
    uint64_t bytes = 0;

    for (size_t i = 0; i < n; i++)
        bytes += gap_bytes(&o[i].at);
    return verify_found(c->v, &about, c->err,
                        "%" PRIu64
                        " bytes of tensors here are not in any file of the tree%s%s%s%s%s",
                        bytes, *record ? " (" : "", record, *record ? ")" : "",
                        o->alone ? ", and neither is the rest of this file" : "",
                        o->beside  ? ": it was not opened"
                        : harmless ? "; a note says that something is left out"
                                   : ", and no note says why");
}

static bool coverage_report_all(struct coverage *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->open.n; i++) {
        if (c->open.at[i].matched) {
            zf_source_unref(&c->open.at[i].src);
            free(c->open.at[i].record);
        } else {
            c->open.at[n++] = c->open.at[i];
        }
    }
    c->open.n = n;
    if (n > 0)
        qsort(c->open.at, n, sizeof *c->open.at, coverage_by_file);
    for (size_t i = 0, k; i < n; i = k) {
        const struct coverage_open *o = &c->open.at[i];

        for (k = i + 1; k < n && c->open.at[k].src == o->src &&
                        (o->alone || strcmp(o->record, c->open.at[k].record) == 0);
             k++) {
        }
        if (!coverage_report(c, o, k - i))
            return false;
    }
    return true;
}

/* ---- the check ------------------------------------------------------------------------------- */

typedef bool coverage_file_fn(struct coverage *c, const struct files_path *path,
                              const struct coverage_file *f);

static bool coverage_match_file(struct coverage *c, const struct files_path *path,
                                const struct coverage_file *f)
{
    return path->beside || coverage_match_extents(c, f);
}

static bool coverage_each_file(struct coverage *c, coverage_file_fn *fn)
{
    const uint32_t jobs = c->v->o->jobs;
    const struct zf_ahead_work work = {
        .make = coverage_make, .drop = coverage_file_free, .ctx = c, .few = jobs, .most = jobs};
    zf_auto(ahead) struct zf_ahead *ahead = zf_ahead_new(work, c->path.n, c->err);

    for (size_t i = 0; ahead && i < c->path.n; i++) {
        zf_auto(coverage_file) struct coverage_file *f = zf_ahead_take(ahead, c->err);

        if (!f || !fn(c, c->path.at[i], f))
            return false;
    }
    return ahead != NULL;
}

static bool coverage_list(struct coverage *c)
{
    for (struct files_path *p = c->v->listed.paths; p; p = p->hh.next) {
        const struct files_path **to = zf_vec_push(&c->path, c->err);

        if (!to)
            return false;
        *to = p;
    }
    c->buf = malloc(COVERAGE_CHUNK);
    return c->buf || zf_fail_sys(c->err, "compare tensors with files");
}

static bool coverage_run(struct coverage *c)
{
    if (!hints_init(&c->hints, c->v->c, c->err) || !coverage_list(c) || !coverage_load_shown(c) ||
        !coverage_each_file(c, coverage_take))
        return false;
    c->left = c->open.n;
    if (c->left > 0)
        qsort(c->open.at, c->open.n, sizeof *c->open.at, coverage_by_bytes);
    for (size_t i = 0; i < N_SHOWN; i++)
        if (!coverage_match_places(c, c->shown[i]))
            return false;
    return (c->left == 0 || coverage_each_file(c, coverage_match_file)) && coverage_report_all(c);
}

bool verify_coverage(struct verify *v, struct zf_err *err)
{
    struct coverage c = {.v = v, .err = err};
    const bool ok = !v->o->coverage || coverage_run(&c);

    for (size_t i = 0; i < c.open.n; i++) {
        zf_source_unref(&c.open.at[i].src);
        free(c.open.at[i].record);
    }
    zf_vec_fini(&c.open);
    zf_vec_fini(&c.path);
    places_fini(&c.blobs);
    places_fini(&c.copies);
    zf_table_free(c.made);
    zf_table_free(c.series);
    hints_fini(&c.hints);
    free(c.buf);
    return ok;
}
