/* SPDX-License-Identifier: Apache-2.0 */
/* user.zerofs.*: what a file is, for tools that only see files (zerofs(5), "Extended attributes").
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/name.h>

#include "tree.h"

/* A value being written; too long ones are cut at the last whole piece. */
struct text {
    char *p;
    size_t n, cap;
    bool full;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int n = t->full ? -1 : vsnprintf(t->p + t->n, t->cap - t->n, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= t->cap - t->n) {
        t->full = true;
        return;
    }
    t->n += (size_t)n;
}

static void add_json_string(struct text *t, const char *s)
{
    size_t start = t->n;

    add(t, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\') {
            add(t, "\\%c", c);
        } else if (c < 0x20 || c >= 0x7f) {
            add(t, "\\u%04x", c);
        } else {
            add(t, "%c", c);
        }
    }
    add(t, "\"");
    t->n = t->full ? start : t->n;
}

static bool add_source(void *ctx, struct zf_source *src, uint64_t off, uint64_t len)
{
    struct text *t = ctx;
    size_t start = t->n;
    uint64_t at = off;
    struct zf_source *file = zf_source_origin(src, &at);

    add(t, "%s{\"file\":", t->n > 1 ? "," : "");
    add_json_string(t, file->name);
    add(t, ",\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", at, len);
    if (t->full || t->n + 64 > t->cap) {
        t->n = start;
        return false;
    }
    return true;
}

static void put_sources(const struct zf_map *m, struct text *t)
{
    add(t, "[");
    if (!zf_map_each_source(m, add_source, t)) {
        t->full = false;
        add(t, "%s{\"more\":true}", t->n > 1 ? "," : "");
    }
    add(t, "]");
}

static void put_shape(const struct zf_tensor *x, struct text *t)
{
    add(t, "[");
    for (uint32_t d = 0; d < x->ndim; d++) {
        add(t, "%s%" PRIu64, d ? "," : "", x->shape[d]);
    }
    add(t, "]");
}

enum key { KEY_FORMAT, KEY_TAG, KEY_STEP, KEY_DTYPE, KEY_SHAPE, KEY_NAME, KEY_SOURCES, N_KEYS };

static bool put(const struct tree *t, const struct spot *s, enum key key, struct text *out)
{
    const struct zf_tensor *x = s->shelf ? &s->shelf->of->set->tensor[s->i] : NULL;

    switch (key) {
    case KEY_FORMAT:
        add(out, "%s", t->c->format);
        return true;
    case KEY_TAG:
        add(out, "%s", t->c->tag);
        return t->c->tag[0] != '\0';
    case KEY_STEP:
        add(out, "%" PRId64, t->c->step);
        return t->c->has_step;
    case KEY_DTYPE:
        add(out, "%s", x ? zf_dtype_info(shelf_dtype(s->shelf, s->i))->suffix : "");
        return x != NULL;
    case KEY_SHAPE:
        if (x) {
            put_shape(x, out);
        }
        return x != NULL;
    case KEY_NAME:
        if (x && x->name_len < out->cap) {
            memcpy(out->p, x->name, x->name_len);
            out->n = x->name_len;
        }
        return x != NULL;
    case KEY_SOURCES:
        if (x) {
            put_sources(x->data, out);
        }
        return x != NULL;
    case N_KEYS:
        break;
    }
    return false;
}

bool tree_xattr(const struct tree *t, const struct spot *s, size_t k, char name[64], char *value,
                size_t cap, size_t *len)
{
    static const char *const names[N_KEYS] = {
        [KEY_FORMAT] = "format",   [KEY_TAG] = "tag",     [KEY_STEP] = "step",
        [KEY_DTYPE] = "dtype",     [KEY_SHAPE] = "shape", [KEY_NAME] = "name",
        [KEY_SOURCES] = "sources",
    };

    for (int key = 0; key < N_KEYS; key++) {
        struct text out = {.p = value, .cap = cap};

        if (put(t, s, (enum key)key, &out) && k-- == 0) {
            (void)snprintf(name, 64, "user.zerofs.%s", names[key]);
            *len = out.n;
            return true;
        }
    }
    return false;
}
