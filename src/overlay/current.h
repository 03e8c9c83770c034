/* SPDX-License-Identifier: Apache-2.0 */
/* -o current: a thread that shows the newest complete save of a run as the only save of a list.
 *
 * Every few seconds it examines the saves of the run, the newest first, as -o tag=whole does, but by fingerprints: the
 * save that is already shown ends the look; one that changed within the last seconds is still being written; one that
 * was incomplete is tried again after a change.  Only a new save is opened, in a separate pass, and shown if nothing in
 * it has changed since before that pass.
 *
 * If the shown save changes, but its files do not (one was added), no older save is shown: it is opened again when it
 * has settled.  If one of its files changed or is gone, it is no longer complete. */
#ifndef OVERLAY_CURRENT_H
#define OVERLAY_CURRENT_H

#include "run_list.h"

/* The name of the directory. */
#define CURRENT "current"

struct current;

/* Looks for the first time, and starts the thread.  Borrows t, an empty list, which it fills. */
struct current *current_new(struct run_list *t, struct zf_err *err) ZF_CHECKED;

/* Ends the thread.  NULL is fine. */
void current_free(struct current *c);

#endif
