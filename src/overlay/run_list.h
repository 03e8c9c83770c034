/* SPDX-License-Identifier: Apache-2.0 */
/* The saves of a run directory.  What is in the list is what was there at the last look; a request holds a reference
 * to the save that it is about, and the last one that is given back frees what is gone.  A save that was written again
 * under its name is another save.
 *
 * Inode numbers are never used twice, so that no file of an old save is taken for one of a new save: a save has 16
 * small ones for its root and its control files, and takes a range of its tree's size when it is opened. */
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

/* Inode numbers below are the run's own. */
enum { RUN_LIST_OWN = 16 };

struct run_entry {
    atomic_uint refs; /* the list's, and one for each request */
    uint64_t serial;
    _Atomic uint64_t unit; /* the first of its range; 0: not open yet */
    uint64_t n_units;
    char *name;
    char file[ZF_NAME_MAX + 1]; /* the name as one component: it may hold a slash */
    struct zf_identity dir;     /* its directory, when it was first seen */
    uint64_t held;              /* -o current: how much of it is open */
    uint64_t look;              /* the last look at which it was there */
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
    time_t looked;           /* of `looking` */
    pthread_mutex_t lock;    /* of all below; held for moments */
    uint64_t looks;
    zf_vec(struct run_entry *) list; /* those that are there, as they are listed */
    zf_vec(struct run_entry *) old;  /* -o current: shown no more, the last one at the end */
    zf_vec(struct run_entry *)
        range;                /* those of both that are open, by unit; no references of its own */
    uint64_t serials, units;  /* given away so far */
    struct run_entry *latest; /* one of the list, or NULL */
};

void run_list_fini(struct run_list *t);

/* Lists the directory anew, while nobody else does.  Errors: of the store. */
bool run_list_look(struct run_list *t, struct zf_err *err) ZF_CHECKED;

/* The same where the last look was a second ago; a failure goes to the log. */
void run_list_refresh(struct run_list *t);

/* The save of that file name as it is now, with a reference, or NULL: one that was open and in which something has
 * changed makes way for a new one. */
struct run_entry *run_list_by_name(struct run_list *t, const char *file);

/* -o current.  The one that is shown, with a reference, or NULL. */
struct run_entry *run_list_shown(struct run_list *t);

/* A save that is not in the list yet: `name`, open with this tree, which is taken, and shown as `file`. */
struct run_entry *run_list_opened(struct run_list *t, const char *name, const char *file,
                                  struct zf_tree *tree, uint16_t withheld,
                                  struct zf_err *err) ZF_CHECKED;

/* From now on the list is this one, or none.  The one before stays in reach while something of it is open; the last few
 * do in any case, for paths on their way and for working directories, which are not opened. */
bool run_list_show(struct run_list *t, struct run_entry *e, struct zf_err *err) ZF_CHECKED;

/* hold and drop of the tree (zf/tree.h). */
bool run_list_hold(struct run_list *t, uint64_t ino);
void run_list_drop(struct run_list *t, uint64_t ino);

/* The number of `ino`, one of the tree that e shows; 0: there are none left, or e is gone. */
uint64_t run_list_ino(struct run_list *t, struct run_entry *e, uint64_t ino);

/* The save that an inode number belongs to, with a reference; NULL: it is gone, or the number is the run's own. */
struct run_entry *run_list_of(struct run_list *t, uint64_t ino, uint64_t *inner_out);

#endif
