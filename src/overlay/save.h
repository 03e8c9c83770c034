/* SPDX-License-Identifier: Apache-2.0 */
/* One save of a run that is shown with -o all_tags: opened at the first access.
 *
 * A save that cannot be opened (incomplete, damaged) is tried again: until then it is replaced by a tree
 * that cannot be listed and contains only .zerofs/, whose log says why.  After a change in its directory
 * the next access tries to open it again, at most once a second.  A save that changed within the last
 * seconds counts as incomplete.  An open save does not change: a read that finds a changed file fails
 * with ESTALE, and looking the save up by name detects the change (save_changed). */
#ifndef OVERLAY_SAVE_H
#define OVERLAY_SAVE_H

#include <zf/overlay/log.h>
#include <zf/overlay/run_opts.h>
#include <zf/source/store.h>

struct save;

/* Makes the save `name` of the run directory `run`, without opening it.  Borrows run, o and log, which
 * must outlive it. */
struct save *save_new(const char *run, const char *name, const struct zf_run_opts *o,
                      struct zf_log *log, struct zf_err *err) ZF_CHECKED;
void save_free(struct save *s);

/* Opens the save with this tree of a checkpoint, of which it takes ownership.  Thread: before others see s. */
bool save_take(struct save *s, struct zf_tree *tree, uint16_t withheld,
               struct zf_err *err) ZF_CHECKED;

/* The save's tree, or the one that replaces it; NULL only without memory.  Lives as long as the save.
 * Thread: any; only opening takes a lock. */
struct zf_tree *save_tree(struct save *s);

/* The save's tree if it is open already. */
struct zf_tree *save_opened(const struct save *s);

/* Has anything in the save changed since it was opened, except modes, owners and links?  Checks at most once a
 * second; false, too, if it is not open, because the next access opens it. */
bool save_changed(struct save *s);

/* Opens the save, if necessary.  Errors: only ZF_E_IO, with the reason. */
bool save_enter(struct save *s, struct zf_err *err) ZF_CHECKED;

/* Has anything below a directory changed? */

struct fingerprint {
    uint64_t hash; /* of all names, sizes, modification and change times below the directory */
    uint64_t same; /* likewise without change times, which modes, owners and links affect */
    int64_t since; /* zf_clock_ns when this state was first seen; 0: never */
    bool far;      /* in remote storage */
    bool settled;  /* no change is so recent that another one could go unnoticed */
};

/* Examines every directory below `dir` of the directory `root`, without opening files.  A directory that
 * cannot be listed contributes its error, so the fingerprint changes when it can. */
struct fingerprint fingerprint_take(const struct zf_opener *opener, const char *root,
                                    const char *dir, const struct zf_limits *lim);
/* Updates *f: a state unchanged for some seconds is settled, whatever the times in its file system are. */
void fingerprint_look(struct fingerprint *f, const struct zf_opener *opener, const char *root,
                      const char *dir, const struct zf_limits *lim);

#endif
