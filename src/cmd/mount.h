/* SPDX-License-Identifier: Apache-2.0 */
/* Mounting, for `zerofs mount` and for mount(8)'s helper. */
#ifndef ZF_CMD_MOUNT_H
#define ZF_CMD_MOUNT_H

#include "options.h"

struct mount_job {
    const char *source,
        *mountpoint; /* as given; made absolute before the process leaves its directory */
    const struct opts *opts;
};

/* Mounts and, unless in the foreground, returns when the mount answers.  Returns an exit code;
 * failures have been told. */
int mount_run(const struct mount_job *job, bool foreground);

#endif
