/* SPDX-License-Identifier: Apache-2.0 */
#include "tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/files.h>
#include <zf/base/num.h>

#include "bytes_items.h"
#include "composed.h"
#include "items.h"
#include "paths.h"
#include "replicas.h"

#define SHOW(n) ((unsigned long long)(n))

static const char *key_name(const struct zf_dcp *d, const struct zf_dcp_chunk *c)
{
    return d->key[c->key].name;
}

static uint64_t data_len(const struct zf_dcp *d, const struct zf_dcp_chunk *c)
{
    const struct zf_dcp_key *k = &d->key[c->key];
    uint64_t n = 0;

    /* A box inside a tensor whose size was checked. */
    return zf_dtype_size(k->dtype, k->ndim, &d->box[c->box + k->ndim], &n) ? n : 0;
}

static bool see_names(struct zf_dcp_placing *p, struct zf_err *err)
{
    struct zf_dcp *d = p->d;

    p->path = zf_arena_get(d->pickles, d->n_keys, sizeof *p->path, err);
    if (!p->path) {
        return false;
    }
    for (uint64_t i = 0; i < d->n_keys; i++) {
        if (!zf_dcp_path(d, &d->key[i], &p->path[i], err) ||
            (!d->key[i].is_bytes && !zf_names_see(p->names, p->path[i], err))) {
            return false;
        }
    }
    return true;
}

/* The files in which a chunk is. */
static bool *used_files(const struct zf_dcp *d, struct zf_err *err)
{
    bool *used = calloc(d->n_files + 1, sizeof *used);

    if (!used) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "no memory for %llu files", SHOW(d->n_files));
        return NULL;
    }
    for (uint64_t i = 0; i < d->n_chunks; i++) {
        if (d->chunk[i].file != ZF_DCP_NONE) {
            used[d->chunk[i].file] = true;
        }
    }
    return used;
}

/* A file ends with its last item.  One that is longer was written by something else as well: that is told,
 * one that is shorter is damaged, even where no chunk needs the item that is cut. */
static bool check_ends(struct zf_dcp_placing *p, struct zf_err *err)
{
    const struct zf_dcp *d = p->d;
    uint64_t longer = 0, first = 0;

    for (uint64_t i = 0; i < d->n_files; i++) {
        if (p->file[i] && p->file[i]->size < d->file[i].end) {
            (void)zf_fail(err, ZF_E_FORMAT, p->file[i]->size,
                          "the file ends here, its last item at byte %llu", SHOW(d->file[i].end));
            if (zf_err_in(err, "%s", d->file[i].path) || !zf_forgive(p->b, err)) {
                return false;
            }
        }
        if (p->file[i] && p->file[i]->size > d->file[i].end && longer++ == 0) {
            first = i;
        }
    }
    return !longer ||
           zf_build_note(p->b, err,
                         "%s has %llu bytes behind its last item that .metadata does not tell of%s",
                         d->file[first].path, SHOW(p->file[first]->size - d->file[first].end),
                         longer > 1 ? ", and so have others" : "");
}

static bool open_files(struct zf_dcp_placing *p, struct zf_err *err)
{
    zf_auto(mem) bool *used = used_files(p->d, err);
    char is[ZF_ABSENT_MAX];

    if (!used) {
        return false;
    }
    for (uint64_t i = 0; i < p->d->n_files; i++) {
        if (!used[i]) {
            continue;
        }
        p->file[i] = zf_store_open(p->st, p->d->file[i].path, err);
        if (!p->file[i]) {
            if (err->code == ZF_E_NOENT) {
                zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                        "the file %s; .metadata says that items are in it",
                        zf_absent(p->st, p->d->file[i].path, is));
                zf_err_in(err, "%s", p->d->file[i].path);
            }
            if (!zf_forgive(p->b, err)) {
                return false;
            }
        }
    }
    return true;
}

static int by_place(const void *a, const void *b, void *ctx)
{
    const struct zf_dcp_chunk *chunk = ctx;
    const struct zf_dcp_chunk *x = &chunk[*(const uint32_t *)a], *y = &chunk[*(const uint32_t *)b];

    if (x->file != y->file) {
        return x->file < y->file ? -1 : 1;
    }
    return x->off < y->off ? -1 : x->off > y->off;
}

