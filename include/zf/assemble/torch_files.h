/* SPDX-License-Identifier: Apache-2.0 */
/* The torch.save files that make up one checkpoint, or that lie beside its weights. */
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

/* Files of st, for b.  mesh: of the places that have files of their own, {0} where they are not per
 * rank.  beside: another reader supplies the weights.  Then, and where there are several files, a
 * file's plain values are state/<path>.json; a file alone has one JSON for each of its top-level
 * keys.  Borrows b, st and lim until it is freed. */
struct zf_torch_set *zf_torch_set_new(struct zf_build *b, struct zf_store *st,
                                      const struct zf_mesh *mesh, bool beside,
                                      const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void zf_torch_set_free(struct zf_torch_set *s); /* NULL is fine */
static inline void zf_auto_torch_set(struct zf_torch_set **s)
{
    zf_torch_set_free(*s);
}

/* path[n] will be added, in this order: they are opened ahead.  Borrowed until the last is added. */
bool zf_torch_set_expect(struct zf_torch_set *s, const char *const *path, size_t n,
                         struct zf_err *err) ZF_CHECKED;

/* Files added from here on are all ranks' of this item ("optimizer"), whatever their names are; NULL: as their names say.
 * Borrowed; equal items are one text. */
void zf_torch_set_item(struct zf_torch_set *s, const char *item);

/* Reads `path` of the store.  A file of weights that turns out to be an optimizer's state dict counts as
 * that.  at: whose file it is; files of one kind come one after the other, the places ascending.  Of
 * the file of the first place everything is shown, of the others only their parts and copies of
 * tensors, and nothing else of them is kept in memory.
 * Errors: of the store and of zf_torch_open, with the path. */
bool zf_torch_set_add(struct zf_torch_set *s, const char *path, enum zf_torch_role role,
                      struct zf_coord at, struct zf_err *err) ZF_CHECKED;

/* Root value of the file at that path; borrowed; NULL: it was not added. */
const struct zf_pv *zf_torch_set_root(const struct zf_torch_set *s, const char *path);

/* Names and places everything.
 * Errors: ZF_E_UNKNOWN two files hold tensors of one name, so they are not one checkpoint;
 * ZF_E_FORMAT; of the build. */
bool zf_torch_set_place(struct zf_torch_set *s, struct zf_err *err) ZF_CHECKED;

/* Might a file of this name be one of torch.save's, by its ending? */
bool zf_torch_set_named(const char *name);

/* Does st's file `name` begin as torch.save writes it? */
bool zf_torch_set_sniff(struct zf_store *st, const char *name);

/* The same, and is a tensor in it, as far as one can see?  A small file is read through; one that is large
 * or damaged is taken for one with tensors. */
bool zf_torch_set_holds(struct zf_store *st, const char *name, const struct zf_limits *lim);

/* The role of a file by its name, where nothing else says it. */
enum zf_torch_role zf_torch_set_role(const char *name);

#endif
