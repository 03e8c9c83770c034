/* SPDX-License-Identifier: Apache-2.0 */
/* The place of a tensor of a checkpoint in the tree: from its path in the checkpoint to (set,
 * name), by the naming rules of zerofs(5).  Two passes: see every tensor's path once, then ask for
 * places; what a path means depends on its neighbours (is there a container? a master copy? a
 * second optimizer?). */
#ifndef ZF_ASSEMBLE_NAMES_H
#define ZF_ASSEMBLE_NAMES_H

#include <zf/base/arena.h>
#include <zf/assemble/key_path.h>
#include <zf/base/auto.h>
#include <zf/base/err.h>
#include <zf/base/out.h>
#include <zf/model/build.h>

/* The steps joined by dots; replaces what out held.  Errors: ZF_E_NOMEM. */
bool zf_path_join(struct zf_out *out, struct zf_path path, struct zf_err *err) ZF_CHECKED;

/* The tree path <dir>/<name><suffix> with the name encoded, in the arena: "optim/exp_avg", the set of a state. */
const char *zf_path_encoded(struct zf_arena *a, const char *dir, const char *name, size_t n,
                            const char *suffix, struct zf_err *err) ZF_CHECKED;
/* Equal for equal paths; for others but by a chance of 2^-64. */
uint64_t zf_path_hash(struct zf_path path);

/* Does a key end in "_extra_state", as what a module's get_extra_state gave?  Source: torch/nn/modules/
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

/* First pass: one call a tensor, in any order; borrows nothing.  A path seen twice does no harm.
 * Errors: ZF_E_NOMEM. */
bool zf_names_add(struct zf_names *names, struct zf_path path, struct zf_err *err) ZF_CHECKED;
bool zf_names_add_flat(struct zf_names *names, const char *key, size_t n,
                       struct zf_err *err) ZF_CHECKED;

/* Says that the integer id of the optimizer at `head` (the path's text in front of `.state`, such
 * as "optimizer" or "optimizer_states.0") is the parameter `name`.  Before the first place. Source:
 * param_names of torch.optim's param_groups (>= 2.6).  Errors: ZF_E_NOMEM. */
bool zf_names_id(struct zf_names *names, const char *head, uint64_t id, const char *name,
                 size_t name_len, struct zf_err *err) ZF_CHECKED;

/* The same of every id that the groups of the optimizer, its param_groups, give a name to. */
bool zf_names_groups(struct zf_names *names, const char *head, const struct zf_pv *groups,
                     struct zf_err *err) ZF_CHECKED;
/* Is the path, by its spelling, an entry of an optimizer's state?  False when memory is out. */
bool zf_names_is_entry(struct zf_names *names, struct zf_path path);
/* Is it a setting of an optimizer's groups, "optimizer.param_groups.0.lr"?  Its place is under extra/.  A tensor in capturable
 * optimizers (torch/optim/adam.py, 2.x) and in those of torchao (optim/adam.py, 0.18).  False when memory is out. */
bool zf_names_is_setting(struct zf_names *names, struct zf_path path);

/* Second pass: the same path always gets the same place, whose set is one of
 *   ""            a weight or buffer, or the fp32 copy that an optimizer keeps of one;
 *   "stored"      the weight that such a copy shadows;
 *   "optim/<key>" a value of an optimizer's state;
 *   "extra"       whatever else, under its full key;
 *   any other     a set of its own, beside the container.
 * The texts of *out are good until the next call.  Different paths may get the same place only when their
 * dotted keys are equal.  Errors: ZF_E_NOMEM. */
bool zf_names_place(struct zf_names *names, struct zf_path path, struct zf_spot *out,
                    struct zf_err *err) ZF_CHECKED;
bool zf_names_place_flat(struct zf_names *names, const char *key, size_t n, struct zf_spot *out,
                         struct zf_err *err) ZF_CHECKED;

/* Is it the place of a value of an optimizer's state? */
bool zf_names_is_optim(struct zf_spot spot);

/* The place under /extra/ with the full key: for a path whose own place is already taken. */
bool zf_names_extra(struct zf_names *names, struct zf_path path, struct zf_spot *out,
                    struct zf_err *err) ZF_CHECKED;

/* The tree path "extra/<full key>" of a bytes item; valid until the next call.
 * NULL: ZF_E_NOMEM. */
const char *zf_names_blob(struct zf_names *names, struct zf_path path,
                          struct zf_err *err) ZF_CHECKED;

/* The container's name after the first pass ("model"), or NULL. */
const char *zf_names_container(const struct zf_names *names);

/* Is this first component one of the tree's own directories or files? */
bool zf_names_reserved(const char *encoded);

#endif