/* Loses the chunk when degraded: the failure is told once, the bytes answer EIO. */
static bool lose(struct zf_dcp_placing *p, struct zf_dcp_chunk *c, struct zf_err *err)
{
    if (!zf_forgive(p->b, err)) {
        return false;
    }
    c->lost = true;
    return true;
}

/* Checks the items order[n] of one file: inside it, and side by side. */
static bool check_file(struct zf_dcp_placing *p, const uint32_t *order, uint64_t n,
                       struct zf_err *err)
{
    struct zf_dcp *d = p->d;
    struct zf_dcp_chunk *before = NULL;

    for (uint64_t i = 0; i < n; i++) {
        struct zf_dcp_chunk *c = &d->chunk[order[i]];
        struct zf_source *file = p->file[c->file];
        bool ok = true;

        if (!file) {
            c->lost = true;
            continue;
        }
        if (!zf_within(c->off, c->len, file->size)) {
            zf_fail(err, ZF_E_FORMAT, c->off,
                    "the item of \"%.100s\" has %llu bytes, the file ends at byte %llu",
                    key_name(d, c), SHOW(c->len), SHOW(file->size));
            ok = false;
        } else if (before && c->len && before->off + before->len > c->off) {
            before->lost = true;
            zf_fail(err, ZF_E_FORMAT, c->off, "the items of \"%.80s\" and \"%.80s\" overlap",
                    key_name(d, before), key_name(d, c));
            ok = false;
        } else if (c->len > ZF_DCP_ITEM_MAX) {
            zf_fail(err, ZF_E_UNSUPPORTED, c->off, "an item of %llu bytes", SHOW(c->len));
            ok = false;
        }
        if (!ok && (zf_err_in(err, "%s", d->file[c->file].path) || !lose(p, c, err))) {
            return false;
        }
        before = c->len ? c : before;
    }
    return true;
}

/* Opens those items of a file whose length does not fit a plain tensor. */
static bool look_at_odd(struct zf_dcp_placing *p, const uint32_t *order, uint64_t n,
                        struct zf_dcp_usual *usual, struct zf_err *err)
{
    struct zf_dcp *d = p->d;

    for (uint64_t i = 0; i < n; i++) {
        struct zf_dcp_chunk *c = &d->chunk[order[i]];
        struct zf_dcp_key *k = &d->key[c->key];
        uint64_t len = k->is_bytes ? 0 : data_len(d, c);
        bool composed = false;

        if (c->lost || k->is_bytes || k->composed || k->doubtful ||
            (!c->empty && !zf_dcp_is_odd(c, k->dtype, len, usual))) {
            continue;
        }
        if (c->empty) {
            if (!zf_dcp_is_empty(p, c, usual, err)) {
                if (zf_err_in(err, "%s", d->file[c->file].path) || !lose(p, c, err)) {
                    return false;
                }
                k->doubtful = true;
            }
            continue;
        }
        if (!zf_dcp_is_composed(p, c, len, usual, &composed, err) &&
            (zf_err_in(err, "%s", d->file[c->file].path) || !lose(p, c, err))) {
            return false;
        }
        k->composed = k->composed || composed;
    }
    return true;
}

/* Has the chunk bytes that are looked up when they are read? */
static bool is_item(const struct zf_dcp *d, const struct zf_dcp_chunk *c)
{
    const struct zf_dcp_key *k = &d->key[c->key];

    return !c->lost && !c->empty && !k->is_bytes && !k->composed && !k->doubtful;
}

/* Gives the tensors' items of one file their addresses. */
static bool add_items(struct zf_dcp_placing *p, const uint32_t *order, uint64_t n,
                      struct zf_err *err)
{
    struct zf_dcp *d = p->d;
    struct zf_dcp_record *record;
    struct zf_source **items;
    uint64_t n_records = 0, file = d->chunk[order[0]].file;

