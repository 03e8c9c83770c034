/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/vec.h>

#include "metadata.h"

struct zf_dcp *zf_dcp_new(const struct zf_limits *lim, struct zf_err *err)
{
    struct zf_dcp *d = calloc(1, sizeof *d);

    if (!d) {
        zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "no memory for metadata");
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
    if (d->n_groups < ZF_DCP_GROUPS_MAX) {
        d->at_group = d->n_groups++;
        d->group[d->at_group] = group;
    }
}

uint32_t zf_dcp_n_read(const struct zf_dcp *d)
{
    return (uint32_t)d->pass.n;
}

void zf_dcp_free(struct zf_dcp *d)
{
    if (!d) {
        return;
    }
    zf_index_fini(&d->keys);
    zf_index_fini(&d->chunks);
    zf_index_fini(&d->files);
    zf_arena_free(d->pickles);
    for (uint64_t i = 0; d->source && i < d->n_files; i++) {
        zf_source_unref(&d->source[i]);
    }
    free(d->source);
    free(d->draft);
    free(d->key);
    free(d->chunk);
    free(d->box);
    free(d->file);
    free(d->copy);
    zf_vec_fini(&d->pass);
    free(d);
}

/* ---- keys ---- */

static uint64_t metadata_key_hash(const struct zf_dcp *d, const char *p, uint64_t n)
{
    return zf_hash(d->at_group, p, n);
}

uint32_t dcp_find_key(const struct zf_dcp *d, const char *p, uint64_t n)
{
    uint64_t hash = metadata_key_hash(d, p, n), at = 0;
    uint32_t i;

    while ((i = zf_index_next(&d->keys, hash, &at)) != ZF_DCP_NONE) {
        const struct dcp_key *k = &d->key[i];

        if (k->group == d->at_group && k->name_len == n && memcmp(k->name, p, n) == 0) {
            return i;
        }
    }
    return ZF_DCP_NONE;
}

bool dcp_add_key(struct zf_dcp *d, const char *p, uint64_t n, const struct zf_limits *lim,
                 uint32_t *out, struct zf_err *err)
{
    struct dcp_key *key;

    if (d->n_keys >= lim->tensors || d->n_keys >= ZF_DCP_NONE - 1 || n > INT32_MAX) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "more than %llu tensors (limit tensors)",
                       (unsigned long long)d->n_keys);
    }
    key = zf_vec_grow(d->key, d->n_keys, 1, &d->cap_keys, sizeof *key, err);
    if (!key) {
        return false;
    }
    d->key = key;
    *out = (uint32_t)d->n_keys;
    key[d->n_keys] = (struct dcp_key){.name = p,
                                      .name_len = (uint32_t)n,
                                      .pass = (uint32_t)d->pass.n,
                                      .group = d->at_group & 0xff};
    return zf_index_add(&d->keys, metadata_key_hash(d, p, n), *out, err) && ++d->n_keys;
}

/* ---- chunks ---- */

static uint64_t metadata_box_hash(const struct zf_dcp *d, uint32_t key, const uint64_t *start)
{
    return zf_hash(key, start, d->key[key].ndim * sizeof *start);
}

uint64_t *dcp_box_room(struct zf_dcp *d, uint32_t ndim, struct zf_err *err)
{
    uint64_t *box = zf_vec_grow(d->box, 0, 2u * ndim + 1, &d->cap_box, sizeof *box, err);

    d->box = box ? box : d->box;
    return box;
}

/* The box at hand.  One that is all of its tensor lies in front of the tensor's shape and behind it. */
static const uint64_t *metadata_keep_box(struct zf_dcp *d, const struct dcp_key *k,
                                         struct zf_err *err)
{
    static const uint64_t none;
    const uint64_t *corner = k->shape ? k->shape - k->ndim : &none;

    if (k->ndim == 0 || memcmp(d->box, corner, 2 * k->ndim * sizeof *corner) == 0) {
        return corner;
    }
    return zf_arena_copy(d->pickles, d->box, 2 * (uint64_t)k->ndim, sizeof *corner, err);
}

struct dcp_chunk *dcp_add_chunk(struct zf_dcp *d, uint32_t key, bool hidden,
                                const struct zf_limits *lim, struct zf_err *err)
{
    struct dcp_chunk *chunk;
    uint64_t hash = metadata_box_hash(d, key, d->box);
    const uint64_t *box = metadata_keep_box(d, &d->key[key], err);

    if (d->n_chunks >= lim->pieces || d->n_chunks >= ZF_DCP_NONE - 1) {
        zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "more than %llu chunks (limit pieces)",
                (unsigned long long)d->n_chunks);
        return NULL;
    }
    chunk = box ? zf_vec_grow(d->chunk, d->n_chunks, 1, &d->cap_chunks, sizeof *chunk, err) : NULL;
    if (!chunk) {
        return NULL;
    }
    d->chunk = chunk;
    chunk[d->n_chunks] = (struct dcp_chunk){.key = key, .item.file = ZF_DCP_NONE, .box = box};
    if (!hidden && !zf_index_add(&d->chunks, hash, (uint32_t)d->n_chunks, err)) {
        return NULL;
    }
    return &chunk[d->n_chunks++];
}

uint32_t dcp_find_chunk(const struct zf_dcp *d, uint32_t key, const uint64_t *start, uint64_t from)
{
    uint64_t hash = metadata_box_hash(d, key, start), at = 0;
    uint32_t i;

    while ((i = zf_index_next(&d->chunks, hash, &at)) != ZF_DCP_NONE) {
        const struct dcp_chunk *c = &d->chunk[i];

        if (i >= from && c->key == key &&
            memcmp(c->box, start, d->key[key].ndim * sizeof *start) == 0) {
            return i;
        }
    }
    return ZF_DCP_NONE;
}

/* ---- files ---- */

bool dcp_take_file(struct zf_dcp *d, const char *path, uint32_t *out, struct zf_err *err)
{
    uint64_t hash = zf_hash_str(0, path), at = 0;
    struct dcp_file *file;

    while ((*out = zf_index_next(&d->files, hash, &at)) != ZF_DCP_NONE) {
        if (strcmp(d->file[*out].path, path) == 0) {
            return true;
        }
    }
    path = zf_arena_str(d->pickles, path, strlen(path), err);
    file = path ? zf_vec_grow(d->file, d->n_files, 1, &d->cap_files, sizeof *file, err) : NULL;
    if (!file) {
        return false;
    }
    d->file = file;
    *out = (uint32_t)d->n_files;
    file[*out] = (struct dcp_file){.path = path};
    return zf_index_add(&d->files, hash, *out, err) && ++d->n_files;
}

/* ---- one metadata file ---- */

bool dcp_in_file(const struct dcp_reading *r, struct zf_err *err)
{
    size_t n = strlen(r->path);

    return strncmp(err->path, r->path, n) == 0 ? false : zf_err_in(err, "%s", r->path);
}

bool dcp_settle(struct dcp_reading *r, struct zf_err *err)
{
    (void)dcp_in_file(r, err);
    return zf_forgive(r->b, err);
}
