/* SPDX-License-Identifier: Apache-2.0 */
/* Values that every file of one save repeats (steps, settings, shapes), as a list of named texts per file,
 * to detect files of two saves mixed in one directory.  A list is small and
 * outlives the pickle it was taken from. */
#ifndef ZF_ASSEMBLE_AGREE_H
#define ZF_ASSEMBLE_AGREE_H

#include <zf/codec/torch.h>

struct zf_agree;

/* Makes an empty list for the values of `file` (copied, for messages); it takes at most `budget` bytes. */
struct zf_agree *zf_agree_new(const char *file, uint64_t budget, struct zf_err *err) ZF_CHECKED;
void zf_agree_free(struct zf_agree *g); /* NULL is fine */
static inline void zf_auto_agree(struct zf_agree **g)
{
    zf_agree_free(*g);
}

/* True if the value called `name` below `key` may differ between the files of one save. */
typedef bool zf_agree_free_fn(const char *key, const char *name);

/* Adds the numbers, texts, constants and one-element tensors in v, under names that begin with `key`
 * ("ds_config.fp16.enabled").  Skips sets, bytes, larger tensors, values deeper than a few dozen levels, and those for
 * which may_differ (or NULL) is true.  needed: a file without a value that another file has belongs to another save.
 * Errors: ZF_E_LIMIT the budget; those of reading a tensor. */
bool zf_agree_add(struct zf_agree *g, struct zf_torch *t, const char *key, const struct zf_pv *v,
                  zf_agree_free_fn *may_differ, bool needed, struct zf_err *err) ZF_CHECKED;

/* True if the value of a tensor was read, which is outside the pickle. */
bool zf_agree_read_data(const struct zf_agree *g);

/* True if a name or text contains the end of "cuda:": then files that are alike except for a device number may have
 * different values. */
bool zf_agree_has_device(const struct zf_agree *g);

/* Checks that both lists have the same values.  shared: compares only names that are in both.
 * Errors: ZF_E_FORMAT with both files and both values; err->path is g's file. */
bool zf_agree_compare(const struct zf_agree *g, const struct zf_agree *first, bool shared,
                      struct zf_err *err) ZF_CHECKED;

#endif
