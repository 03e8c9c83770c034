/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the options of all commands: one table, options.def, for -o lists and for --name=value
 * alike. */
#ifndef ZF_CMD_OPTIONS_H
#define ZF_CMD_OPTIONS_H

#include <stdio.h>

#include "cmd.h"
#include "option_value.h"

/* A flag of one command only. */
struct opt_flag {
    char letter;      /* or 0 */
    const char *name; /* long name, or NULL */
    bool *set;        /* a switch … */
    char **value;     /* … or one with a value (borrowed from argv) */
};

/* Reads argv[1 …] into *o (which must be fresh) and the command's own flags (ends with an all-zero
 * row); moves the operands to the end of argv and sets *operands to the first.  Returns -1 to go
 * on, or an exit code: --help was served, or usage was wrong and was reported. */
int opts_parse(struct opts *o, const struct cmd *self, const struct opt_flag *own, int argc,
               char **argv, int *operands);

/* Applies one comma-separated list; "\," is a comma inside a value.
 * Errors: ZF_E_USAGE unknown, contradictory, malformed. */
bool opts_list(struct opts *o, const char *list, bool mounting, struct zf_err *err) ZF_CHECKED;

/* The table's rows that a command takes. */
void opts_help(FILE *to, const struct cmd *self);

#endif
