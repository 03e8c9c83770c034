/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands, their messages and exit codes.  Only src/cmd prints. */
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
    /* word[n]: the operands, least ≤ n ≤ most; reports failures itself and returns an exit code. */
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

/* The command of this name; NULL: there is none. */
const struct cmd *cmd_find(const char *name);

/* Prints "zerofs: <sentence>" on stderr and returns the exit code of the failure. */
int cmd_fail(const struct zf_err *err);

/* Like cmd_fail, for a path in the tree: returns EXIT_NEGATIVE if it does not exist. */
int cmd_negative(const struct zf_err *err);

/* Prints "zerofs <command>: <sentence>" and a hint at --help; returns EXIT_USAGE. */
int cmd_usage(const struct cmd *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prints the text of --version on stdout. */
int cmd_version(void);

/* Flushes stdout and returns `code`; reports a failure to write and then returns EXIT_IO. */
int cmd_finish(int code);

#endif
