/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/vec.h>

#include "metadata.h"

#define FEW_CHUNKS 256u

struct zf_dcp *zf_dcp_new(const struct zf_limits *lim, struct zf_err *err)
{
    struct zf_dcp *d = calloc(1, sizeof *d);

    if (!d) {
        zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for metadata");
        return NULL;
    }
    d->pickles = zf_arena_new(lim->pickle_memory, err);
    if (!d->pickles) {
        free(d);
        return NULL;
    }
    d->lim = *lim;
    return d;
}

void zf_dcp_begin(struct zf_dcp *d, struct zf_dcp_group group)
{
    assert(d->n_groups < ZF_DCP_GROUPS_MAX);
    d->at_group = d->n_groups++;
    d->group[d->at_group] = group;
}

uint32_t zf_dcp_n_read(const struct zf_dcp *d)
{
    return (uint32_t)d->pass.n;
}

void zf_dcp_free(struct zf_dcp *d)
{
    if (!d)
        return;
    dcp_forget_names(d);
    zf_table_free(d->files);
    zf_arena_free(d->pickles);
    for (uint64_t i = 0; d->source && i < d->file.n; i++)
        zf_source_unref(&d->source[i]);
    free(d->source);
    free(d->draft);
    zf_vec_fini(&d->key);
    zf_vec_fini(&d->chunk);
    zf_vec_fini(&d->box);
    zf_vec_fini(&d->file);
    zf_vec_fini(&d->copy);
    zf_vec_fini(&d->pass);
    free(d);
}

/* ---- keys ---- */

void dcp_forget_names(struct zf_dcp *d)
{
    for (uint32_t i = 0; i < ZF_DCP_GROUPS_MAX; i++)
        HASH_CLEAR(hh, d->keys[i]);
    zf_arena_free(d->numbers);
    d->numbers = NULL;
    zf_sorted_fini(&d->chunks);
}

/* Is it the key after the one found last?  All mappings of a metadata file have the same order of keys. */
static bool metadata_is_next(const struct zf_dcp *d, const char *p, uint64_t n)
{
    const struct dcp_key *k = d->next_key < d->key.n ? &d->key.at[d->next_key] : NULL;

    return k && k->group == d->at_group && k->name_len == n && memcmp(k->name, p, n) == 0;
}

static uint32_t metadata_find_key(struct zf_dcp *d, const char *p, uint64_t n, unsigned hash)
{
    const struct dcp_number *e;

    HASH_FIND_BYHASHVALUE(hh, d->keys[d->at_group], p, n, hash, e);
    return e ? e->number : ZF_DCP_NONE;
}

uint32_t dcp_find_key(struct zf_dcp *d, const char *p, uint64_t n)
{
    uint32_t at = d->next_key;
    unsigned hash;

    if (!metadata_is_next(d, p, n)) {
        HASH_VALUE(p, n, hash);
        at = metadata_find_key(d, p, n, hash);
    }
    d->next_key = at == ZF_DCP_NONE ? d->next_key : at + 1;
    return at;
}

static bool metadata_add_key(struct zf_dcp *d, const char *p, uint64_t n, unsigned hash,
                             struct zf_err *err)
{
    struct dcp_number *e = NULL;

    if (!d->numbers)
        d->numbers = zf_arena_new(UINT64_MAX, err);
    e = d->numbers ? zf_arena_get(d->numbers, 1, sizeof *e, err) : NULL;
    struct dcp_key *key = e ? zf_vec_push(&d->key, err) : NULL;
    if (!key)
        return false;
    e->number = (uint32_t)(d->key.n - 1);
    d->newest = d->chunk.n;
    *key = (struct dcp_key){.name = p,
                            .name_len = (uint32_t)n,
                            .pass = (uint32_t)d->pass.n,
                            .group = d->at_group & 0xff};
    return zf_table_add_hashed(d->keys[d->at_group], p, n, hash, e, err);
}

bool dcp_take_key(struct zf_dcp *d, const char *p, uint64_t n, uint32_t *out, bool *new_out,
                  struct zf_err *err)
{
    unsigned hash;

    HASH_VALUE(p, n, hash);
    *out = metadata_find_key(d, p, n, hash);
    *new_out = *out == ZF_DCP_NONE;
    if (!*new_out)
        return true;
    if (d->key.n >= d->lim.tensors || d->key.n >= ZF_DCP_NONE - 1 || n > INT32_MAX) {
        return zf_fail_limit(err, ZF_LIMIT_tensors, ZF_OFF_NONE,
                             "more than %llu tensors (limit tensors)",
                             (unsigned long long)d->key.n);
    }
    *out = (uint32_t)d->key.n;
    return metadata_add_key(d, p, n, hash, err);
}

/* ---- chunks ---- */

/* The upper half of a chunk's entry in d->chunks; the lower half is its number. */
static uint64_t metadata_box_hash(const struct zf_dcp *d, uint32_t key, const uint64_t *start)
{
    return zf_hash(key, start, d->key.at[key].ndim * sizeof *start) >> 32 << 32;
}