    for (uint64_t i = 0; i < n; i++) {
        n_records += is_item(d, &d->chunk[order[i]]);
    }
    if (n_records == 0) {
        return true;
    }
    record = calloc(n_records, sizeof *record);
    if (!record) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "no memory for %llu items", SHOW(n_records));
    }
    n_records = 0;
    for (uint64_t i = 0; i < n; i++) {
        const struct zf_dcp_chunk *c = &d->chunk[order[i]];
        const struct zf_dcp_key *k = &d->key[c->key];

        if (is_item(d, c)) {
            record[n_records++] = (struct zf_dcp_record){
                .len = c->len & ZF_DCP_ITEM_MAX,
                .dtype = k->dtype & 63,
                .wrap = c->wrap & 3,
                .shape = zf_dcp_shape_print(k->ndim, &d->box[c->box + k->ndim])};
        }
    }
    items = &p->items[file];
    *items = zf_dcp_items_new(p->file[file], record, n_records, p->lim, err);
    if (!*items) {
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        struct zf_dcp_chunk *c = &d->chunk[order[i]];

        if (is_item(d, c) && !zf_items_add(*items, c->off, data_len(d, c), &c->addr, err)) {
            return false;
        }
    }
    zf_items_seal(*items);
    return true;
}

typedef bool file_fn(struct zf_dcp_placing *p, const uint32_t *order, uint64_t n,
                     struct zf_dcp_usual *usual, struct zf_err *err);

/* The bytes items of a file must be whole files. */
static bool look_at_bytes(struct zf_dcp_placing *p, const uint32_t *order, uint64_t n,
                          struct zf_err *err)
{
    struct zf_dcp *d = p->d;

    for (uint64_t i = 0; i < n; i++) {
        struct zf_dcp_chunk *c = &d->chunk[order[i]];

        if (!c->lost && d->key[c->key].is_bytes && !zf_dcp_bytes_look(p, c, err) &&
            (zf_err_in(err, "%s", d->file[c->file].path) || !lose(p, c, err))) {
            return false;
        }
    }
    return true;
}

static bool check_and_look(struct zf_dcp_placing *p, const uint32_t *order, uint64_t n,
                           struct zf_dcp_usual *usual, struct zf_err *err)
{
    return check_file(p, order, n, err) && look_at_odd(p, order, n, usual, err) &&
           look_at_bytes(p, order, n, err);
}

static bool add(struct zf_dcp_placing *p, const uint32_t *order, uint64_t n,
                struct zf_dcp_usual *usual, struct zf_err *err)
{
    (void)usual;
    return add_items(p, order, n, err);
}

static bool each_file(struct zf_dcp_placing *p, const uint32_t *order, uint64_t n, file_fn *fn,
                      struct zf_err *err)
{
    struct zf_dcp_usual usual = ZF_DCP_USUAL;
    uint64_t end;

    for (uint64_t i = 0; i < n; i = end) {
        for (end = i + 1; end < n && p->d->chunk[order[end]].file == p->d->chunk[order[i]].file;
             end++) {
        }
        if (!fn(p, order + i, end - i, &usual, err)) {
            return false;
        }
    }
    return true;
}

/* Every chunk that has an item, file by file and in the order of the file. */
static bool sort_chunks(struct zf_dcp_placing *p, uint32_t *order, uint64_t *n_out,
                        struct zf_err *err)
{
    struct zf_dcp *d = p->d;
    uint64_t n = 0;

    for (uint32_t i = 0; i < d->n_chunks; i++) {
        struct zf_dcp_chunk *c = &d->chunk[i];

        if (c->file != ZF_DCP_NONE && !c->lost) {
            order[n++] = i;
            continue;
        }
        if (!c->lost && !c->empty) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "\"%.160s\": storage_data has no item for a chunk of it", key_name(d, c));
            if (zf_err_in(err, ".metadata") || !lose(p, c, err)) {
                return false;
            }
        }
    }
    qsort_r(order, n, sizeof *order, by_place, d->chunk);
    *n_out = n;
    return true;
}

/* A tensor whose shape is contradicted: no byte of it can be given, and one that would be a file of no
 * bytes is left out, because it would look whole. */
