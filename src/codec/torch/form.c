/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which kind of tensor a value is.  Source: torch/_utils.py, torch/_tensor.py (0.4 … 2.13); numpy's
 * multiarray pickles (1.x, 2.x). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/name.h>

#include "file.h"

#define MAX_WRAPPERS 32 /* nested wrappers: a Parameter of a subclass of … */

enum step {
    DONE,    /* the form is that of the row */
    INNER,   /* the first argument is the tensor */
    CAST,    /* likewise; the second argument is the dtype to convert it to */
    SUBCLASS /* the arguments are func, class, args, state */
};

static const struct row {
    const char *name;
    enum step step;
    enum torch_form_id form;
    bool attrs; /* the fourth argument: attributes to set */
} rows[] = {
    {"_rebuild_tensor_v2", DONE, ZF_FORM_V2, false},
    {"_rebuild_parameter", INNER, ZF_FORM_NOT, false},
    {"_rebuild_from_type_v2", SUBCLASS, ZF_FORM_NOT, true},
    {"_rebuild_tensor_v3", DONE, ZF_FORM_V3, false},
    {"_rebuild_tensor", DONE, ZF_FORM_V2, false},
    {"_rebuild_parameter_with_state", INNER, ZF_FORM_NOT, true},
    {"_rebuild_from_type", SUBCLASS, ZF_FORM_NOT, true},
    {"_rebuild_meta_tensor_no_storage", DONE, ZF_FORM_META, false},
    {"_rebuild_qtensor", DONE, ZF_FORM_QUANT, false},
    {"_rebuild_sparse_tensor", DONE, ZF_FORM_SPARSE, false},
    {"_rebuild_sparse_csr_tensor", DONE, ZF_FORM_SPARSE, false},
    {"_rebuild_nested_tensor", DONE, ZF_FORM_NESTED, false},
    {"_rebuild_device_tensor_from_numpy", CAST, ZF_FORM_NOT, false},
    {"_rebuild_xla_tensor", CAST, ZF_FORM_NOT, false},
    {"_rebuild_device_tensor_from_cpu_tensor", CAST, ZF_FORM_NOT, false},
};

static bool form_starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

