/* SPDX-License-Identifier: Apache-2.0 */
/* A tree whose places are being added. */
#ifndef VIEW_LAYOUT_H
#define VIEW_LAYOUT_H

#include <zf/base/vec.h>
#include <zf/model/model.h>

#include "nodes.h"
#include "shelf.h"
#include "tree.h"

/* The types of presentations; the first stands for no cast: the tensors' own types. */
#define N_CASTS 4
extern const enum zf_dtype layout_casts[N_CASTS];

/* A file that is not a tensor; its directory is path[n]. */
struct side_file {
    const char *path;
    size_t n;
    uint32_t blob; /* its number */
};

struct layout {
    struct tree *t;
    const struct zf_view_opts *o;
    zf_vec(struct place) place;
    struct side_file *side;  /* all, sorted by directory */
    struct shelf_set *model; /* what hf/ of the root shows instead of the root's tensors; or NULL */
    bool adapter;            /* the root holds what PEFT calls an adapter */
};

/* A bulk file to be made. */
struct bulk_place {
    const char *dir, *name;
    const struct bulk_kind *kind;
    const struct shelf *of;
    const void *shard; /* its meaning depends on the kind; or NULL */
    bool hidden;
};

bool layout_put(struct layout *p, struct place what, struct zf_err *err) ZF_CHECKED;
bool layout_put_bulk(struct layout *p, struct bulk_place what, struct zf_err *err) ZF_CHECKED;
/* The number of the bulk file made last. */
uint32_t layout_last_bulk(const struct layout *p);
/* dir/name; NULL: out of memory. */
char *layout_join(struct zf_arena *a, const char *dir, const char *name, struct zf_err *err);
/* Checks that a file with the whole set, every byte widened to four, would not exceed the largest file size. */
bool layout_check_size(const struct zf_set *set, struct zf_err *err) ZF_CHECKED;
/* Is there a LOST.json next to the set? */
bool layout_wants_list(const struct layout *p, const struct zf_set *set);

/* Fills p->side. */
bool layout_sort_side_files(struct layout *p, struct zf_err *err) ZF_CHECKED;
/* Makes *out the set that hf/ shows, without damaged tensors if those are left out. */
bool layout_take_model(struct layout *p, const struct zf_set *set, struct shelf_set *out,
                       struct zf_err *err) ZF_CHECKED;
/* Adds hf/ to dir; the bulk file made last is the set's model.safetensors. */
bool layout_put_hf(struct layout *p, const char *dir, const struct shelf *set, bool listed,
                   struct zf_err *err) ZF_CHECKED;
/* The bulk file made last is model.safetensors of the set at `path`: adds PEFT's name for it if that is an adapter. */
bool layout_put_adapter(struct layout *p, const char *path, const char *dir,
                        struct zf_err *err) ZF_CHECKED;
/* Adds hf/LOST.json with the names used in hf/; hf may be NULL: out of memory. */
bool layout_put_model_lost(struct layout *p, const char *hf, struct zf_err *err) ZF_CHECKED;
/* Adds hf/ of the root and those below as/ to a tree that has nothing else. */
bool layout_put_later(struct layout *p, struct zf_err *err) ZF_CHECKED;

/* Is the root an adapter?  PEFT looks for adapter_model.safetensors, in one piece, next to
 * adapter_config.json.  A full model may have an adapter_config.json, too, so the name of the weights'
 * file decides.
 * Source: peft utils/constants.py, utils/save_and_load.py (0.4 ... 0.21). */
bool adapter_is(const struct zf_checkpoint *c);

/* The presentations that a set lists, and as/ if it does: bits of enum zf_show.  A set is the root,
 * another one, or either of them below as/. */
uint32_t show_in_set(uint32_t show, const struct zf_set *set, bool cast);

/* Hides the directories next to the weights of c that were not asked for: optim/, stored/ and so on, also those of a
 * model-parallel rank; by default trained/, if each of its tensors is one of the weights, and extra/, if all of its
 * contents are shown elsewhere. */
void show_hide_dirs(struct nodes *ns, uint32_t show, const struct zf_checkpoint *c);

#endif
