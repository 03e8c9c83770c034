/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the command line, and prints the options of options.def for --help and for shells. */
#ifndef ZF_CMD_PARSE_H
#define ZF_CMD_PARSE_H

#include <stdio.h>

#include "options.h"

/* Parses argv[1 …] for the command c into *o (which must be new); moves the operands to the end of argv and sets
 * *operands to the first.  Returns -1 to go on, or an exit code: --help was printed, or a usage error was
 * reported. */
int opts_parse(struct opts *o, const struct cmd *c, int argc, char **argv, int *operands);

/* Applies one comma-separated list of the command c; "\," is a comma inside a value.
 * Errors: ZF_E_USAGE unknown, contradictory, malformed. */
bool opts_list(struct opts *o, const struct cmd *c, const char *list,
               struct zf_err *err) ZF_CHECKED;

/* Prints the options of a command, for --help. */
void opts_help(FILE *to, const struct cmd *c);

/* Does the same for shells: "--all\thelp" for a flag; "tag=\thelp\tmeta" for an option, used as -o tag= and --tag=. */
void opts_complete(FILE *to, const struct cmd *c);

#endif