uint64_t *dcp_box_room(struct zf_dcp *d, uint32_t ndim, struct zf_err *err)
{
    return zf_vec_room(&d->box, 2u * ndim + 1, err) ? d->box.at : NULL;
}

/* Keeps a copy of the current box.  The box of a whole tensor needs none: the zeros before its shape, and the shape. */
static const uint64_t *metadata_keep_box(struct zf_dcp *d, const struct dcp_key *k,
                                         struct zf_err *err)
{
    static const uint64_t none;
    const uint64_t *corner = k->shape ? k->shape - k->ndim : &none;

    if (k->ndim == 0 || memcmp(d->box.at, corner, 2 * k->ndim * sizeof *corner) == 0)
        return corner;
    return zf_arena_copy(d->pickles, d->box.at, 2 * (uint64_t)k->ndim, sizeof *corner, err);
}

struct dcp_chunk *dcp_add_chunk(struct zf_dcp *d, uint32_t key, bool hidden,
                                const struct zf_limits *lim, struct zf_err *err)
{
    uint64_t hash = metadata_box_hash(d, key, d->box.at);
    const uint64_t *box = metadata_keep_box(d, &d->key.at[key], err);

    if (d->chunk.n >= lim->pieces || d->chunk.n >= ZF_DCP_NONE - 1) {
        zf_fail_limit(err, ZF_LIMIT_pieces, ZF_OFF_NONE, "more than %llu chunks (limit pieces)",
                      (unsigned long long)d->chunk.n);
        return NULL;
    }
    struct dcp_chunk *chunk = box ? zf_vec_push(&d->chunk, err) : NULL;
    if (!chunk)
        return NULL;
    d->hides = d->hides || hidden;
    *chunk = (struct dcp_chunk){.key = key, .item.file = ZF_DCP_NONE, .box = box};
    return hidden || zf_sorted_add(&d->chunks, hash | (d->chunk.n - 1), err) ? chunk : NULL;
}

static bool metadata_starts_at(const struct zf_dcp *d, uint32_t chunk, uint32_t key,
                               const uint64_t *start)
{
    const struct dcp_chunk *c = &d->chunk.at[chunk];

    return c->key == key && memcmp(c->box, start, d->key.at[key].ndim * sizeof *start) == 0;
}

/* The last key's chunks are at the end of d->chunk: while they are few, they are searched linearly. */
uint32_t dcp_find_chunk(struct zf_dcp *d, uint32_t key, const uint64_t *start, uint64_t from)
{
    uint32_t found = ZF_DCP_NONE;
    struct zf_sorted_at at = {0};
    uint64_t hash, v;

    /* Items are in the order of chunks; in one metadata file no two chunks of a key have the same start. */
    if (d->next_chunk < d->chunk.n && d->next_chunk >= from && !d->hides &&
        metadata_starts_at(d, d->next_chunk, key, start))
        return d->next_chunk++;
    if (key + 1 == d->key.n && d->chunk.n - d->newest <= FEW_CHUNKS) {
        from = from > d->newest ? from : d->newest;
        while (from < d->chunk.n && !metadata_starts_at(d, (uint32_t)from, key, start))
            from++;
        return from < d->chunk.n ? (uint32_t)from : ZF_DCP_NONE;
    }
    hash = metadata_box_hash(d, key, start);
    while (zf_sorted_next(&d->chunks, hash | from, hash | UINT32_MAX, &at, &v)) {
        const uint32_t i = (uint32_t)v;

        found = i < found && metadata_starts_at(d, i, key, start) ? i : found;
    }
    d->next_chunk = found == ZF_DCP_NONE ? d->next_chunk : found + 1;
    return found;
}

/* ---- files ---- */

bool dcp_take_file(struct zf_dcp *d, const char *path, uint32_t *out, struct zf_err *err)
{
    struct dcp_number *e = zf_table_find_str(d->files, path);
    struct dcp_file *file;

    if (e) {
        *out = e->number;
        return true;
    }
    e = zf_table_make_str(d->files, path, err);
    if (!e)
        return false;
    path = zf_arena_str(d->pickles, path, strlen(path), err);
    file = path ? zf_vec_push(&d->file, err) : NULL;
    if (!file)
        return false;
    file->path = path;
    *out = e->number = (uint32_t)(d->file.n - 1);
    return true;
}

/* ---- one metadata file ---- */

bool dcp_in_file(const struct dcp_reading *r, struct zf_err *err)
{
    size_t n = strlen(r->path);

    return strncmp(err->path, r->path, n) == 0 ? false : zf_err_in(err, "%s", r->path);
}

bool dcp_forgive(struct dcp_reading *r, struct zf_err *err)
{
    (void)dcp_in_file(r, err);
    r->d->patched = true;
    return zf_forgive(r->b, err);
}
