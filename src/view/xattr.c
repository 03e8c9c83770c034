/* SPDX-License-Identifier: Apache-2.0 */
/* user.zerofs.*: what a file is, for tools that only see files (zerofs(5),
 * "Extended attributes"). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/out.h>

#include "tree.h"

static void xattr_put_shape(const struct zf_tensor *x, struct zf_out *o)
{
    zf_out_u8(o, '[');
    for (uint32_t d = 0; d < x->ndim; d++) {
        zf_out_add(o, ",", d > 0);
        zf_out_dec(o, x->shape[d]);
    }
    zf_out_u8(o, ']');
}

enum xattr_key {
    KEY_FORMAT,
    KEY_TAG,
    KEY_STEP,
    KEY_DTYPE,
    KEY_SHAPE,
    KEY_NAME,
    KEY_SOURCES,
    N_KEYS
};

static bool xattr_has(const struct spot *s, enum xattr_key key)
{
    switch (key) {
    case KEY_FORMAT:
        return true;
    case KEY_TAG:
        return s->t->c->tag[0] != '\0';
    case KEY_STEP:
        return s->t->c->has_step;
    default:
        return s->shelf != NULL;
    }
}

static void xattr_put(const struct spot *s, enum xattr_key key, size_t cap, struct zf_out *o)
{
    const struct zf_tensor *x = s->shelf ? &s->shelf->of->set->tensor[s->i] : NULL;
    char step[24];

    switch (key) {
    case KEY_FORMAT:
        zf_out_str(o, s->t->c->format);
        break;
    case KEY_TAG:
        zf_out_str(o, s->t->c->tag);
        break;
    case KEY_STEP:
        zf_out_add(o, step, (size_t)snprintf(step, sizeof step, "%" PRId64, s->t->c->step));
        break;
    case KEY_DTYPE:
        zf_out_str(o, zf_dtype_info(shelf_dtype(s->shelf, s->i))->suffix);
        break;
    case KEY_SHAPE:
        xattr_put_shape(x, o);
        break;
    case KEY_NAME:
        zf_out_add(o, x->name, x->name_len);
        break;
    case KEY_SOURCES:
        sources_put(x, shelf_dtype(s->shelf, s->i), cap, o);
        break;
    case N_KEYS:
        break;
    }
}

bool tree_xattr(const struct spot *s, size_t k, struct zf_xattr *out)
{
    static const char *const names[N_KEYS] = {
        [KEY_FORMAT] = "format",   [KEY_TAG] = "tag",     [KEY_STEP] = "step",
        [KEY_DTYPE] = "dtype",     [KEY_SHAPE] = "shape", [KEY_NAME] = "name",
        [KEY_SOURCES] = "sources",
    };

    for (int key = 0; key < N_KEYS; key++) {
        if (!xattr_has(s, (enum xattr_key)key) || k-- > 0)
            continue;
        zf_auto(out) struct zf_out o = {0};

        xattr_put(s, (enum xattr_key)key, out->cap, &o);
        (void)snprintf(out->name, sizeof out->name, "user.zerofs.%s", names[key]);
        /* A value too long for an attribute is left empty. */
        out->len = o.bad || o.n > out->cap ? 0 : o.n;
        if (out->len)
            memcpy(out->value, o.p, out->len);
        return true;
    }
    return false;
}
