/* SPDX-License-Identifier: Apache-2.0 */
/* Turns keys and chunks into tensors, in this order:
 *
 *  1. Every key's path is given to the naming rules, which need all of them before they can answer.
 *  2. The files are opened, and the items checked against them (files.c).
 *  3. Items whose length does not fit a plain tensor are opened (composed.c), and bytes items until a
 *     budget is used up (bytes_items.c).  All other items stay unread: mounting reads .metadata and
 *     the ends of a few files, however many items there are.
 *  4. The plain items of a file become one items source, which finds at the first read of each item
 *     where its data starts; so each chunk has an address there.
 *  5. Each key becomes a draft and each chunk a box of it, at that address.  The builder proves later
 *     that the boxes cover the tensor.
 *  6. Composed tensors, and the values of small bytes items, are added. */
#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

#include "bytes_items.h"
#include "placing.h"
#include "items.h"
#include "mcore_data.h"
#include "paths.h"

#define SHOW(n) ((unsigned long long)(n))

static bool tensors_add_names(struct dcp_placing *p, struct zf_err *err)
{
    struct zf_dcp *d = p->d;

    for (uint64_t i = 0; i < d->key.n; i++) {
        struct zf_path path;

        if (!d->key.at[i].is_bytes && (!dcp_path(d, &d->key.at[i], &p->room, &path, err) ||
                                       !zf_names_add(p->names, path, err)))
            return false;
    }
    return true;
}

bool zf_dcp_add_names(struct zf_dcp *d, struct zf_names *names, struct zf_err *err)
{
    zf_auto(dcp_placing) struct dcp_placing p = {.d = d, .names = names};

    d->names = names;
    return tensors_add_names(&p, err);
}

/* Makes all checks of the items that do not need their tensors. */
static bool tensors_check_items(struct dcp_placing *p, const uint32_t *order, uint64_t n,
                                struct zf_err *err)
{
    struct dcp_usual usual = ZF_DCP_USUAL;

    for (uint64_t i = 0, run; i < n; i += run) {
        run = dcp_files_run(p->d, order + i, n - i);
        if (!dcp_files_check(p, order + i, run, err) ||
            !dcp_composed_find(p, order + i, run, &usual, err) ||
            !dcp_bytes_check(p, order + i, run, err) || !dcp_frames_check(p, order + i, run, err))
            return false;
    }
    return dcp_files_check_ends(p, err);
}

/* Is the item a plain tensor, whose data is found when it is read? */
static bool tensors_is_plain(const struct zf_dcp *d, const struct dcp_chunk *c)
{
    const struct dcp_key *k = &d->key.at[c->key];

    return !c->lost && !c->empty && !k->is_bytes && !k->composed && !k->doubtful;
}

/* Assigns addresses to the plain items order [n] of one file. */
static bool tensors_add_file(struct dcp_placing *p, const uint32_t *order, uint64_t n,
                             struct zf_err *err)
{
    struct zf_dcp *d = p->d;
    struct dcp_record *record;
    struct zf_source **items;
    uint64_t n_records = 0, file = d->chunk.at[order[0]].item.file;

    for (uint64_t i = 0; i < n; i++)
        n_records += tensors_is_plain(d, &d->chunk.at[order[i]]);
    if (n_records == 0)
        return true;
    record = calloc(n_records, sizeof *record);
    if (!record) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for %llu items",
                       SHOW(n_records));
    }
    n_records = 0;
    for (uint64_t i = 0; i < n; i++)
        if (tensors_is_plain(d, &d->chunk.at[order[i]]))
            record[n_records++] = dcp_record_of(d, &d->chunk.at[order[i]]);
    items = &p->items[file];
    *items = dcp_items_new(p->file[file], record, n_records, p->lim, err);
    if (!*items)
        return false;
    for (uint64_t i = 0; i < n; i++) {
        struct dcp_chunk *c = &d->chunk.at[order[i]];

        if (tensors_is_plain(d, c) &&
            !zf_items_add(*items, c->item.off, dcp_data_len(d, c), &c->item.off, err))
            return false;
    }
    zf_items_seal(*items);
    return true;
}

