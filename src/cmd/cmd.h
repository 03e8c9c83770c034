/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands, and how they answer; the only room that prints. */
#ifndef ZF_CMD_CMD_H
#define ZF_CMD_CMD_H

#include <limits.h>

#include <zf/base/err.h>

/* Exit codes, as in zerofs(1).  Failures of the checkpoint come from zf_err_exit. */
enum { EXIT_OK = 0, EXIT_NEGATIVE = 1, EXIT_USAGE = 2, EXIT_DAMAGED = 4, EXIT_IO = 5 };

struct opts;

struct cmd {
    const char *name;
    int least, most; /* operands */
    const char *needs, *args, *summary;
    /* word[n]: the operands, least to most of them; returns an exit code, failures have been reported. */
    int (*run)(const struct opts *o, int n, char **word);
};

enum {
#define CMD(id, function, name, least, most, needs, args, summary) CMD_##id,
#include "table.def"
#undef CMD
    N_COMMANDS
};
#define CMD(id, function, name, least, most, needs, args, summary)                                 \
    int cmd_##function(const struct opts *o, int n, char **word);
#include "table.def"
#undef CMD

extern const struct cmd cmd_table[N_COMMANDS];

/* NULL: no command is called so. */
const struct cmd *cmd_find(const char *name);

/* Prints "zerofs: <sentence>" on stderr and returns the exit code of the failure. */
int cmd_fail(const struct zf_err *err);

/* The same where a path in the tree was asked for: that it is not there is a negative answer. */
int cmd_negative(const struct zf_err *err);

/* Prints "zerofs <command>: <sentence>" and a hint at --help; returns EXIT_USAGE. */
int cmd_usage(const struct cmd *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* --version, on stdout. */
int cmd_version(void);

/* Flushes stdout; a failure to write is reported, and makes the exit code EXIT_IO. */
int cmd_finish(int code);

#endif