static bool lose_tensor(struct zf_draft *draft, struct zf_err *err)
{
    const struct zf_lost how = {
        .why = ".metadata contradicts itself about the shape of this tensor", .unshaped = true};

    return zf_draft_lost_box(draft, NULL, zf_draft_type(draft).shape, &how, err);
}

static bool make_draft(struct zf_dcp_placing *p, uint64_t key, struct zf_draft **out,
                       struct zf_err *err)
{
    const struct zf_dcp_key *k = &p->d->key[key];
    struct zf_spot spot;
    uint64_t n;

    if (k->doubtful && zf_elems(k->ndim, k->shape, &n) && n == 0) {
        return true;
    }
    if (!zf_names_place(p->names, p->path[key], &spot, err)) {
        return false;
    }
    if (zf_build_find(p->b, spot) && !zf_names_extra(p->names, p->path[key], &spot, err)) {
        return false;
    }
    struct zf_type type = {k->dtype, k->ndim, k->shape};
    if (k->whole) {
        type.ndim--;
        type.shape = k->whole;
    }
    *out = zf_build_tensor(p->b, spot, type, err);
    return *out && (!k->doubtful || lose_tensor(*out, err));
}

/* Why the bytes of a chunk are lost, for who reads them; text: where the sentence is made. */
static struct zf_lost why_lost(const struct zf_dcp_placing *p, const struct zf_dcp_chunk *c,
                               char text[64], char path[1024])
{
    const struct zf_source *file = c->file == ZF_DCP_NONE ? NULL : p->file[c->file];
    const char *name = c->file == ZF_DCP_NONE ? ".metadata" : p->d->file[c->file].path;

    (void)snprintf(path, 1024, "%s/%s", zf_store_name(p->st), name);
    if (c->file == ZF_DCP_NONE) {
        return (struct zf_lost){.file = path, .why = "names no item for it that can be had"};
    }
    if (!file) {
        bool there = zf_store_has(p->st, name, ZF_ENTRY_FILE);

        return (struct zf_lost){.file = path, .why = there ? "cannot be opened" : "is missing"};
    }
    if (!zf_within(c->off, c->len, file->size)) {
        (void)snprintf(text, 64, "ends at byte %llu", SHOW(file->size));
        return (struct zf_lost){.file = path, .why = text};
    }
    (void)snprintf(text, 64, "has a damaged item at byte %llu", SHOW(c->off));
    return (struct zf_lost){.file = path, .why = text};
}

/* A chunk of a flattened tensor (mcore_data.h): start and size are a cell of the grid of local boxes and,
 * last, a range of the elements of that box. */
static bool tensors_put_run(const struct zf_dcp_key *k, struct zf_draft *draft,
                            const uint64_t *start, const uint64_t *size, struct zf_from from,
                            const struct zf_lost *lost, struct zf_err *err)
{
    uint64_t box[ZF_DCP_WHOLE_DIMS], local[ZF_DCP_WHOLE_DIMS];
    uint32_t n = k->ndim - 1;

    for (uint32_t d = 0; d < n; d++) {
        if (size[d] != 1) {
            return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                           "\"%.120s\": a chunk of a flattened tensor spans %llu boxes", k->name,
                           SHOW(size[d]));
        }
        local[d] = k->whole[d] / k->shape[d];
        box[d] = start[d] * local[d];
    }
    return lost ? zf_draft_lost_run(draft, box, local, start[n], size[n], lost, err)
                : zf_draft_run(draft, box, local, start[n], size[n], from, err);
}

/* Gives one chunk of a plain tensor to its draft. */
static bool put_box(struct zf_dcp_placing *p, const struct zf_dcp_chunk *c, struct zf_draft *draft,
                    struct zf_err *err)
{
    struct zf_dcp *d = p->d;
    const struct zf_dcp_key *k = &d->key[c->key];
    const uint64_t *start = &d->box[c->box], *size = start + k->ndim;
    struct zf_from from = {.off = c->addr};
    struct zf_lost lost;
    char text[64], path[1024];

