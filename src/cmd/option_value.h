/* SPDX-License-Identifier: Apache-2.0 */
/* The values of options.  options.def has a row an option: name, type, field of struct opts, which
 * commands take it, what --help says.  By its row alone an option is set, checked, and reported in
 * mount.json; options.c is what finds the row. */
#ifndef CMD_OPTION_VALUE_H
#define CMD_OPTION_VALUE_H

#include <zf/base/auto.h>
#include <zf/base/limits.h>
#include <zf/base/vec.h>

struct opt_list {
    zf_vec(char *);
};

/* As given; NULL or empty = not given.  Numbers hold their default. */
struct opts {
    char *format, *tag, *lost, *changed, *strip_prefix, *side, *tp_rules, *fsname, *subtype,
        *xattrs, *io, *model_cache;
    char *cacert, *cache_dir, *local_cache; /* of addresses */
    struct opt_list rename, only, except, keep, limit, pass, show;
    uint32_t shown; /* show, as bits of enum zf_show */
    bool degraded, xdev, links, all_tags, nonempty, debug, verbose, io_uring;
    bool auto_unmount; /* the supervisor does it anyway */
    uint64_t shard_size, uid, gid, umask, max_threads, max_read, read_ahead, connections, cache_mem,
        cache_size;
    double entry_timeout, attr_timeout, timeout;
    struct zf_limits lim;
    uint64_t given; /* a bit a row of the table */
};

struct opts opts_default(void);
void opts_fini(struct opts *o);
static inline void zf_auto_opts(struct opts *o)
{
    opts_fini(o);
}

/* Was this word given, which goes to libfuse as it is? */
bool opts_passes(const struct opts *o, const char *word);

/* Calls fn with every option that was given, or else with every one as it is in force (those that were not given and
 * have no value are left out), "name=value" or "name", in the table's order. */
void opts_each(const struct opts *o, bool given, void (*fn)(void *ctx, const char *text),
               void *ctx);

/* As options.def explains them. */
enum option_kind { FLAG, TEXT, LIST, SIZE, SECONDS, COUNT, OCTAL, USER, GROUP, PASS, WORDS };
enum option_where { ANY, TREE, MOUNT }; /* in the order of enum cmd_takes */

struct option_row {
    const char *name;
    enum option_kind kind;
    size_t at; /* of the field in struct opts */
    enum option_where where;
    const char *meta, *help; /* meta: NULL when it takes no value; "a|b|c": only these */
};

enum {
    N_OPTION_ROWS = 0
#define OPT(name, kind, field, where, meta, help) +1
#include "options.def"
#undef OPT
};
extern const struct option_row option_rows[N_OPTION_ROWS];

/* Sets the field; value: NULL when there was no '='.
 * Errors: ZF_E_USAGE malformed, or given before with another value. */
bool option_set(struct opts *o, const struct option_row *r, const char *value,
                struct zf_err *err) ZF_CHECKED;

/* When all are set: what was not given becomes what the commands use, options that contradict each other
 * are refused, paths are made absolute. */
bool options_settle(struct opts *o, struct zf_err *err) ZF_CHECKED;

#endif
