/* SPDX-License-Identifier: Apache-2.0 */
#include "local.h"

#include <string.h>

#include <zf/base/bytes.h>
#include <zf/base/num.h>

#define SIG_LOCAL 0x04034b50u

uint64_t zip_local_bytes(const struct zip_local *l)
{
    return LOCAL_BYTES + strlen(l->name);
}

bool zip_local_agrees(const struct zip_local *l, const uint8_t *p, uint64_t *data_out)
{
    const uint64_t len = strlen(l->name);
    struct zf_bytes b = zf_bytes_of(p, LOCAL_BYTES);
    bool ok = zf_bytes_le32(&b) == SIG_LOCAL;

    b.at = 6;
    ok = ok && (zf_bytes_le16(&b) & 1) == 0 && zf_bytes_le16(&b) == l->method;
    b.at = 26;
    const uint64_t name_len = zf_bytes_le16(&b), extra_len = zf_bytes_le16(&b);
    return ok && name_len == len && memcmp(p + LOCAL_BYTES, l->name, len) == 0 &&
           zf_add(l->at, LOCAL_BYTES + name_len + extra_len, data_out);
}

bool zip_local_bad(const struct zip_local *l, struct zf_err *err)
{
    return zf_fail(err, ZF_E_FORMAT, l->at,
                   "the header here is not the one that the directory promises for member \"%s\"",
                   l->name);
}
