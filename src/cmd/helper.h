/* SPDX-License-Identifier: Apache-2.0 */
/* Mounting on behalf of mount(8). */
#ifndef ZF_CMD_HELPER_H
#define ZF_CMD_HELPER_H

/* mount.zerofs and mount.fuse.zerofs: SRC MNT [-sfnv] [-N ns] [-t type] [-o list].  Returns mount(8)'s exit codes. */
int helper_run(int argc, char **argv);

/* Run by mount.fuse3 for the type "fuse.zerofs": `zerofs SRC MNT [-o list]`, as `zerofs mount`. */
int helper_bare(int argc, char **argv);

#endif
