/* SPDX-License-Identifier: Apache-2.0 */
/* An archive byte by byte, for those who check one: reading needs none of this. */
#ifndef ZF_CODEC_ZIP_PARTS_H
#define ZF_CODEC_ZIP_PARTS_H

#include <zf/source/source.h>

/* The last archive that ends at byte `end` of src or before it, as its end record says; *found_out: there is one.  A file
 * may hold several, one behind the other (.distcp), and other things between them.  Nothing is proven of what is
 * found.  Errors: of reading; ZF_E_NOMEM. */
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
        differs; /* what its header, or the descriptor behind its data, says otherwise than the directory,
                            "CRC-32"; NULL: nothing */
};

/* Calls fn for every part of an archive that zf_zip_open takes, in the order of their bytes, until it returns false.
 * Errors: ZF_E_FORMAT, ZF_E_NOMEM, those of reading, of fn. */
typedef bool zf_zip_part_fn(void *ctx, const struct zf_zip_part *p, struct zf_err *err);
bool zf_zip_each_part(struct zf_source *src, zf_zip_part_fn *fn, void *ctx,
                      struct zf_err *err) ZF_CHECKED;

#endif
