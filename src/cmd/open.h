/* SPDX-License-Identifier: Apache-2.0 */
/* From a path and options to a tree: what every command starts with. */
#ifndef ZF_CMD_OPEN_H
#define ZF_CMD_OPEN_H

#include <zf/find.h>
#include <zf/overlay/log.h>
#include <zf/view.h>

#include "options.h"

/* Gives the tree of the checkpoint at `path`.  Errors: as zf_open; the path is put in front
 * of them. */
struct zf_tree *open_tree(const char *path, const struct opts *o, struct zf_err *err) ZF_CHECKED;

/* Adds the option that gets past it to the sentence of a refusal: the limit it names, or -o degraded where that is tried and
 * opens something. */
void open_say_remedy(const char *path, const struct opts *o, struct zf_err *err);

/* open_tree, and a refusal with its remedy. */
struct zf_tree *open_asked(const char *path, const struct opts *o, struct zf_err *err) ZF_CHECKED;

/* The same up to the names the user asked for, without a tree. */
struct zf_checkpoint *open_checkpoint(const char *path, const struct opts *o,
                                      struct zf_err *err) ZF_CHECKED;

/* Is a checkpoint c that was opened with -o degraded, and of which nothing is lost, refused without?  *why_out says why.
 * Something that was passed over is in a note at least: without one it is not tried. */
bool open_is_refused(const char *path, const struct opts *o, const struct zf_checkpoint *c,
                     struct zf_err *why_out);

/* Was the checkpoint refused for damage that -o degraded may go on with, and does not yet?  Not where a source did not
 * answer: it would be waited for once more. */
bool open_is_damage(const char *path, const struct opts *o, const struct zf_err *err);

/* Looks for the newest save of a run that is whole, as -o tag=whole does.  False: none is, or *changed_out: something that
 * was read was written to meanwhile, so that this answer holds no longer. */
bool open_newest(const char *run, const struct opts *o, const struct zf_choice *choice,
                 bool *changed_out, struct zf_err *err) ZF_CHECKED;

/* With -o allow_other: the bits of 0555 that the mount withholds because a source of t, which was
 * opened from `path` (absolute), withholds them; else 0.  Logs whom that keeps out, and why. */
uint16_t open_withheld(const struct zf_tree *t, const char *path, const struct opts *o,
                       struct zf_log *log);

/* How the paths and addresses of these options are opened; borrows them. */
struct zf_opener open_opener(const struct opts *o);

/* The options and the log with which the saves of a run are opened. */
struct open_saves {
    const struct opts *o;
    struct zf_opener opener; /* open_opener(o) */
    struct zf_log *log;
};

/* The tree of -o all_tags, a directory a save, or that of -o current.  Borrows s, and what it leads to. */
struct zf_tree *open_run(const char *path, const struct open_saves *s,
                         struct zf_err *err) ZF_CHECKED;

/* Whether a listing takes presentations too.  Without -o show= the tree lists all it holds, and the
 * command leaves presentations out unless `all`; with it the tree's own listing is what counts. */
bool open_listing(struct zf_tree *t, const struct opts *o, bool all);

#endif
