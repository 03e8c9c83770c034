/* SPDX-License-Identifier: Apache-2.0 */
/* Follows libyaml's events and keeps only the path of the current value: one row per open mapping or
 * sequence, and the text of their keys. */
#include "config.h"

#include <zf/codec/yaml.h>

#ifndef HAVE_YAML

bool zf_yaml_here(void)
{
    return false;
}

bool zf_yaml_scalars(const char *text, size_t n, const struct zf_limits *lim, zf_yaml_fn *fn,
                     void *ctx, struct zf_err *err)
{
    (void)text;
    (void)n;
    (void)lim;
    (void)fn;
    (void)ctx;
    return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "zerofs was built without libyaml");
}

#else

#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include <zf/base/out.h>
#include <zf/base/vec.h>

/* An open mapping or sequence. */
struct yaml_open {
    size_t path;   /* bytes of the path before its own step */
    uint64_t at;   /* index in a sequence */
    bool map, key; /* key: the next node is a key */
    bool in_key;   /* it is part of a key: nothing in it is reported */
};

struct yaml_reading {
    yaml_parser_t parser;
    const struct zf_limits *lim;
    zf_yaml_fn *fn;
    void *ctx;
    zf_vec(struct yaml_open) open;
    struct zf_out path;
    uint64_t documents;
};

static struct yaml_open *yaml_top(struct yaml_reading *r)
{
    return r->open.n ? &r->open.at[r->open.n - 1] : NULL;
}

/* Appends a step to the path of the innermost mapping or sequence. */
static void yaml_step(struct yaml_reading *r, const struct yaml_open *top, const char *p, size_t n)
{
    bool odd = n == 0 || memchr(p, '.', n) || memchr(p, '\0', n);

    zf_out_cut(&r->path, top->path);
    if (top->path)
        zf_out_u8(&r->path, '.');
    zf_out_add(&r->path, odd ? "?" : p, odd ? 1 : n);
}

/* Called when a node begins.  *key_out: is it a key?  If not, the path becomes that of the value. */
static void yaml_begin(struct yaml_reading *r, bool *key_out)
{
    struct yaml_open *top = yaml_top(r);
    char at[24];

    *key_out = false;
    if (!top)
        return;
    if (top->map) {
        *key_out = top->key;
        top->key = !top->key;
        return;
    }
    (void)snprintf(at, sizeof at, "%llu", (unsigned long long)top->at++);
    yaml_step(r, top, at, strlen(at));
}

static bool yaml_scalar(struct yaml_reading *r, const yaml_event_t *e, struct zf_err *err)
{
    const struct yaml_open *top = yaml_top(r);
    const char *p = (const char *)e->data.scalar.value;
    size_t n = e->data.scalar.length;
    bool key;

    yaml_begin(r, &key);
    if (key)
        yaml_step(r, top, p, n);
    if (key || (top && top->in_key))
        return true;
    struct zf_yaml_scalar s = {
        .path = zf_out_text(&r->path),
        .value = p,
        .value_len = n,
        .plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE,
    };
    return zf_out_ok(&r->path, err) && r->fn(r->ctx, &s, err);
}

static bool yaml_down(struct yaml_reading *r, bool map, struct zf_err *err)
{
    const struct yaml_open *top = yaml_top(r);
    bool key, inside = top && top->in_key;

    if (r->open.n >= r->lim->json_depth) {
        return zf_fail_limit(err, ZF_LIMIT_json_depth, r->parser.mark.index,
                             "nested deeper than %llu levels (limit json_depth)",
                             (unsigned long long)r->lim->json_depth);
    }
    yaml_begin(r, &key);
    if (key)
        yaml_step(r, top, "", 0);
    struct yaml_open *o = zf_vec_push(&r->open, err);
    if (!o)
        return false;
    *o = (struct yaml_open){.path = r->path.n, .map = map, .key = map, .in_key = inside || key};
    return true;
}

static void yaml_up(struct yaml_reading *r)
{
    const struct yaml_open *top = yaml_top(r);

    if (top) {
        zf_out_cut(&r->path, top->path);
        r->open.n--;
    }
}

static bool yaml_document(struct yaml_reading *r, struct zf_err *err)
{
    return r->documents++ == 0 || zf_fail(err, ZF_E_FORMAT, r->parser.mark.index,
                                          "a second document begins, expected one");
}

static bool yaml_event(struct yaml_reading *r, const yaml_event_t *e, struct zf_err *err)
{
    bool key;

    switch (e->type) {
    case YAML_SCALAR_EVENT:
        return yaml_scalar(r, e, err);
    case YAML_MAPPING_START_EVENT:
        return yaml_down(r, true, err);
    case YAML_SEQUENCE_START_EVENT:
        return yaml_down(r, false, err);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        yaml_up(r);
        return true;
    case YAML_ALIAS_EVENT:
        yaml_begin(r, &key);
        if (key)
            yaml_step(r, yaml_top(r), "", 0);
        return true;
    case YAML_DOCUMENT_START_EVENT:
        return yaml_document(r, err);
    default:
        return true;
    }
}

static bool yaml_wrong(const yaml_parser_t *p, struct zf_err *err)
{
    if (p->error == YAML_MEMORY_ERROR)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for YAML");
    return zf_fail(err, ZF_E_FORMAT, p->problem_mark.index,
                   "invalid YAML at line %zu, column %zu: %.120s", p->problem_mark.line + 1,
                   p->problem_mark.column + 1, p->problem ? p->problem : "?");
}

static bool yaml_read(struct yaml_reading *r, struct zf_err *err)
{
    for (bool more = true; more;) {
        yaml_event_t e;

        if (!yaml_parser_parse(&r->parser, &e))
            return yaml_wrong(&r->parser, err);
        more = e.type != YAML_STREAM_END_EVENT;
        bool ok = yaml_event(r, &e, err);
        yaml_event_delete(&e);
        if (!ok)
            return false;
    }
    return true;
}

bool zf_yaml_here(void)
{
    return true;
}

bool zf_yaml_scalars(const char *text, size_t n, const struct zf_limits *lim, zf_yaml_fn *fn,
                     void *ctx, struct zf_err *err)
{
    struct yaml_reading r = {.lim = lim, .fn = fn, .ctx = ctx};

    if (n > lim->json_bytes) {
        return zf_fail_limit(err, ZF_LIMIT_json_bytes, ZF_OFF_NONE,
                             "%zu bytes of YAML, more than %llu (limit json_bytes)", n,
                             (unsigned long long)lim->json_bytes);
    }
    if (!yaml_parser_initialize(&r.parser))
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for YAML");
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
    bool ok = yaml_read(&r, err);
    yaml_parser_delete(&r.parser);
    zf_vec_fini(&r.open);
    zf_auto_out(&r.path);
    return ok;
}

#endif
