/* SPDX-License-Identifier: Apache-2.0 */
/* May a checkpoint be mounted where the user wants it? */
#ifndef CMD_MOUNTABLE_H
#define CMD_MOUNTABLE_H

#include "mounted.h"

/* Is it a directory, and empty unless -o nonempty was given?  An automount point is not looked into:
 * that would wait for the mount that we were started to make.
 * Errors: ZF_E_USAGE no, ZF_E_IO a dead mount is in the way, or it cannot be looked at. */
bool mountable_free(const struct mount_job *job, struct zf_err *err) ZF_CHECKED;

/* Are checkpoint and mount point, both resolved, apart?  Files that are opened later would else be
 * looked for in the mount itself.  Errors: ZF_E_USAGE. */
bool mountable_outside(const struct mount_job *job, struct zf_err *err) ZF_CHECKED;

/* Is it a mount point of autofs? */
bool mountable_automount(const char *mountpoint);

#endif
