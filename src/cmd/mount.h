/* SPDX-License-Identifier: Apache-2.0 */
/* Mounting, for `zerofs mount` and for mount(8)'s helper. */
#ifndef ZF_CMD_MOUNT_H
#define ZF_CMD_MOUNT_H

#include "options.h"

/* `zerofs mount` with its words; mount(8)'s helper, which answers otherwise, learns whether the
 * mount was there already.  Returns an exit code; failures have been reported. */
int mount_command(const struct cmd *self, int argc, char **argv, bool *already_out);

#endif
