/* SPDX-License-Identifier: Apache-2.0 */
#include "local.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/auto.h>
#include <zf/base/bytes.h>
#include <zf/base/num.h>

#define SIG_LOCAL 0x04034b50u
#define SIG_DESCRIPTOR 0x08074b50u
#define FLAG_ENCRYPTED 1u
#define FLAG_DESCRIBED 8u

uint64_t zip_local_bytes(const struct zip_local *l)
{
    return LOCAL_BYTES + strlen(l->name);
}

/* Is the extra field a list of records: a nonzero id, a length, and that many bytes?  Source: PKWARE APPNOTE 4.5.1. */
static bool local_is_records(struct zf_bytes b)
{
    while (zf_bytes_left(&b) && !b.bad) {
        const uint16_t id = zf_bytes_le16(&b), len = zf_bytes_le16(&b);

        if (!zf_bytes_take(&b, len) || id == 0)
            return false;
    }
    return !b.bad;
}

/* Does the header at p agree with the directory?  *extra_out: the length of the extra field. */
static bool local_agrees(const struct zip_local *l, const uint8_t *p, uint64_t *extra_out,
                         bool *described_out)
{
    const uint64_t len = strlen(l->name);
    struct zf_bytes b = zf_bytes_of(p, LOCAL_BYTES);
    bool ok = zf_bytes_le32(&b) == SIG_LOCAL;

    b.at = 6;
    const uint16_t flags = zf_bytes_le16(&b), method = zf_bytes_le16(&b);

    b.at = 14;
    const uint32_t crc = zf_bytes_le32(&b), comp = zf_bytes_le32(&b), size = zf_bytes_le32(&b);
    const uint16_t name_len = zf_bytes_le16(&b);

    *extra_out = zf_bytes_le16(&b);
    *described_out = (flags & FLAG_DESCRIBED) && crc == 0 && comp == 0 && size == 0;
    return ok && !(flags & FLAG_ENCRYPTED) && method == l->method && name_len == len &&
           memcmp(p + LOCAL_BYTES, l->name, len) == 0;
}

bool zip_local_load(const struct zip_local *l, uint64_t limit, zip_read_fn *read, void *from,
                    struct zip_local_end *out, struct zf_err *err)
{
    const uint64_t n = zip_local_bytes(l);
    uint64_t extra;
    zf_auto(mem) uint8_t *head = malloc((size_t)n);

    if (!head)
        return zf_fail_sys(err, "allocate memory");
    if (!read(from, head, n, l->at, err))
        return false;
    if (!local_agrees(l, head, &extra, &out->described) || !zf_add(l->at, n + extra, &out->data))
        return zip_local_bad(l, err);
    if (extra == 0 || out->data > limit)
        return true;
    zf_auto(mem) uint8_t *field = malloc((size_t)extra);

    if (!field)
        return zf_fail_sys(err, "allocate memory");
    if (!read(from, field, extra, l->at + n, err))
        return false;
    return local_is_records(zf_bytes_of(field, extra)) ||
           zf_fail(err, ZF_E_FORMAT, l->at,
                   "the header of member \"%s\" here has an invalid extra field of %llu bytes, so "
                   "the beginning of its data is uncertain",
                   l->name, (unsigned long long)extra);
}

/* The checksum is between the signature and the sizes.  Source: PKWARE APPNOTE 4.3.9. */
bool zip_local_descriptor(const uint8_t *p, uint64_t n, uint64_t comp_size, uint64_t size)
{
    struct zf_bytes b = zf_bytes_of(p, n);
    const bool ok = zf_bytes_le32(&b) == SIG_DESCRIPTOR && zf_bytes_take(&b, sizeof(uint32_t));
    struct zf_bytes wide = b;

    return ok && ((zf_bytes_le32(&b) == comp_size && zf_bytes_le32(&b) == size && !b.bad) ||
                  (zf_bytes_le64(&wide) == comp_size && zf_bytes_le64(&wide) == size && !wide.bad));
}

bool zip_local_bad(const struct zip_local *l, struct zf_err *err)
{
    return zf_fail(err, ZF_E_FORMAT, l->at,
                   "the header here differs from the directory's entry of member \"%s\"", l->name);
}
