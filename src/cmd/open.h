/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a tree from a path and options: the first step of every command. */
#ifndef ZF_CMD_OPEN_H
#define ZF_CMD_OPEN_H

#include <zf/find.h>
#include <zf/overlay/log.h>
#include <zf/view.h>

#include "options.h"

/* Opens the tree of the checkpoint at `path`.  Errors: as zf_open, with the path in front
 * of the message. */
struct zf_tree *open_tree(const char *path, const struct opts *o, struct zf_err *err) ZF_CHECKED;

/* Adds the option that avoids a refusal to its message: the limit that it names, or -o degraded, if trying that opens
 * the checkpoint. */
void open_say_remedy(const char *path, const struct opts *o, struct zf_err *err);

/* open_tree, but a refusal comes with its remedy. */
struct zf_tree *open_asked(const char *path, const struct opts *o, struct zf_err *err) ZF_CHECKED;

/* Opens the checkpoint in the same way, with tensors selected and renamed by the options, but makes no tree. */
struct zf_checkpoint *open_checkpoint(const char *path, const struct opts *o,
                                      struct zf_err *err) ZF_CHECKED;

/* True if a checkpoint c, opened with -o degraded but without losses, is refused without that option; *why_out says
 * why. This is only tried if c has notes: whatever degraded mode ignored is in one. */
bool open_is_refused(const char *path, const struct opts *o, const struct zf_checkpoint *c,
                     struct zf_err *why_out);

/* True if the checkpoint was refused for damage that -o degraded may tolerate, and the option is not set.  False if a
 * source did not answer: another attempt would wait for it again. */
bool open_is_damage(const char *path, const struct opts *o, const struct zf_err *err);

/* Looks for the newest complete save of a run, as -o tag=whole does.  False: there is none, or *changed_out: files that
 * were read have changed meanwhile, so that the result is not valid. */
bool open_newest(const char *run, const struct opts *o, const struct zf_choice *choice,
                 bool *changed_out, struct zf_err *err) ZF_CHECKED;

/* With -o allow_other: the bits of 0555 that the mount must remove because a source file of t, which was
 * opened from `path` (absolute), lacks them; else 0.  Logs which users are excluded, and why. */
uint16_t open_withheld(const struct zf_tree *t, const char *path, const struct opts *o,
                       struct zf_log *log);

/* The opener of paths and addresses by these options, which it borrows. */
struct zf_opener open_opener(const struct opts *o);

/* What is needed to open the saves of a run. */
struct open_saves {
    const struct opts *o;
    struct zf_opener opener; /* open_opener(o) */
    struct zf_log *log;
};

/* Makes the tree of -o all_tags, with a directory per save, or that of -o current.  Borrows s and all it points to. */
struct zf_tree *open_run(const char *path, const struct open_saves *s,
                         struct zf_err *err) ZF_CHECKED;

/* True if the command is to list other formats of tensors, too (npy/, as/, …).  Without -o show= the tree
 * lists everything and the command omits them unless `all`; with it the tree lists what it names. */
bool open_listing(struct zf_tree *t, const struct opts *o, bool all);

#endif