static bool tensors_add_items(struct dcp_placing *p, const uint32_t *order, uint64_t n,
                              struct zf_err *err)
{
    for (uint64_t i = 0, run; i < n; i += run) {
        run = dcp_files_run(p->d, order + i, n - i);
        if (!tensors_add_file(p, order + i, run, err))
            return false;
    }
    return true;
}

/* Adds a tensor whose shape is contradicted: only its name is shown. */
static bool tensors_add_lost(struct dcp_placing *p, const struct zf_spot *spot, struct zf_err *err)
{
    static const struct zf_lost how = {.file = ".metadata",
                                       .why = "gives contradicting shapes for this tensor"};
    const char *slash = *spot->set ? "/" : "";
    const char *name = zf_arena_fmt(p->d->pickles, err, "%s%s%s", spot->set, slash, spot->name);

    return name && zf_build_missing(p->b, name, strlen(name), &how, err);
}

/* Makes the draft of a key, without chunks; *out is unchanged if the tensor is not shown. */
static bool tensors_draft(struct dcp_placing *p, uint64_t key, struct zf_draft **out,
                          struct zf_err *err)
{
    const struct dcp_key *k = &p->d->key.at[key];
    struct zf_type type = {k->dtype, k->ndim, k->shape};
    struct zf_spot spot = {"", k->name, k->name_len};
    struct zf_path path;

    if (k->whole) {
        type.ndim--;
        type.shape = k->whole;
    }
    if (!dcp_path(p->d, k, &p->room, &path, err) ||
        (!p->hidden && !zf_names_place(p->names, path, &spot, err)))
        return false;
    if (k->doubtful)
        return tensors_add_lost(p, &spot, err);
    if (p->hidden)
        *out = zf_build_hidden(p->b, k->name, k->name_len, type, err);
    else if (!zf_build_find(p->b, spot) || zf_names_extra(p->names, path, &spot, err))
        *out = zf_build_tensor(p->b, spot, type, err);
    return *out != NULL;
}

/* The reason why the bytes of a chunk are lost, for their readers.  text, path: buffers for the result. */
static struct zf_lost tensors_why_lost(const struct dcp_placing *p, const struct dcp_chunk *c,
                                       char text[64], char path[1024])
{
    const struct zf_source *file = c->item.file == ZF_DCP_NONE ? NULL : p->file[c->item.file];
    const char *name = c->item.file == ZF_DCP_NONE ? ".metadata" : p->d->file.at[c->item.file].path;

    (void)snprintf(path, 1024, "%s/%s", zf_store_name(p->st), name);
    if (c->item.file == ZF_DCP_NONE)
        return (struct zf_lost){.file = path, .why = "lists no usable item for this part"};
    if (!file) {
        bool there = zf_store_has(p->st, name, ZF_ENTRY_FILE);

        return (struct zf_lost){.file = path, .why = there ? "cannot be opened" : "is missing"};
    }
    if (p->d->file.at[c->item.file].foreign)
        return (struct zf_lost){.file = path, .why = "is not the file that .metadata describes"};
    if (!zf_within(c->item.off, c->item.len, file->size)) {
        (void)snprintf(text, 64, "ends at byte %llu", SHOW(file->size));
        return (struct zf_lost){.file = path, .why = text};
    }
    (void)snprintf(text, 64, "has a damaged item at byte %llu", SHOW(c->item.off));
    return (struct zf_lost){.file = path, .why = text};
}

/* Adds a chunk of a flattened tensor (mcore_data.h): start and size give a cell in the grid of local boxes
 * and, last, a range of the elements of that box. */
static bool tensors_put_run(const struct dcp_key *k, struct zf_draft *draft, const uint64_t *start,
                            const uint64_t *size, struct zf_from from, const struct zf_lost *lost,
                            struct zf_err *err)
{
    uint64_t box[ZF_DCP_WHOLE_DIMS], local[ZF_DCP_WHOLE_DIMS];
    uint32_t n = k->ndim - 1;

