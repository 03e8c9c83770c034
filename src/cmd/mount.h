/* SPDX-License-Identifier: Apache-2.0 */
/* Mounting, for `zerofs mount` and for mount(8)'s helper. */
#ifndef ZF_CMD_MOUNT_H
#define ZF_CMD_MOUNT_H

#include "options.h"

/* Mounts and, unless in the foreground, returns when the mount answers.  *already_out: it was there already, which mount(8)
 * takes for a failure.  Returns an exit code; failures have been reported. */
int mount_at(const struct opts *o, const char *source, const char *mountpoint, bool *already_out);

#endif
