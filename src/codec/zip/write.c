/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the headers of an archive without reading the payloads: the caller appends headers and payloads
 * alternately, and the offsets are computed.  A payload's CRC may be 0, because torch does not check
 * the CRC of stored members. */
#include <zf/codec/zip_write.h>

#include <string.h>

#include "end.h"
#include "local.h"

#define ALIGN 64u
#define FULL32 0xffffffffu
#define FULL16 0xffffu
#define UTF8_FLAG 0x0800u
#define DOS_1980 0x0021u /* 1 January 1980; the 0 that torch writes is not a valid date */

enum { VERSION_PLAIN = 10, VERSION_ZIP64 = 45 };

static uint32_t write_saturated(uint64_t v)
{
    return v >= FULL32 ? FULL32 : (uint32_t)v;
}

/* Writes the fields that local and central headers share, from "version needed" to the name's length. */
static void write_common(struct zf_out *o, bool zip64, uint64_t size, uint32_t crc, size_t name_len)
{
    zf_out_le16(o, zip64 ? VERSION_ZIP64 : VERSION_PLAIN);
    zf_out_le16(o, UTF8_FLAG);
    zf_out_le16(o, 0); /* stored */
    zf_out_le16(o, 0);
    zf_out_le16(o, DOS_1980);
    zf_out_le32(o, crc);
    zf_out_le32(o, write_saturated(size));
    zf_out_le32(o, write_saturated(size));
    zf_out_le16(o, (uint16_t)name_len);
}

static void write_local(struct zf_zip_write *w, const char *name, uint64_t size, uint32_t crc,
                        struct zf_out *o)
{
    size_t len = strlen(name), zip64 = size >= FULL32 ? 20 : 0;
    uint64_t start = w->at + LOCAL_BYTES + len + zip64 + 4;
    uint64_t align = w->align ? w->align : ALIGN;
    uint16_t pad = (uint16_t)((align - start % align) % align);

    zf_out_le32(o, 0x04034b50);
    write_common(o, zip64 != 0, size, crc, len);
    zf_out_le16(o, (uint16_t)(zip64 + 4 + pad));
    zf_out_str(o, name);
    if (zip64) {
        zf_out_le16(o, 1);
        zf_out_le16(o, 16);
        zf_out_le64(o, size);
        zf_out_le64(o, size);
    }
    zf_out_add(o, "FB", 2);
    zf_out_le16(o, pad);
    zf_out_fill(o, 'Z', pad);
    w->at = start + pad + size;
}

static void write_central(struct zf_zip_write *w, const char *name, uint64_t size, uint32_t crc,
                          uint64_t header)
{
    struct zf_out *o = &w->central;
    uint16_t extra = (uint16_t)((size >= FULL32 ? 16 : 0) + (header >= FULL32 ? 8 : 0));

    zf_out_le32(o, 0x02014b50);
    zf_out_le16(o, 0);
    write_common(o, extra != 0, size, crc, strlen(name));
    zf_out_le16(o, (uint16_t)(extra ? extra + 4 : 0));
    zf_out_le16(o, 0); /* comment */
    zf_out_le16(o, 0); /* disk */
    zf_out_le16(o, 0);
    zf_out_le32(o, 0);
    zf_out_le32(o, write_saturated(header));
    zf_out_str(o, name);
    if (extra) {
        zf_out_le16(o, 1);
        zf_out_le16(o, extra);
    }
    if (size >= FULL32) {
        zf_out_le64(o, size);
        zf_out_le64(o, size);
    }
    if (header >= FULL32)
        zf_out_le64(o, header);
}

void zf_zip_write_member(struct zf_zip_write *w, const char *name, uint64_t size, uint32_t crc,
                         struct zf_out *head)
{
    uint64_t header = w->at;

    write_local(w, name, size, crc, head);
    write_central(w, name, size, crc, header);
    w->n++;
}

/* Always writes the zip64 records, as torch does: every reader that knows them reads them first. */
void zip_end_emit(struct zf_out *o, const struct zip_end *end, uint64_t at)
{
    const uint16_t n = (uint16_t)(end->entries >= FULL16 ? FULL16 : end->entries);

    zf_out_le32(o, 0x06064b50);
    zf_out_le64(o, 44);
    zf_out_le16(o, VERSION_ZIP64);
    zf_out_le16(o, VERSION_ZIP64);
    zf_out_le32(o, 0);
    zf_out_le32(o, 0);
    zf_out_le64(o, end->entries);
    zf_out_le64(o, end->entries);
    zf_out_le64(o, end->dir_bytes);
    zf_out_le64(o, end->dir_off);
    zf_out_le32(o, 0x07064b50);
    zf_out_le32(o, 0);
    zf_out_le64(o, at);
    zf_out_le32(o, 1);
    zf_out_le32(o, 0x06054b50);
    zf_out_le32(o, 0);
    zf_out_le16(o, n);
    zf_out_le16(o, n);
    zf_out_le32(o, write_saturated(end->dir_bytes));
    zf_out_le32(o, write_saturated(end->dir_off));
    zf_out_le16(o, 0);
}

void zf_zip_write_end(struct zf_zip_write *w, struct zf_out *tail)
{
    const struct zip_end end = {.entries = w->n, .dir_off = w->at, .dir_bytes = w->central.n};

    tail->bad = tail->bad || w->central.bad;
    zf_out_add(tail, w->central.p, w->central.n);
    zip_end_emit(tail, &end, end.dir_off + end.dir_bytes);
}
