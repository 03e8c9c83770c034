/* SPDX-License-Identifier: Apache-2.0 */
/* One file, one struct a command; the only room that prints. */
#ifndef ZF_CMD_CMD_H
#define ZF_CMD_CMD_H

#include <zf/base/err.h>

/* Exit codes, as in zerofs(1).  Failures of the checkpoint come from zf_err_exit. */
enum { EXIT_OK = 0, EXIT_NEGATIVE = 1, EXIT_USAGE = 2, EXIT_IO = 5 };

/* Which rows of options.def a command takes: those for opening a checkpoint, for showing its tree
 * as well, for mounting that as well, or none. */
enum cmd_takes { TAKES_CKPT, TAKES_TREE, TAKES_MOUNT, TAKES_NONE };

struct cmd {
    const char *name, *args, *summary;
    enum cmd_takes takes;
    /* Printed by --help below the summary: the command's own flags. */
    const char *flags;
    int (*run)(const struct cmd *self, int argc, char **argv);
};

#define CMD(name) extern const struct cmd cmd_##name;
#include "table.def"
#undef CMD

const struct cmd *cmd_find(const char *name);

/* Prints "zerofs: <sentence>" on stderr and returns the exit code of the failure. */
int cmd_fail(const struct zf_err *err);

/* Prints "zerofs <command>: <sentence>" and a hint at --help; returns EXIT_USAGE. */
int cmd_usage(const struct cmd *self, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* --help of one command, on stdout. */
int cmd_help(const struct cmd *self);

/* --version, on stdout. */
int cmd_version(void);

/* Run by mount(8): `mount.zerofs SRC MNT [-sfnv] [-o …]`; answers with mount(8)'s exit codes. */
int cmd_mount_helper(int argc, char **argv);

/* Run by mount.fuse3 for the type "fuse.zerofs": `zerofs SRC MNT [-o …]`, as `zerofs mount`. */
int cmd_mount_bare(int argc, char **argv);

/* Flushes stdout; a failure to write is reported, and makes the exit code EXIT_IO. */
int cmd_finish(int code);

#endif
