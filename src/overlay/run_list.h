/* SPDX-License-Identifier: Apache-2.0 */
/* The saves of a run directory, as of the last look.  A request holds a reference to its save; releasing the last
 * reference frees a save that is gone.  A save that was written again under the same name is a different save.
 *
 * Inode numbers are never reused, so that a file of an old save is never mistaken for one of a new save: a save has 16
 * small numbers for its root and its control files, and gets a range of its tree's size when it is opened. */
#ifndef OVERLAY_RUN_LIST_H
#define OVERLAY_RUN_LIST_H

#include <stdatomic.h>
#include <time.h>

#include <zf/base/name.h>
#include <zf/base/vec.h>
#include <zf/base/thread.h>
#include <zf/overlay/log.h>
#include <zf/overlay/run_opts.h>

#include "save.h"

/* Inode numbers below this are the run's own; also the small numbers per save. */
enum { RUN_LIST_OWN = 16 };

struct run_entry {
    atomic_uint refs; /* one of the list, and one per request */
    uint64_t serial;
    _Atomic uint64_t unit; /* first unit of its range of inode numbers; 0: not open yet */
    uint64_t n_units;
    char *name;
    char file[ZF_NAME_MAX + 1]; /* the name as one component, because it may contain a slash */
    struct zf_identity dir;     /* its directory, when first seen */
    uint64_t held;              /* -o current: holds not yet dropped (run_list_hold) */
    uint64_t look;              /* number of the last look that found it */
    struct save *save;
};

struct run_entry *run_entry_ref(struct run_entry *e); /* NULL gives NULL */
void run_entry_unref(struct run_entry **e);
static inline void zf_auto_run_entry(struct run_entry **e)
{
    run_entry_unref(e);
}

struct run_list {
    char *path; /* owned */
    struct zf_run_opts o;
    struct zf_log *log;
    pthread_mutex_t looking; /* one look at a time */
    time_t looked;           /* time of the last look; protected by `looking` */
    pthread_mutex_t lock;    /* protects all fields below; held only briefly */
    uint64_t looks;
    zf_vec(struct run_entry *) list;  /* the existing saves, in the order of the listing */
    zf_vec(struct run_entry *) old;   /* -o current: no longer shown, the latest at the end */
    zf_vec(struct run_entry *) range; /* the open saves of both, by unit; without references */
    uint64_t serials, units;          /* assigned so far */
    struct run_entry *latest;         /* a save in `list`, or NULL */
};

void run_list_fini(struct run_list *t);

/* Lists the directory again; one thread at a time.  Errors: of the store. */
bool run_list_look(struct run_list *t, struct zf_err *err) ZF_CHECKED;

/* Likewise, if the last look was at least a second ago; a failure goes to the log. */
void run_list_refresh(struct run_list *t);

/* The save with that file name in its current state, with a reference, or NULL: an open save that has changed is
 * replaced by a new one. */
struct run_entry *run_list_by_name(struct run_list *t, const char *file);

/* -o current.  The save that is shown, with a reference, or NULL. */
struct run_entry *run_list_shown(struct run_list *t);

/* Makes a save that is not in the list yet: `name`, shown as `file` and open with this tree, of which it takes
 * ownership. */
struct run_entry *run_list_opened(struct run_list *t, const char *name, const char *file,
                                  struct zf_tree *tree, uint16_t withheld,
                                  struct zf_err *err) ZF_CHECKED;

/* Makes this save, or none, the only one in the list.  The previous one stays accessible while something of it is open;
 * the last few do in any case, for path lookups in progress and for working directories, which are not opened. */
bool run_list_show(struct run_list *t, struct run_entry *e, struct zf_err *err) ZF_CHECKED;

/* hold and drop of the tree (zf/tree.h). */
bool run_list_hold(struct run_list *t, uint64_t ino);
void run_list_drop(struct run_list *t, uint64_t ino);

/* The run's inode number for `ino` in e's tree; 0: no numbers are left, or e is gone. */
uint64_t run_list_ino(struct run_list *t, struct run_entry *e, uint64_t ino);

/* The save that an inode number belongs to, with a reference; NULL: the save is gone, or the number is the run's
 * own. */
struct run_entry *run_list_of(struct run_list *t, uint64_t ino, uint64_t *inner_out);

#endif
