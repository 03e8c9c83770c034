/* SPDX-License-Identifier: Apache-2.0 */
/* Adds /.zerofs/ to another tree: index.json, stats.json, log and, at the top of a mount, mount.json.  It is found by
 * name but never listed, so that cp -r and find see only the checkpoint. */
#ifndef ZF_OVERLAY_CONTROL_H
#define ZF_OVERLAY_CONTROL_H

#include <zf/overlay/log.h>
#include <zf/tree.h>

struct zf_control_opts {
    struct zf_log *log; /* borrowed; NULL: log_text is called instead */
    /* Waits until the index can be made, like zf_tree_ops.ready; NULL: it always can. */
    bool (*ready)(void *ctx, struct zf_err *err);
    /* All return malloc'ed text and get ctx.  index is called once (live: at every read), the others at every read. */
    char *(*index)(void *ctx, size_t *n_out, struct zf_err *err);
    char *(*stats)(void *ctx, size_t *n_out, struct zf_err *err);
    char *(*log_text)(void *ctx, size_t *n_out);
    /* Gives the reason why directories cannot be read, if there is no inner tree. */
    void (*why)(void *ctx, struct zf_err *err);
    void *ctx;
    bool live;  /* index.json may change */
    bool tells; /* log directories that cannot be read; the saves of a run log this themselves */
};

/* Takes `inner` (freed with the tree, and on failure); NULL: an empty directory that cannot be read. */
struct zf_tree *zf_control_new(struct zf_tree *inner, const struct zf_control_opts *o,
                               struct zf_err *err) ZF_CHECKED;

/* Adds mount.json, which never changes, to a tree made by zf_control_new.  Takes text (malloc'ed). */
void zf_control_set_mount(struct zf_tree *t, char *text);

/* Sets the contents of modes.json, which is next to it and empty until then.  Takes text (malloc'ed).  Thread: any;
 * only the first call has an effect. */
void zf_control_set_modes(struct zf_tree *t, char *text);

/* Clears bits in the modes of all files and directories of a tree made by zf_control_new. */
void zf_control_withhold(struct zf_tree *t, uint16_t bits);

/* The same over the tree of one checkpoint. */
struct zf_tree *zf_control_checkpoint(struct zf_tree *inner, struct zf_log *log,
                                      struct zf_err *err) ZF_CHECKED;

#endif
