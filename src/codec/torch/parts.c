/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that consist of several tensors.  Source: torch/_utils.py _rebuild_qtensor,
 * _rebuild_sparse_tensor, _rebuild_nested_tensor (1.13 … 2.13); torch/utils/_python_dispatch.py for
 * wrapper subclasses. */
#include <string.h>

#include "file.h"

struct sink {
    struct zf_torch *t;
    zf_torch_part_fn *fn;
    void *ctx;
    uint64_t n;
};

static bool parts_emit(struct sink *s, const char *name, const struct zf_pv *v, struct zf_err *err)
{
    struct zf_torch_part part = {.name = name, .value = v};
    struct zf_torch_tensor ten;

    if (zf_torch_kind(s->t, v) == ZF_TORCH_DENSE) {
        if (!zf_torch_tensor(s->t, v, &ten, err))
            return false;
        part.tensor = &ten;
    }
    s->n++;
    return s->fn(s->ctx, &part, err);
}

/* params: (per_tensor_affine, scale, zero_point) or (per_channel_…, scales, zero_points, axis) */
static bool parts_quant_parts(struct sink *s, const struct torch_form *f, struct zf_err *err)
{
    const struct zf_pv *params = zf_pv_item(f->args, 4);
    bool channel = strncmp(zf_pv_name(zf_pv_item(params, 0)), "per_channel", 11) == 0;
    struct zf_torch_tensor ten;
    struct zf_torch_part part = {.name = "int_repr", .tensor = &ten};

    if (zf_pv_len(params) < (channel ? 4 : 3))
        return torch_bad(s->t, err, ZF_E_FORMAT, "a quantized tensor without scale or zero point");
    return torch_tensor_form(s->t, f, &ten, err) && s->fn(s->ctx, &part, err) &&
           parts_emit(s, channel ? "scales" : "scale", zf_pv_item(params, 1), err) &&
           parts_emit(s, channel ? "zero_points" : "zero_point", zf_pv_item(params, 2), err) &&
           (!channel || parts_emit(s, "axis", zf_pv_item(params, 3), err));
}

/* data: (indices, values, size[, coalesced]) or (compressed, plain, values, size) */
static bool parts_sparse_parts(struct sink *s, const struct torch_form *f, struct zf_err *err)
{
    static const struct {
        const char *layout, *name[3];
    } row[] = {
        {"sparse_coo", {"indices", "values", NULL}},
        {"sparse_csr", {"crow_indices", "col_indices", "values"}},
        {"sparse_bsr", {"crow_indices", "col_indices", "values"}},
        {"sparse_csc", {"ccol_indices", "row_indices", "values"}},
        {"sparse_bsc", {"ccol_indices", "row_indices", "values"}},
    };
    const struct zf_pv *layout = zf_pv_item(f->args, 0), *data = zf_pv_item(f->args, 1);
    uint64_t n = 0;
    /* torch.serialization._get_layout('torch.sparse_coo'), or the layout object by its name */
    const char *text = zf_pv_is(layout, NULL, "_get_layout") ? zf_pv_text(zf_pv_arg(layout, 0), &n)
                                                             : zf_pv_name(layout);

    text = text && strncmp(text, "torch.", 6) == 0 ? text + 6 : text;
    for (size_t i = 0; text && i < sizeof row / sizeof *row; i++) {
        bool ok = true;

        if (strcmp(row[i].layout, text) != 0)
            continue;
        if (zf_pv_len(data) < (row[i].name[2] ? 4 : 3)) {
            return torch_bad(s->t, err, ZF_E_FORMAT, "a tensor of layout %s lacks its values",
                             text);
        }
        for (uint64_t k = 0; ok && k < 3 && row[i].name[k]; k++)
            ok = parts_emit(s, row[i].name[k], zf_pv_item(data, k), err);
        return ok;
    }
    return torch_bad(s->t, err, ZF_E_UNSUPPORTED, "a sparse tensor of layout \"%.80s\"",
                     text ? text : "?");
}