    for (uint32_t d = 0; d < n; d++) {
        if (size[d] != 1) {
            return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                           "\"%.120s\": a chunk of a flattened tensor spans %llu boxes", k->name,
                           SHOW(size[d]));
        }
    }
    dcp_flat_box(n, k->shape, k->whole, start, box, local);
    return lost ? zf_draft_put(draft, (struct zf_where){box, local, start[n], size[n], false},
                               (struct zf_from){.lost = lost}, err)
                : zf_draft_put(draft, (struct zf_where){box, local, start[n], size[n], false}, from,
                               err);
}

/* Adds one chunk of a plain tensor to its draft. */
static bool tensors_put_chunk(struct dcp_placing *p, const struct dcp_chunk *c,
                              struct zf_draft *draft, struct zf_err *err)
{
    struct zf_dcp *d = p->d;
    const struct dcp_key *k = &d->key.at[c->key];
    const uint64_t *start = c->box, *size = start + k->ndim;
    struct zf_from from = {.off = c->item.off};
    struct zf_lost lost;
    char text[64], path[1024];

    if (c->lost)
        lost = tensors_why_lost(p, c, text, path);
    else
        from.src = p->items[c->item.file];
    if (k->whole)
        return tensors_put_run(k, draft, start, size, from, c->lost ? &lost : NULL, err);
    return c->lost ? zf_draft_box(draft, start, size, (struct zf_from){.lost = &lost}, err)
                   : zf_draft_box(draft, start, size, from, err);
}

static bool tensors_put(struct dcp_placing *p, struct zf_err *err)
{
    struct zf_dcp *d = p->d;

    if (!p->hidden && !dcp_bytes_disambiguate(p, err))
        return false;
    for (uint64_t i = 0; i < d->key.n; i++)
        if (!d->key.at[i].is_bytes && !d->key.at[i].composed &&
            !tensors_draft(p, i, &d->draft[i], err))
            return false;
    for (uint64_t i = 0; i < d->chunk.n; i++) {
        const struct dcp_chunk *c = &d->chunk.at[i];
        bool none = c->empty || d->key.at[c->key].doubtful || !d->draft[c->key];
        bool ok = d->key.at[c->key].is_bytes
                      ? p->hidden || dcp_bytes(p, c, err)
                      : none || tensors_put_chunk(p, c, d->draft[c->key], err);

        if (!ok)
            return false;
    }
    return true;
}

static bool tensors_place(struct dcp_placing *p, struct zf_err *err)
{
    zf_auto(mem) uint32_t *order = calloc(p->d->chunk.n + 1, sizeof *order);
    uint64_t n;

    dcp_forget_names(p->d);

    if (!order) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for %llu chunks",
                       SHOW(p->d->chunk.n));
    }
    return (p->d->names || tensors_add_names(p, err)) && dcp_files_open(p, err) &&
           dcp_files_sort(p, order, &n, err) && tensors_check_items(p, order, n, err) &&
           dcp_copies_check(p, err) && tensors_add_items(p, order, n, err) && tensors_put(p, err) &&
           dcp_composed_put(p, order, err) && (p->hidden || dcp_state(p, err));
}

bool zf_dcp_place(struct zf_dcp *d, struct zf_store *st, const struct zf_limits *lim,
                  struct zf_build *b, struct zf_err *err)
{
    zf_auto(dcp_placing) struct dcp_placing p = {.d = d, .st = st, .lim = lim, .b = b};

    return dcp_placing_init(&p, err) && tensors_place(&p, err);
}

bool zf_dcp_draft(struct zf_dcp *d, struct zf_store *st, const struct zf_limits *lim,
                  struct zf_build *b, struct zf_err *err)
{
    zf_auto(dcp_placing) struct dcp_placing p = {
        .d = d, .st = st, .lim = lim, .b = b, .hidden = true};

    return dcp_placing_init(&p, err) && tensors_place(&p, err);
}
