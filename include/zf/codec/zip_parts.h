/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of an archive down to each byte, for checking it; reading does not need this. */
#ifndef ZF_CODEC_ZIP_PARTS_H
#define ZF_CODEC_ZIP_PARTS_H

#include <zf/source/source.h>

/* Finds the last archive that, by its end record, ends at byte `end` of src or before it; *found_out: there is one.  A
 * file may hold several archives one after the other (.distcp), with other bytes between them.  The archive is not
 * checked.
 * Errors: those of reading; ZF_E_NOMEM. */
struct zf_zip_span {
    uint64_t first, end;
};
bool zf_zip_last(struct zf_source *src, uint64_t end, bool *found_out, struct zf_zip_span *out,
                 struct zf_err *err) ZF_CHECKED;

/* Bytes [first, end) of an archive: a member with its header, or bytes that belong to none. */
struct zf_zip_part {
    uint64_t first, end;
    const char *name; /* valid during the call; NULL: no member explains these bytes */
    uint64_t data, comp_size, size;
    uint32_t crc;    /* as the directory has it; torch may write 0 */
    uint16_t method; /* 0 stored, 8 deflated */
    const char *
        differs; /* the field, such as "CRC-32", in which its header or data descriptor differs from the directory;
                            NULL: none */
};

/* Calls fn for every part of an archive that zf_zip_open accepts, in the order of their bytes, until it returns false.
 * Errors: ZF_E_FORMAT, ZF_E_NOMEM, those of reading and of fn. */
typedef bool zf_zip_part_fn(void *ctx, const struct zf_zip_part *p, struct zf_err *err);
bool zf_zip_each_part(struct zf_source *src, zf_zip_part_fn *fn, void *ctx,
                      struct zf_err *err) ZF_CHECKED;

#endif