    if (c->lost) {
        lost = why_lost(p, c, text, path);
    } else {
        from.src = p->items[c->file];
    }
    if (k->whole) {
        return tensors_put_run(k, draft, start, size, from, c->lost ? &lost : NULL, err);
    }
    return c->lost ? zf_draft_lost_box(draft, start, size, &lost, err)
                   : zf_draft_box(draft, start, size, from, err);
}

static bool put_tensors(struct zf_dcp_placing *p, struct zf_err *err)
{
    struct zf_dcp *d = p->d;
    zf_auto(mem) struct zf_draft **draft = calloc(d->n_keys + 1, sizeof *draft);

    if (!draft) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "no memory for %llu tensors", SHOW(d->n_keys));
    }
    for (uint64_t i = 0; i < d->n_keys; i++) {
        if (!d->key[i].is_bytes && !d->key[i].composed && !make_draft(p, i, &draft[i], err)) {
            return false;
        }
    }
    for (uint64_t i = 0; i < d->n_chunks; i++) {
        const struct zf_dcp_chunk *c = &d->chunk[i];
        const struct zf_dcp_key *k = &d->key[c->key];
        bool none = c->empty || k->doubtful || !draft[c->key];
        bool ok = k->is_bytes ? zf_dcp_bytes(p, c, err) : none || put_box(p, c, draft[c->key], err);

        if (!ok) {
            return false;
        }
    }
    return true;
}

static int by_key(const void *a, const void *b, void *ctx)
{
    const struct zf_dcp_chunk *chunk = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (chunk[x].key != chunk[y].key) {
        return chunk[x].key < chunk[y].key ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

/* The tensors that are made of others, each with all its chunks. */
static bool put_composed(struct zf_dcp_placing *p, uint32_t *order, struct zf_err *err)
{
    struct zf_dcp *d = p->d;
    uint64_t n = 0, end;

    for (uint32_t i = 0; i < d->n_chunks; i++) {
        if (d->key[d->chunk[i].key].composed && !d->key[d->chunk[i].key].doubtful) {
            order[n++] = i;
        }
    }
    qsort_r(order, n, sizeof *order, by_key, d->chunk);
    for (uint64_t i = 0; i < n; i = end) {
        const struct zf_dcp_chunk *c = &d->chunk[order[i]];

        for (end = i + 1; end < n && d->chunk[order[end]].key == c->key; end++) {
        }
        if (!zf_dcp_composed(p, order + i, end - i, err)) {
            zf_err_in(err, "%s", c->file == ZF_DCP_NONE ? ".metadata" : d->file[c->file].path);
            if (!zf_forgive(p->b, err)) {
                return false;
            }
        }
    }
    return true;
}

static bool place(struct zf_dcp_placing *p, struct zf_err *err)
{
    zf_auto(mem) uint32_t *order = calloc(p->d->n_chunks + 1, sizeof *order);
    uint64_t n;

    p->file = calloc(p->d->n_files + 1, sizeof *p->file);
    p->items = calloc(p->d->n_files + 1, sizeof *p->items);
    if (!p->file || !p->items || !order) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "no memory for %llu chunks",
                       SHOW(p->d->n_chunks));
    }
    return see_names(p, err) && open_files(p, err) && sort_chunks(p, order, &n, err) &&
           each_file(p, order, n, check_and_look, err) && check_ends(p, err) &&
           zf_dcp_copies_check(p, err) && each_file(p, order, n, add, err) && put_tensors(p, err) &&
           put_composed(p, order, err) && zf_dcp_state(p, err);
}

bool zf_dcp_place(struct zf_dcp *d, struct zf_store *st, const struct zf_limits *lim,
                  struct zf_build *b, struct zf_err *err)
{
    zf_auto(names) struct zf_names *names = zf_names_new(NULL, err);
    struct zf_dcp_placing p = {.d = d, .st = st, .lim = lim, .b = b, .names = names};
    bool ok = names && place(&p, err);

    for (uint64_t i = 0; i < d->n_files; i++) {
        if (p.file) {
            zf_source_unref(&p.file[i]);
        }
        if (p.items) {
            zf_source_unref(&p.items[i]);
        }
    }
    free(p.file);
    free(p.items);
    return ok;
}
