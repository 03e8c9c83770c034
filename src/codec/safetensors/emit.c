/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the header of a safetensors file whose tensors are stored without gaps. */
#include <endian.h>
#include <string.h>

#include <zf/base/num.h>
#include <zf/base/out.h>
#include <zf/codec/safetensors.h>

enum { WORD = 8 };

static void emit_add_entry(struct zf_out *o, const struct zf_st_entry *e)
{
    zf_out_json(o, e->name, e->name_len);
    zf_out_str(o, ":{\"dtype\":\"");
    zf_out_str(o, zf_dtype_info(e->dtype)->safetensors);
    zf_out_str(o, "\",\"shape\":[");
    for (uint32_t d = 0; d < e->ndim; d++) {
        bool pairs = e->dtype == ZF_DT_F4 && d + 1 == e->ndim;
        zf_out_add(o, ",", d > 0);
        zf_out_dec(o, e->shape[d] * (pairs ? 2 : 1));
    }
    zf_out_str(o, "],\"data_offsets\":[");
    zf_out_dec(o, e->begin);
    zf_out_u8(o, ',');
    zf_out_dec(o, e->end);
    zf_out_str(o, "]}");
}

/* Assigns consecutive offsets to the entries, relative to the start of the data part. */
static bool emit_place(struct zf_st_entry *e, uint64_t n, struct zf_err *err)
{
    uint64_t at = 0, bytes;

    for (uint64_t i = 0; i < n; i++) {
        e[i].begin = at;
        if (!zf_dtype_size(e[i].dtype, e[i].ndim, e[i].shape, &bytes) || !zf_add(at, bytes, &at)) {
            return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                           "there are more bytes than one file can hold");
        }
        e[i].end = at;
    }
    return true;
}

bool zf_st_emit(struct zf_st_entry *entry, uint64_t n, const char *meta_json, char **out,
                uint64_t *len_out, struct zf_err *err)
{
    zf_auto(out) struct zf_out o = {0};

    *out = NULL;
    if (!emit_place(entry, n, err))
        return false;
    zf_out_le64(&o, 0);
    zf_out_u8(&o, '{');
    if (meta_json) {
        zf_out_str(&o, "\"__metadata__\":");
        zf_out_str(&o, meta_json);
    }
    for (uint64_t i = 0; i < n; i++) {
        zf_out_add(&o, ",", i > 0 || meta_json);
        emit_add_entry(&o, &entry[i]);
    }
    zf_out_u8(&o, '}');
    zf_out_fill(&o, ' ', (WORD - o.n % WORD) % WORD);
    if (!zf_out_ok(&o, err))
        return false;
    uint64_t len = htole64(o.n - WORD);
    memcpy(o.p, &len, WORD);
    for (uint64_t i = 0; i < n; i++) {
        entry[i].begin += o.n;
        entry[i].end += o.n;
    }
    *out = o.p;
    *len_out = o.n;
    o.p = NULL;
    return true;
}
