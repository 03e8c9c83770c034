/* SPDX-License-Identifier: Apache-2.0 */
/* The sink of zf_pv_json, and scalars on it. */
#ifndef CODEC_JSON_PV_OUT_H
#define CODEC_JSON_PV_OUT_H

#include <string.h>

#include <zf/codec/pvjson.h>

struct zf_pvjson {
    char *buf;
    uint64_t n, cap, limit; /* cap: 0 when no more may come, never above the limit */
    bool failed;            /* *err says why; nothing more is written */
    struct zf_err *err;
};

/* zf_pvjson_put when there is not enough room. */
void zf_pvjson_put_slow(struct zf_pvjson *o, const char *p, uint64_t n);

static inline void zf_pvjson_put(struct zf_pvjson *o, const char *p, uint64_t n)
{
    if (n > o->cap - o->n) {
        zf_pvjson_put_slow(o, p, n);
        return;
    }
    if (n) {
        memcpy(o->buf + o->n, p, n);
        o->n += n;
    }
}

/* The inside of a JSON string: escaped, without the quotes. */
void zf_pvjson_chars(struct zf_pvjson *o, const char *p, uint64_t n);
/* printf of what needs no escaping. */
void zf_pvjson_fmt(struct zf_pvjson *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A number that reads back as the same, or {"__float__": "nan"}. */
void zf_pvjson_number(struct zf_pvjson *o, double d);
/* {name: hex, "length": n} */
void zf_pvjson_bytes(struct zf_pvjson *o, const char *name, const char *p, uint64_t n);

/* A value without parts; true when v is one. */
bool zf_pvjson_scalar(struct zf_pvjson *o, const struct zf_pv *v);
/* The text of v as (part of) an object's key. */
void zf_pvjson_key(struct zf_pvjson *o, const struct zf_pv *v);

#endif
