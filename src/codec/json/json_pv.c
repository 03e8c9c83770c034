/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a JSON document to the pickle that Python would write of its json.loads, and reads that. */
#include <zf/codec/pvjson.h>

#include <zf/base/out.h>
#include <zf/base/vec.h>
#include <zf/codec/jsonin.h>

enum {
    OP_EMPTY_DICT = '}',
    OP_EMPTY_LIST = ']',
    OP_MARK = '(',
    OP_SETITEMS = 'u',
    OP_APPENDS = 'e'
};
enum { OP_NONE = 'N', OP_TRUE = 0x88, OP_FALSE = 0x89, OP_LONG1 = 0x8a, OP_FLOAT = 'G' };
enum { OP_TEXT = 'X', OP_PROTO = 0x80, PROTO = 4, OP_STOP = '.' };

struct json_level {
    uint32_t level;
    bool object;
};

static void json_pv_text(struct zf_out *o, struct zf_jsonin *in)
{
    size_t n;
    const char *text = zf_jsonin_text(in, &n);

    zf_out_u8(o, OP_TEXT);
    zf_out_le32(o, (uint32_t)n); /* fits: the limit json_bytes is lower */
    zf_out_add(o, text, n);
}

static void json_pv_real(struct zf_out *o, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    zf_out_u8(o, OP_FLOAT);
    for (int shift = 56; shift >= 0; shift -= 8)
        zf_out_u8(o, (uint8_t)(bits >> shift));
}

/* Writes a value, of a container only its beginning.  True if it is a container. */
static bool json_pv_value(struct zf_out *o, struct zf_jsonin *in, struct json_level *out)
{
    enum zf_json_kind kind = zf_jsonin_value(in);

    *out = (struct json_level){.object = kind == ZF_JSON_OBJECT};
    if (kind == ZF_JSON_OBJECT || kind == ZF_JSON_ARRAY) {
        out->level = zf_jsonin_level(in);
        zf_out_u8(o, kind == ZF_JSON_OBJECT ? OP_EMPTY_DICT : OP_EMPTY_LIST);
        zf_out_u8(o, OP_MARK);
    } else if (kind == ZF_JSON_STRING) {
        json_pv_text(o, in);
    } else if (kind == ZF_JSON_INTEGER) {
        zf_out_u8(o, OP_LONG1);
        zf_out_u8(o, sizeof(int64_t));
        zf_out_le64(o, (uint64_t)zf_jsonin_integer(in));
    } else if (kind == ZF_JSON_REAL) {
        json_pv_real(o, zf_jsonin_real(in));
    } else {
        zf_out_u8(o, kind == ZF_JSON_TRUE ? OP_TRUE : kind == ZF_JSON_FALSE ? OP_FALSE : OP_NONE);
    }
    return out->level > 0;
}

static bool json_pv_write(struct zf_out *o, struct zf_jsonin *in, struct zf_err *err)
{
    zf_vec(struct json_level) open = {0};
    struct json_level next;
    bool ok = true;

    zf_out_u8(o, OP_PROTO);
    zf_out_u8(o, PROTO);
    for (bool more = true; ok && more;) {
        if (json_pv_value(o, in, &next)) {
            struct json_level *top = zf_vec_push(&open, err);

            ok = top != NULL;
            if (top)
                *top = next;
        }
        more = false;
        while (ok && !more && open.n > 0) {
            const struct json_level *top = &open.at[open.n - 1];

            more = zf_jsonin_next(in, top->level);
            if (!more) {
                zf_out_u8(o, top->object ? OP_SETITEMS : OP_APPENDS);
                open.n--;
            } else if (top->object) {
                json_pv_text(o, in);
            }
        }
    }
    zf_out_u8(o, OP_STOP);
    zf_vec_fini(&open);
    return ok && zf_out_ok(o, err);
}

const struct zf_pv *zf_pv_of_jsonin(struct zf_jsonin *in, struct zf_arena *arena,
                                    const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(out) struct zf_out pickle = {0};

    if (!json_pv_write(&pickle, in, err))
        return NULL;
    struct zf_bytes bytes = zf_bytes_of(pickle.p, pickle.n);
    return zf_pickle_load(&bytes, arena, lim, err);
}

const struct zf_pv *zf_pv_of_json(const char *text, uint64_t n, struct zf_arena *arena,
                                  const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(jsonin) struct zf_jsonin *in = zf_jsonin_new_text(text, n, lim, err);
    const struct zf_pv *v = in ? zf_pv_of_jsonin(in, arena, lim, err) : NULL;

    return in && zf_jsonin_end(in, err) ? v : NULL;
}
