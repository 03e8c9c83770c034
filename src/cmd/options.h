/* SPDX-License-Identifier: Apache-2.0 */
/* The options of all commands: one table, options.def, read from -o lists and from
 * --name=value alike. */
#ifndef ZF_CMD_OPTIONS_H
#define ZF_CMD_OPTIONS_H

#include <stdio.h>

#include <zf/base/auto.h>
#include <zf/base/limits.h>

#include "cmd.h"

struct opt_list {
    char **v;
    uint32_t n;
};

/* As given; NULL or empty = not given.  Numbers hold their default. */
struct opts {
    char *format, *tag, *lost, *strip_prefix, *side, *tp_rules, *fsname, *subtype, *xattrs, *io,
        *model_cache;
    char *cacert, *cache_dir, *local_cache; /* of addresses */
    struct opt_list rename, only, except, keep, limit, pass, show;
    uint32_t shown; /* show, as bits of enum zf_show */
    bool degraded, xdev, all_tags, nonempty, debug, verbose, io_uring;
    bool auto_unmount; /* the supervisor does it anyway */
    uint64_t shard_size, uid, gid, umask, max_threads, max_read, read_ahead, connections, cache_mem,
        cache_size;
    double entry_timeout, attr_timeout, timeout;
    struct zf_limits lim;
};

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

/* Was this word given, which goes to libfuse as it is? */
bool opts_passes(const struct opts *o, const char *word);

/* Calls fn with every option as it is in force, "name=value" or "name", in the table's order; those
 * that were not given and have no value are left out. */
void opts_each(const struct opts *o, void (*fn)(void *ctx, const char *text), void *ctx);

/* The table's rows that a command takes. */
void opts_help(FILE *to, const struct cmd *self);

struct opts opts_default(void);
void opts_fini(struct opts *o);
static inline void zf_auto_opts(struct opts *o)
{
    opts_fini(o);
}

#endif
