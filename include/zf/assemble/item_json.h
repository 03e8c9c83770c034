/* SPDX-License-Identifier: Apache-2.0 */
/* The values of many small torch.save files as one JSON object, each under a key. */
#ifndef ZF_ASSEMBLE_ITEM_JSON_H
#define ZF_ASSEMBLE_ITEM_JSON_H

#include <zf/assemble/key_path.h>
#include <zf/base/out.h>
#include <zf/codec/torch.h>
#include <zf/model/build.h>

/* {0} is empty. */
struct zf_item_json {
    struct zf_out out;
    uint64_t read; /* bytes of the files so far */
};
static inline void zf_auto_item_json(struct zf_item_json *j)
{
    zf_auto_out(&j->out);
}

/* Mounting reads metadata; a little more is well spent on learning rate and step. */
#define ZF_ITEM_JSON_MAX (64u << 10)

/* True if a file of `bytes` bytes, perhaps compressed, should still be read; then counts it. */
bool zf_item_json_wants(struct zf_item_json *j, uint64_t bytes);
/* Adds the value of a file, unless it is a tensor or cannot be written as JSON.  *all: the JSON has the complete value,
 * which contains no object, tensor or bytes.  Errors: ZF_E_NOMEM. */
bool zf_item_json_add(struct zf_item_json *j, struct zf_torch *t, struct zf_step key,
                      const struct zf_limits *lim, bool *all, struct zf_err *err) ZF_CHECKED;
/* Adds the JSON file to the tree unless it is empty. */
bool zf_item_json_end(struct zf_item_json *j, struct zf_build *b, const char *path,
                      struct zf_err *err) ZF_CHECKED;

#endif
