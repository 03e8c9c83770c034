/* SPDX-License-Identifier: Apache-2.0 */
/* Which boxes of which tensors a safetensors file of torch.distributed.checkpoint holds. */
#ifndef ZF_ASSEMBLE_ST_BOXES_H
#define ZF_ASSEMBLE_ST_BOXES_H

#include <zf/base/arena.h>
#include <zf/base/limits.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>

/* The box of one entry, as the header's metadata describe it. */
struct zf_st_box {
    UT_hash_handle hh; /* key: the name */
    const char *name;  /* of the entry; in the arena, like all of this */
    const char *whole; /* "logical_fqn": the tensor's name if the entry has another one; or NULL */
    bool given;        /* it has "saved_offsets": n numbers */
    bool sizes;        /* all of them are valid offsets */
    bool inner;        /* one of them is not 0 */
    uint64_t n;
    const uint64_t *start; /* [n] */
};

struct zf_st_boxes {
    struct zf_st_box *box; /* uthash */
};

/* Reads DCP_SHARDING_INFO: {entry: {"saved_offsets": [...], "logical_fqn": name}}.  Everything is copied into a; *out,
 * which must be empty, must be freed in any case.  Errors: ZF_E_FORMAT with the byte offset in the text; ZF_E_LIMIT. */
bool zf_st_boxes_load(const char *text, const struct zf_limits *lim, struct zf_arena *a,
                      struct zf_st_boxes *out, struct zf_err *err) ZF_CHECKED;
void zf_st_boxes_fini(struct zf_st_boxes *b);

/* The box of the entry of that name, or NULL. */
const struct zf_st_box *zf_st_boxes_find(const struct zf_st_boxes *b, const char *name);

#endif
