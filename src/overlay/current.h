/* SPDX-License-Identifier: Apache-2.0 */
/* -o current: a thread that keeps the one save of a list the newest that is whole.
 *
 * Every few seconds it goes through the saves of the run, the newest first, as -o tag=whole does, but by fingerprints:
 * one that is shown already ends the look; one in which something changed within the last seconds is being written;
 * one that was found not to be whole is asked again when something in it has changed.  Only what is new is opened, by a
 * look of its own, and shown when nothing in it has changed since before that look.
 *
 * Of the save that is shown, a change that leaves its files as they are (one was added) is no reason to show an older one:
 * it is opened again when it has settled.  One of which a file changed or is gone is no longer whole. */
#ifndef OVERLAY_CURRENT_H
#define OVERLAY_CURRENT_H

#include "run_list.h"

/* The name of the directory. */
#define CURRENT "current"

struct current;

/* Looks for the first time, and starts the thread.  Borrows t, the empty list that it fills and leaves to others. */
struct current *current_new(struct run_list *t, struct zf_err *err) ZF_CHECKED;

/* Ends the thread.  NULL is fine. */
void current_free(struct current *c);

#endif
