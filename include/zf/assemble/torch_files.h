/* SPDX-License-Identifier: Apache-2.0 */
/* The torch.save files that make up one checkpoint, or that lie beside its weights. */
#ifndef ZF_ASSEMBLE_TORCH_FILES_H
#define ZF_ASSEMBLE_TORCH_FILES_H

#include <zf/assemble/open_opts.h>
#include <zf/model/build.h>

enum zf_torch_role {
    ZF_ROLE_WEIGHTS,
    ZF_ROLE_OPTIMIZER, /* shown under optim/ */
    ZF_ROLE_REST,      /* schedulers, RNG states, arguments: state/ and extra/ */
};

struct zf_torch_set;

/* beside: the weights are told by somebody else.  Then, and where there are several files, a file's
 * plain values are state/<path>.json; a file alone has one JSON for each of its top-level keys. */
struct zf_torch_set *zf_torch_set_new(struct zf_store *st, const struct zf_limits *lim, bool beside,
                                      struct zf_err *err) ZF_CHECKED;
void zf_torch_set_free(struct zf_torch_set *s); /* NULL is fine */
static inline void zf_auto_torch_set(struct zf_torch_set **s)
{
    zf_torch_set_free(*s);
}

/* path[n] will be added, in this order: they are opened ahead.  Borrowed until the last is added. */
bool zf_torch_set_expect(struct zf_torch_set *s, const char *const *path, size_t n,
                         struct zf_err *err) ZF_CHECKED;

/* Opens `path` of the store.  A file of weights that turns out to be an optimizer's state dict counts as
 * that. rank: whose file it is; 0 where files are not per rank; ascending. Errors: of the store and
 * of zf_torch_open, with the path. */
bool zf_torch_set_add(struct zf_torch_set *s, const char *path, enum zf_torch_role role,
                      uint32_t rank, struct zf_err *err) ZF_CHECKED;

/* Names and places everything.  world: the number of ranks (1 where files are not per rank).
 * Errors: ZF_E_UNKNOWN two files hold tensors of one name, so they are not one checkpoint;
 * ZF_E_FORMAT; of the build. */
bool zf_torch_set_place(struct zf_torch_set *s, uint32_t world, struct zf_build *b,
                        struct zf_err *err) ZF_CHECKED;

/* Might a file of this name be one of torch.save's, by its ending? */
bool zf_torch_set_named(const char *name);

/* What a file of this name holds, where nothing else tells. */
enum zf_torch_role zf_torch_set_role(const char *name);

#endif
