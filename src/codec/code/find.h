/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the members of an archive leniently, as any reader may see them: nothing is verified. */
#ifndef CODEC_CODE_FIND_H
#define CODEC_CODE_FIND_H

#include <zf/source/source.h>

struct find_member {
    char *name;  /* NUL-terminated; valid during the call */
    uint64_t at; /* offset of its local header in src */
    uint64_t comp_size, size;
    uint32_t crc;
    uint16_t method;
};
typedef bool find_member_fn(void *ctx, const struct find_member *m, struct zf_err *err);

/* Calls fn for each entry in the directory of the last archive that ends at byte `end` of src, or shortly before it.
 * *first_out: where that archive begins.  Errors: ZF_E_FORMAT there is none, or its directory is damaged; ZF_E_LIMIT;
 * ZF_E_NOMEM; of reading; of fn. */
bool find_members(struct zf_source *src, uint64_t end, const struct zf_limits *lim,
                  find_member_fn *fn, void *ctx, uint64_t *first_out,
                  struct zf_err *err) ZF_CHECKED;

/* Returns a source of a member's decompressed bytes.  Errors: ZF_E_FORMAT, ZF_E_UNSUPPORTED, ZF_E_LIMIT; of reading. */
struct zf_source *find_open(struct zf_source *src, const struct find_member *m,
                            const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

#endif
