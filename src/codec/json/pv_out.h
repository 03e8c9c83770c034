/* SPDX-License-Identifier: Apache-2.0 */
/* The output of zf_pv_json, and how scalars are written. */
#ifndef CODEC_JSON_PV_OUT_H
#define CODEC_JSON_PV_OUT_H

#include <zf/base/out.h>
#include <zf/codec/pvjson.h>

struct zf_pvjson {
    struct zf_out out;
    uint64_t limit;
    bool failed; /* further output is ignored; *err or `out` says why */
    struct zf_err *err;
};

/* Fails because the text would be longer than the limit. */
void pvjson_too_long(struct zf_pvjson *o);

static inline void pvjson_put(struct zf_pvjson *o, const char *p, uint64_t n)
{
    if (n > o->limit - o->out.n) {
        pvjson_too_long(o);
        return;
    }
    zf_out_add(&o->out, p, n);
    o->failed |= o->out.bad;
}

/* Writes the inside of a JSON string: escaped, without the quotes. */
void pvjson_chars(struct zf_pvjson *o, const char *p, uint64_t n);
/* printf for text that needs no escaping. */
void pvjson_fmt(struct zf_pvjson *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes a number that reads back as the same, or {"__float__": "nan"}. */
void pvjson_number(struct zf_pvjson *o, double d);
/* Writes {name: hex, "length": n}. */
void pvjson_bytes(struct zf_pvjson *o, const char *name, const char *p, uint64_t n);

/* Writes v if it is a value without parts; true if it is. */
bool pvjson_scalar(struct zf_pvjson *o, const struct zf_pv *v);
/* Writes v as (part of) an object's key. */
void pvjson_key(struct zf_pvjson *o, const struct zf_pv *v);

/* The JSON form of a value with parts, and its parts one by one. */

enum pvjson_form {
    ZF_PVJSON_AUTO,  /* not decided */
    ZF_PVJSON_DONE,  /* was written in one piece */
    ZF_PVJSON_SEQ,   /* array of the elements */
    ZF_PVJSON_MAP,   /* object of the pairs */
    ZF_PVJSON_ATTRS, /* __class__ and attributes */
    ZF_PVJSON_CALL,  /* __class__, args, kwargs, items, state */
    ZF_PVJSON_PERSID,
};

/* Chooses the form.  A value without parts is written (DONE); *v may become the value it wraps. */
enum pvjson_form pvjson_form(struct zf_pvjson *o, const struct zf_pv **v);

struct pvjson_part {
    const char *name;        /* in an object: the key as text, or NULL */
    const struct zf_pv *key; /* in an object: else the key as a value */
    const struct zf_pv *v;   /* the value; NULL: the name of the class */
    enum pvjson_form form;
};

/* Gets part *at and increments it; false after the last. */
bool pvjson_next(const struct zf_pv *v, enum pvjson_form form, uint64_t *at,
                 struct pvjson_part *part);

#endif
