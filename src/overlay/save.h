/* SPDX-License-Identifier: Apache-2.0 */
/* One save of a run that is shown with -o all_tags: opened when somebody first looks into it.
 *
 * A save that cannot be opened (half written, damaged) is not given up: until it can be, a tree
 * takes its place that cannot be listed and holds nothing but .zerofs/, whose log says why.  When
 * something in its directory has changed, the next look opens it again, at most once a second.
 * One in which something was changed within the last seconds counts as half written.  A save that was
 * opened stays as it is: a change below it is ESTALE at the read that meets it, and whoever looks for it by its name
 * is told (save_changed). */
#ifndef OVERLAY_SAVE_H
#define OVERLAY_SAVE_H

#include <zf/overlay/log.h>
#include <zf/overlay/run_opts.h>
#include <zf/source/store.h>

struct save;

/* Gives the save `name` of the run directory `run`, not opened yet.  Borrows run, o and log, which
 * must outlive it. */
struct save *save_new(const char *run, const char *name, const struct zf_run_opts *o,
                      struct zf_log *log, struct zf_err *err) ZF_CHECKED;
void save_free(struct save *s);

/* Opens it with this tree of a checkpoint, which is taken.  Thread: before others see s. */
bool save_take(struct save *s, struct zf_tree *tree, uint16_t withheld,
               struct zf_err *err) ZF_CHECKED;

/* The save's tree, or the one in its place: never NULL but without memory.  Lives as long as the
 * save.  Thread: any; only an opening takes a lock. */
struct zf_tree *save_tree(struct save *s);

/* The save's tree if it is open already. */
struct zf_tree *save_opened(const struct save *s);

/* Has anything in the save changed since it was opened, but for modes, owners and links?  Looks at most once a
 * second; false also when it is not open, as then the next look opens it. */
bool save_changed(struct save *s);

/* Opens the save, if need be.  Errors: ZF_E_IO with the reason; nothing else. */
bool save_enter(struct save *s, struct zf_err *err) ZF_CHECKED;

/* Has anything below a directory changed? */

struct fingerprint {
    uint64_t hash; /* equal while no name, size, modification or change time below it differs */
    uint64_t same; /* the same without the change times, which modes, owners and links move */
    int64_t since; /* zf_clock_ns, when it was first seen like that; 0: never */
    bool far;      /* behind an address */
    bool settled;  /* nothing was changed so lately that one more change could go unseen */
};

/* Looks at every directory below `dir` of the directory `root`, without opening a file.  What
 * cannot be listed counts as its error, so that it changes when it can. */
struct fingerprint fingerprint_take(const struct zf_opener *opener, const char *root,
                                    const char *dir, const struct zf_limits *lim);
/* Takes *f anew: what is as it was for some seconds is settled, whatever the clock of its file system says. */
void fingerprint_look(struct fingerprint *f, const struct zf_opener *opener, const char *root,
                      const char *dir, const struct zf_limits *lim);

#endif