static bool parts_nested_parts(struct sink *s, const struct torch_form *f, struct zf_err *err)
{
    static const char *const name[] = {"buffer", "sizes", "strides", "offsets"};
    bool ok = true;

    if (zf_pv_len(f->args) < 4) {
        return torch_bad(s->t, err, ZF_E_FORMAT,
                         "a nested tensor without buffer, sizes, strides and offsets");
    }
    for (uint64_t i = 0; ok && i < 4; i++)
        ok = parts_emit(s, name[i], zf_pv_item(f->args, i), err);
    return ok;
}

/* The name of attribute i in a dict of a state; NULL: the key is not a str.  *piece_out: is it a tensor? */
static const char *parts_attr(const struct zf_torch *t, const struct zf_pv *dict, uint64_t i,
                              bool *piece_out)
{
    uint64_t n = 0;
    const struct zf_pv *key = zf_pv_key(dict, i);
    const enum zf_torch_kind kind = zf_torch_kind(t, zf_pv_val(dict, i));

    *piece_out = kind != ZF_TORCH_NOT && kind != ZF_TORCH_NUMPY;
    return zf_pv_kind(key) == ZF_PV_STR ? zf_pv_text(key, &n) : NULL;
}

/* Adds the tensors among the attributes in one dict of a state. */
static bool parts_attr_parts(struct sink *s, const struct zf_pv *dict, struct zf_err *err)
{
    bool ok = true, piece;

    for (uint64_t i = 0; ok && i < zf_pv_len(dict); i++) {
        const char *name = parts_attr(s->t, dict, i, &piece);

        if (name && piece)
            ok = parts_emit(s, name, zf_pv_val(dict, i), err);
    }
    return ok;
}

/* A state is a dict, or a pair of dict and slots, either of which may be None. */
static const struct zf_pv *parts_attr_dict(const struct torch_form *f, uint64_t i)
{
    const bool pair = zf_pv_kind(f->state) == ZF_PV_TUPLE && zf_pv_len(f->state) == 2;

    return pair ? zf_pv_item(f->state, i) : i == 0 ? f->state : NULL;
}

static bool parts_wrapper_parts(struct sink *s, const struct torch_form *f, struct zf_err *err)
{
    if (!parts_attr_parts(s, parts_attr_dict(f, 0), err) ||
        !parts_attr_parts(s, parts_attr_dict(f, 1), err))
        return false;
    return s->n ||
           torch_bad(s->t, err, ZF_E_UNSUPPORTED,
                     "a tensor of class \"%.80s\", which has no tensor in its state", f->name);
}

void zf_torch_attrs(struct zf_torch *t, const struct zf_pv *v, struct zf_out *out)
{
    const struct torch_form f = torch_form_of(t, v);
    bool piece;

    for (uint64_t k = 0; k < 2 && f.id == ZF_FORM_WRAPPER; k++) {
        const struct zf_pv *dict = parts_attr_dict(&f, k);

        for (uint64_t i = 0; i < zf_pv_len(dict); i++) {
            const char *name = parts_attr(t, dict, i, &piece);

            if (name && !piece && zf_pv_kind(zf_pv_val(dict, i)) != ZF_PV_NONE) {
                zf_out_str(out, out->n ? ", " : "");
                zf_out_str(out, f.name);
                zf_out_str(out, ".");
                zf_out_str(out, name);
            }
        }
    }
}

bool zf_torch_parts(struct zf_torch *t, const struct zf_pv *v, zf_torch_part_fn *fn, void *ctx,
                    struct zf_err *err)
{
    struct torch_form f = torch_form_of(t, v);
    struct sink s = {.t = t, .fn = fn, .ctx = ctx};

    switch ((int)f.id) {
    case ZF_FORM_QUANT:
        return parts_quant_parts(&s, &f, err);
    case ZF_FORM_SPARSE:
        return parts_sparse_parts(&s, &f, err);
    case ZF_FORM_NESTED:
        return parts_nested_parts(&s, &f, err);
    case ZF_FORM_WRAPPER:
        return parts_wrapper_parts(&s, &f, err);
    default:
        return torch_bad(t, err, ZF_E_UNSUPPORTED, "a value that does not consist of tensors");
    }
}