static const struct row *form_find_row(const char *module, const char *name)
{
    if (name[0] != '_' || !form_starts(module, "torch"))
        return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

/* Recognizes classes that are pickled without a rebuild function: tensors of torch 0.4 and before,
 * ShardedTensors. */
static bool form_class_form(const struct zf_pv *v, struct torch_form *f)
{
    const char *module = zf_pv_module(v), *name = zf_pv_name(v);
    const struct zf_pv *state = zf_pv_state(v);

    if (form_starts(module, "torch") && strcmp(name, "ShardedTensor") == 0) {
        *f = (struct torch_form){.id = ZF_FORM_SHARDED, .state = state};
        return true;
    }
    if ((strcmp(module, "torch") == 0 || strcmp(module, "torch.cuda") == 0) &&
        zf_name_ends(name, "Tensor") && zf_pv_kind(zf_pv_item(state, 0)) == ZF_PV_PERSID) {
        *f = (struct torch_form){.id = ZF_FORM_V2, .args = state};
        return true;
    }
    return false;
}

static bool form_numpy_form(const struct zf_pv *v, struct torch_form *f)
{
    static const struct {
        const char *module, *name;
        enum torch_form_id id;
    } row[] = {
        {"numpy.core.multiarray", "_reconstruct", ZF_FORM_ARRAY},
        {"numpy._core.multiarray", "_reconstruct", ZF_FORM_ARRAY},
        {"numpy.core.multiarray", "scalar", ZF_FORM_SCALAR},
        {"numpy._core.multiarray", "scalar", ZF_FORM_SCALAR},
        {"numpy.core.numeric", "_frombuffer", ZF_FORM_BUFFER},
        {"numpy._core.numeric", "_frombuffer", ZF_FORM_BUFFER},
    };

    for (size_t i = 0; form_starts(zf_pv_module(v), "numpy") && i < sizeof row / sizeof *row; i++) {
        if (zf_pv_is(v, row[i].module, row[i].name)) {
            *f = (struct torch_form){
                .id = row[i].id, .args = zf_pv_args(v), .state = zf_pv_state(v)};
            return true;
        }
    }
    return false;
}

/* Sets f by the class that _rebuild_from_type_v2 makes.  False: the form is that of func and args
 * instead. */
static bool form_subclass_form(const struct zf_pv *args, struct torch_form *f)
{
    const char *class = zf_pv_name(zf_pv_item(args, 1)), *func = zf_pv_name(zf_pv_item(args, 0));

    f->args = zf_pv_item(args, 2);
    f->state = zf_pv_item(args, 3);
    f->name = class;
    f->id = strcmp(class, "DTensor") == 0         ? ZF_FORM_DTENSOR
            : strcmp(class, "ShardedTensor") == 0 ? ZF_FORM_SHARDED
                                                  : ZF_FORM_WRAPPER;
    return f->id != ZF_FORM_WRAPPER || strcmp(func, "_rebuild_wrapper_subclass") == 0;
}

/* ---- contents that are set after the tensor was built ---- */

/* True if BUILD replaces the tensor's contents (Tensor.__setstate__, and set_() in _weights_only_unpickler.py); the
 * three fields that torch 0.3 and before set (requires_grad, volatile, hooks) do not. */
static bool form_is_built(const struct zf_pv *call)
{
    const struct zf_pv *state = zf_pv_state(call);
    bool flag;

    return state && !(zf_pv_len(state) == 3 && zf_pv_bool(zf_pv_item(state, 0), &flag));
}

static bool form_is_part_set(const struct zf_pv *attrs)
{
    return zf_pv_late(attrs) || zf_pv_get(attrs, "real") || zf_pv_get(attrs, "imag");
}

/* The attributes that a rebuild function sets (torch/_utils.py, _set_obj_state) are a mapping or a pair of mappings.
 * Three change the contents: `real` and `imag` write into the tensor (returns true); `data` (*data_out), which
 * bitsandbytes saves for quantized weights, replaces them. */
static bool form_is_set(const struct zf_pv *state, const struct zf_pv **data_out)
{
    bool pair = zf_pv_kind(state) == ZF_PV_TUPLE;
    const struct zf_pv *slots = pair ? zf_pv_item(state, 1) : NULL;

    state = pair ? zf_pv_item(state, 0) : state;
    *data_out = zf_pv_get(slots, "data");
    *data_out = *data_out ? *data_out : zf_pv_get(state, "data");
    return form_is_part_set(state) || form_is_part_set(slots);
}

static const struct torch_form form_built = {.id = ZF_FORM_CHANGED, .name = "a state"};
static const struct torch_form form_set = {.id = ZF_FORM_CHANGED, .name = "an attribute"};

/* A call to examine; v is NULL for the func of _rebuild_from_type_v2, which is not a call in the pickle. */
struct called {
    const char *module, *name;
    const struct zf_pv *args, *v;
};

/* v may be folded, but the values inside a folded call are not, so one scratch is enough. */
static struct called form_called(const struct zf_torch *t, const struct zf_pv *v)
{
    v = zf_pv_unfold(v, t->scratch);
    return (struct called){zf_pv_module(v), zf_pv_name(v), zf_pv_args(v), v};
}

static struct called form_called_by_type(const struct zf_pv *args)
{
    const struct zf_pv *func = zf_pv_item(args, 0);

    return (struct called){zf_pv_module(func), zf_pv_name(func), zf_pv_item(args, 2), NULL};
}

struct torch_form torch_form_of(const struct zf_torch *t, const struct zf_pv *v)
{
    struct torch_form f = {.id = ZF_FORM_NOT};
    const struct zf_pv *cast = NULL, *data = NULL;

    if (zf_pv_kind(v) != ZF_PV_CALL)
        return f;
    struct called c = form_called(t, v);

    for (int i = 0; i < MAX_WRAPPERS; i++, data = NULL) {
        const struct row *row = form_find_row(c.module, c.name);
        bool parameter =
            !row && form_starts(c.module, "torch.nn.parameter") && strcmp(c.name, "Parameter") == 0;

        if ((row || parameter) && form_is_built(c.v))
            return form_built;
        if (row && row->attrs && form_is_set(zf_pv_item(c.args, 3), &data))
            return form_set;
        if (row && row->step == DONE) {
            return (struct torch_form){
                .id = row->form, .args = c.args, .name = row->name, .cast = cast};
        }
        if (row && row->step == SUBCLASS && form_subclass_form(c.args, &f))
            return f;
        if (row || parameter) {
            cast = row && row->step == CAST ? zf_pv_item(c.args, 1) : cast;
            c = data                           ? form_called(t, data)
                : row && row->step == SUBCLASS ? form_called_by_type(c.args)
                                               : form_called(t, zf_pv_item(c.args, 0));
            continue;
        }
        if (c.v && (form_class_form(c.v, &f) || form_numpy_form(c.v, &f))) {
            f.cast = cast;
            return zf_pv_late(c.v) && i > 0 ? form_built : f;
        }
        bool tensor = i > 0 || (form_starts(c.module, "torch") && form_starts(c.name, "_rebuild_"));

        return (struct torch_form){.id = tensor ? ZF_FORM_OPAQUE : ZF_FORM_NOT, .name = c.name};
    }
    return (struct torch_form){.id = ZF_FORM_OPAQUE, .name = c.name};
}

bool torch_form_folds(const struct zf_pv *call)
{
    const struct row *row = form_find_row(zf_pv_module(call), zf_pv_name(call));

    return row && (row->form == ZF_FORM_V2 || row->form == ZF_FORM_V3);
}

enum zf_torch_kind zf_torch_kind(const struct zf_torch *t, const struct zf_pv *v)
{
    struct torch_form f = torch_form_of(t, v);

    switch (f.id) {
    case ZF_FORM_NOT:
        return ZF_TORCH_NOT;
    case ZF_FORM_V2:
    case ZF_FORM_V3: {
        const struct zf_pv *where = zf_pv_item(zf_pv_persid(zf_pv_item(f.args, 0)), 3);

        return zf_pv_eq(where, "meta") ? ZF_TORCH_META : ZF_TORCH_DENSE;
    }
    case ZF_FORM_CHANGED: /* reading it fails and says why */
        return ZF_TORCH_DENSE;
    case ZF_FORM_META:
        return ZF_TORCH_META;
    case ZF_FORM_QUANT:
    case ZF_FORM_SPARSE:
    case ZF_FORM_NESTED:
    case ZF_FORM_WRAPPER:
        return ZF_TORCH_PARTS;
    case ZF_FORM_DTENSOR:
        return ZF_TORCH_DTENSOR;
    case ZF_FORM_SHARDED:
        return ZF_TORCH_SHARDED;
    case ZF_FORM_ARRAY:
    case ZF_FORM_SCALAR:
    case ZF_FORM_BUFFER:
        return f.cast ? ZF_TORCH_DENSE : ZF_TORCH_NUMPY;
    case ZF_FORM_OPAQUE:
        break;
    }
    return ZF_TORCH_OPAQUE;
}
