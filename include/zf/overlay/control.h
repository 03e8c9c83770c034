/* SPDX-License-Identifier: Apache-2.0 */
/* /.zerofs/: index.json, stats.json, log and, at the top of a mount, mount.json, laid over another
 * tree.  Hidden: found by name, never listed, so that cp -r and find take the checkpoint and nothing
 * else. */
#ifndef ZF_OVERLAY_CONTROL_H
#define ZF_OVERLAY_CONTROL_H

#include <zf/overlay/log.h>
#include <zf/tree.h>

struct zf_control_opts {
    struct zf_log *log; /* borrowed; NULL: log_text is asked instead */
    /* Waits until the index can be made, as zf_tree_ops.ready; NULL: it always can. */
    bool (*ready)(void *ctx, struct zf_err *err);
    /* All give malloc'ed text; ctx is handed to them.  index is asked once (live: at every read),
     * the others at every read. */
    char *(*index)(void *ctx, size_t *n_out, struct zf_err *err);
    char *(*stats)(void *ctx, size_t *n_out, struct zf_err *err);
    char *(*log_text)(void *ctx, size_t *n_out);
    /* Says why nothing can be looked into, where there is no tree below. */
    void (*why)(void *ctx, struct zf_err *err);
    void *ctx;
    bool live; /* index.json may change */
    bool
        tells; /* the log is told of directories that cannot be looked into; a run's saves tell it themselves */
};

/* Takes `inner` (freed with the tree, and on failure); NULL: an empty directory that cannot be looked into. */
struct zf_tree *zf_control_new(struct zf_tree *inner, const struct zf_control_opts *o,
                               struct zf_err *err) ZF_CHECKED;

/* Adds mount.json, which never changes, to a tree made by zf_control_new.  Takes text (malloc'ed). */
void zf_control_set_mount(struct zf_tree *t, char *text);

/* Fills modes.json, which is beside it, empty until then.  Takes text (malloc'ed).  Thread: any;
 * the first call counts. */
void zf_control_set_modes(struct zf_tree *t, char *text);

/* Takes bits off the modes of everything in a tree made by zf_control_new. */
void zf_control_withhold(struct zf_tree *t, uint16_t bits);

/* The same over the tree of one checkpoint. */
struct zf_tree *zf_control_checkpoint(struct zf_tree *inner, struct zf_log *log,
                                      struct zf_err *err) ZF_CHECKED;

#endif
