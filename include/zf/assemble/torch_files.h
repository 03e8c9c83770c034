/* SPDX-License-Identifier: Apache-2.0 */
/* The torch.save files that make up one checkpoint, or that lie next to its weights. */
#ifndef ZF_ASSEMBLE_TORCH_FILES_H
#define ZF_ASSEMBLE_TORCH_FILES_H

#include <zf/assemble/coord.h>
#include <zf/assemble/open_opts.h>
#include <zf/model/build.h>

enum zf_torch_role {
    ZF_ROLE_WEIGHTS,
    ZF_ROLE_OPTIMIZER, /* shown under optim/ */
    ZF_ROLE_STATES,    /* the states of an optimizer, by number; the same for all such files */
    ZF_ROLE_REST,      /* schedulers, RNG states, arguments: state/ and extra/ */
};

struct zf_torch_set;
struct zf_pv;

/* Makes an empty set for files of st.  mesh: of the ranks that have separate files; {0} if files are not per rank.
 * beside: another reader supplies the weights.  Then, or with several files, a file's plain values are shown as
 * state/<path>.json; for a single file, as one JSON file per top-level key.  Borrows b, st and lim until it is
 * freed. */
struct zf_torch_set *zf_torch_set_new(struct zf_build *b, struct zf_store *st,
                                      const struct zf_mesh *mesh, bool beside,
                                      const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void zf_torch_set_free(struct zf_torch_set *s); /* NULL is fine */
static inline void zf_auto_torch_set(struct zf_torch_set **s)
{
    zf_torch_set_free(*s);
}

/* Announces that path[n] will be added in this order, so that they are opened ahead.  Borrowed until the last is
 * added. */
bool zf_torch_set_expect(struct zf_torch_set *s, const char *const *path, size_t n,
                         struct zf_err *err) ZF_CHECKED;

/* Files added from here on belong to this item ("optimizer") of all ranks, whatever their names are; NULL: as their
 * names say.  Borrowed; calls for the same item must pass the same pointer. */
void zf_torch_set_item(struct zf_torch_set *s, const char *item);

/* Reads `path` of the store.  A file of weights that turns out to be an optimizer's state dict is treated as that.  at:
 * the rank of the file; files of one kind must be added one after the other, by ascending rank.  Everything in the
 * first rank's file is shown; of the others, only their shards and replicas of tensors are used and kept in memory.
 * Errors: those of the store and of zf_torch_open, with the path. */
bool zf_torch_set_add(struct zf_torch_set *s, const char *path, enum zf_torch_role role,
                      struct zf_coord at, struct zf_err *err) ZF_CHECKED;

/* The root value of the file at that path; borrowed; NULL: it was not added. */
const struct zf_pv *zf_torch_set_root(const struct zf_torch_set *s, const char *path);

/* Gives all tensors their names and places.
 * Errors: ZF_E_UNKNOWN two files hold tensors of one name, so they are not one checkpoint;
 * ZF_E_FORMAT; of the build. */
bool zf_torch_set_place(struct zf_torch_set *s, struct zf_err *err) ZF_CHECKED;

/* True if the name has an extension that torch.save files have. */
bool zf_torch_set_named(const char *name);

/* True if st's file `name` begins like a torch.save file. */
bool zf_torch_set_sniff(struct zf_store *st, const char *name);

/* The same, and it contains a tensor.  A small file is read to find out; a large or damaged one is assumed to have
 * tensors. */
bool zf_torch_set_holds(struct zf_store *st, const char *name, const struct zf_limits *lim);

/* The role of a file by its name, for when nothing else determines it. */
enum zf_torch_role zf_torch_set_role(const char *name);

#endif
