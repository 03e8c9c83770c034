/* SPDX-License-Identifier: Apache-2.0 */
/* Two checkpoints that are to be the same in everything that can be asked of them. */
#ifndef TESTS_SUPPORT_SAME_MODEL_H
#define TESTS_SUPPORT_SAME_MODEL_H

#include <zf/model/model.h>

#include "unit.h"

static inline void same_model_bytes(const struct zf_map *a, const struct zf_map *b)
{
    struct zf_err x, y;

    assert_int_equal(zf_map_size(a), zf_map_size(b));
    for (uint64_t i = 0; i < zf_map_size(a); i++) {
        unsigned char p = 0, q = 0;
        bool ok = zf_map_read(a, &p, 1, i, &x);

        assert_int_equal(ok, zf_map_read(b, &q, 1, i, &y));
        assert_int_equal(p, q);
        assert_true(ok || strcmp(x.msg, y.msg) == 0);
    }
}

static inline void same_model_tensor(const struct zf_tensor *a, const struct zf_tensor *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->ndim, b->ndim);
    assert_memory_equal(a->shape, b->shape, a->ndim * sizeof *a->shape);
    assert_int_equal(a->alias_of, b->alias_of);
    assert_int_equal(a->lost, b->lost);
    assert_int_equal(a->filled, b->filled);
    assert_int_equal(a->apart, b->apart);
    same_model_bytes(a->data, b->data);
}

static inline void same_model(const struct zf_checkpoint *a, const struct zf_checkpoint *b)
{
    assert_string_equal(a->tag, b->tag);
    assert_int_equal(a->has_step, b->has_step);
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->n_pieces, b->n_pieces);
    assert_int_equal(a->n_sets, b->n_sets);
    assert_int_equal(a->n_blobs, b->n_blobs);
    assert_int_equal(a->n_notes, b->n_notes);
    assert_int_equal(a->n_missing, b->n_missing);
    for (uint32_t i = 0; i < a->n_sets; i++) {
        assert_string_equal(a->set[i].path, b->set[i].path);
        assert_int_equal(a->set[i].n, b->set[i].n);
        assert_int_equal(a->set[i].raw_only, b->set[i].raw_only);
        for (uint32_t k = 0; k < a->set[i].n; k++)
            same_model_tensor(&a->set[i].tensor[k], &b->set[i].tensor[k]);
    }
    for (uint32_t i = 0; i < a->n_blobs; i++) {
        assert_string_equal(a->blob[i].path, b->blob[i].path);
        same_model_bytes(a->blob[i].data, b->blob[i].data);
    }
    for (uint32_t i = 0; i < a->n_notes; i++) {
        assert_int_equal(a->note[i].kind, b->note[i].kind);
        assert_string_equal(a->note[i].about, b->note[i].about);
        assert_string_equal(a->note[i].text, b->note[i].text);
    }
    for (uint32_t i = 0; i < a->n_missing; i++)
        assert_string_equal(a->missing[i].name, b->missing[i].name);
}

#endif
