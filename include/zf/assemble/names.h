/* SPDX-License-Identifier: Apache-2.0 */
/* Maps a tensor's path in the checkpoint to its place in the tree, (set, name), by the naming rules of zerofs(5).  In
 * two passes: first every tensor's path is added, then places are asked for, because the meaning of a path depends on
 * the others (is there a container? a master copy? a second optimizer?). */
#ifndef ZF_ASSEMBLE_NAMES_H
#define ZF_ASSEMBLE_NAMES_H

#include <zf/base/arena.h>
#include <zf/assemble/key_path.h>
#include <zf/base/auto.h>
#include <zf/base/err.h>
#include <zf/base/out.h>
#include <zf/model/build.h>

/* Writes the steps, joined by dots; replaces the contents of out.  Errors: ZF_E_NOMEM. */
bool zf_path_join(struct zf_out *out, struct zf_path path, struct zf_err *err) ZF_CHECKED;

/* The tree path <dir>/<name><suffix> with the name encoded, in the arena: "optim/exp_avg", the set of an optimizer
 * state. */
const char *zf_path_encoded(struct zf_arena *a, const char *dir, const char *name, size_t n,
                            const char *suffix, struct zf_err *err) ZF_CHECKED;
/* A hash: equal for equal paths; for different ones with a probability of 2^-64. */
uint64_t zf_path_hash(struct zf_path path);

/* True if a key ends in "_extra_state", as the result of a module's get_extra_state does.  Source: torch/nn/modules/
 * module.py (1.10 ...). */
bool zf_names_extra_state(const char *key, size_t n);

struct zf_pv;
struct zf_names;

/* Gives an empty context.  Errors: ZF_E_NOMEM. */
struct zf_names *zf_names_new(struct zf_err *err) ZF_CHECKED;
void zf_names_free(struct zf_names *names); /* NULL is fine */
static inline void zf_auto_names(struct zf_names **names)
{
    zf_names_free(*names);
}

/* First pass: one call per tensor, in any order; borrows nothing.  A path may be added twice.  Errors: ZF_E_NOMEM. */
bool zf_names_add(struct zf_names *names, struct zf_path path, struct zf_err *err) ZF_CHECKED;
bool zf_names_add_flat(struct zf_names *names, const char *key, size_t n,
                       struct zf_err *err) ZF_CHECKED;

/* Records that the integer id of the optimizer at `head` (the path's text in front of `.state`, such as "optimizer" or
 * "optimizer_states.0") is the parameter `name`.  Must be called before the second pass.  Source:
 * param_names of torch.optim's param_groups (>= 2.6).  Errors: ZF_E_NOMEM. */
bool zf_names_id(struct zf_names *names, const char *head, uint64_t id, const char *name,
                 size_t name_len, struct zf_err *err) ZF_CHECKED;

/* The same for every id to which the optimizer's param_groups give a name. */
bool zf_names_groups(struct zf_names *names, const char *head, const struct zf_pv *groups,
                     struct zf_err *err) ZF_CHECKED;
/* True if the path has the form of an entry of an optimizer's state.  False if memory runs out. */
bool zf_names_is_entry(struct zf_names *names, struct zf_path path);
/* True if the path is a setting of an optimizer's groups, "optimizer.param_groups.0.lr", whose place is under extra/.
 * It is a tensor in capturable optimizers (torch/optim/adam.py, 2.x) and those of torchao (optim/adam.py, 0.18).  False
 * if memory runs out. */
bool zf_names_is_setting(struct zf_names *names, struct zf_path path);

/* Second pass: the same path always gets the same place, whose set is one of
 *   ""            a weight or buffer, or the fp32 copy that an optimizer keeps of one;
 *   "stored"      the weight that such a copy replaces;
 *   "optim/<key>" a value of an optimizer's state;
 *   "extra"       anything else, under its full key;
 *   any other     a separate set, next to the container.
 * The texts of *out are valid until the next call.  Different paths get the same place only if their dotted keys are
 * equal.  Errors: ZF_E_NOMEM. */
bool zf_names_place(struct zf_names *names, struct zf_path path, struct zf_spot *out,
                    struct zf_err *err) ZF_CHECKED;
bool zf_names_place_flat(struct zf_names *names, const char *key, size_t n, struct zf_spot *out,
                         struct zf_err *err) ZF_CHECKED;

/* True if it is the place of a value of an optimizer's state. */
bool zf_names_is_optim(struct zf_spot spot);

/* Gives the place under /extra/ with the full key, for a path whose own place is already taken. */
bool zf_names_extra(struct zf_names *names, struct zf_path path, struct zf_spot *out,
                    struct zf_err *err) ZF_CHECKED;

/* The tree path "extra/<full key>" of a bytes item; valid until the next call.
 * NULL: ZF_E_NOMEM. */
const char *zf_names_blob(struct zf_names *names, struct zf_path path,
                          struct zf_err *err) ZF_CHECKED;

/* The container's name after the first pass ("model"), or NULL. */
const char *zf_names_container(const struct zf_names *names);

/* True if this first component of a path is one of the tree's own directories or files. */
bool zf_names_reserved(const char *encoded);

#endif
