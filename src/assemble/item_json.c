/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/item_json.h>

#include <string.h>

#include <zf/codec/pvjson.h>

#define TOTAL_MAX (256u << 10)

bool zf_item_json_wants(struct zf_item_json *j, uint64_t bytes)
{
    if (bytes > ZF_ITEM_JSON_MAX || j->read + bytes > TOTAL_MAX)
        return false;
    j->read += bytes;
    return true;
}

bool zf_item_json_add(struct zf_item_json *j, struct zf_torch *t, struct zf_step key,
                      const struct zf_limits *lim, bool *all, struct zf_err *err)
{
    struct zf_err ignored;
    zf_auto(mem) char *value = NULL;
    uint64_t len = 0;

    *all = false;
    zf_err_clear(&ignored);
    if (zf_torch_kind(t, zf_torch_root(t)) != ZF_TORCH_NOT ||
        !zf_pv_json(zf_torch_root(t), lim, NULL, &value, &len, &ignored))
        return true;
    while (len && value[len - 1] == '\n')
        len--;
    zf_out_str(&j->out, j->out.n ? ",\n" : "{\n");
    zf_out_json(&j->out, key.p, key.n);
    zf_out_str(&j->out, ": ");
    zf_out_add(&j->out, value, len);
    /* Values that JSON lacks are written as {"__class__": …} and the like (zf/codec/pvjson.h). */
    *all = !strstr(value, "\"__");
    return zf_out_ok(&j->out, err);
}

bool zf_item_json_end(struct zf_item_json *j, struct zf_build *b, const char *path,
                      struct zf_err *err)
{
    if (j->out.n == 0)
        return true;
    zf_out_str(&j->out, "\n}\n");
    return zf_out_ok(&j->out, err) && zf_build_text(b, path, j->out.p, j->out.n, err);
}
