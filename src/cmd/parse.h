/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a command line, and the rows of options.def for --help and for shells. */
#ifndef ZF_CMD_PARSE_H
#define ZF_CMD_PARSE_H

#include <stdio.h>

#include "options.h"

/* Reads argv[1 …] as words of the command c into *o (which must be fresh); moves the operands to the end of argv and sets
 * *operands to the first.  Returns -1 to go on, or an exit code: --help was served, or usage was wrong and
 * was reported. */
int opts_parse(struct opts *o, const struct cmd *c, int argc, char **argv, int *operands);

/* Applies one comma-separated list of the command c; "\," is a comma inside a value.
 * Errors: ZF_E_USAGE unknown, contradictory, malformed. */
bool opts_list(struct opts *o, const struct cmd *c, const char *list,
               struct zf_err *err) ZF_CHECKED;

/* The rows of a command, for --help. */
void opts_help(FILE *to, const struct cmd *c);

/* The same for shells: "--all\thelp" of a flag; "tag=\thelp\tmeta" of an option, as -o and --tag= have it. */
void opts_complete(FILE *to, const struct cmd *c);

#endif
