/* SPDX-License-Identifier: Apache-2.0 */
/* The options of all commands, from -o lists and from the command line.  options.def has a row per option, which alone
 * decides how it is parsed and checked, its default, its --help and completion, and its part in digests. */
#ifndef ZF_CMD_OPTIONS_H
#define ZF_CMD_OPTIONS_H

#include <zf/base/auto.h>
#include <zf/base/limits.h>
#include <zf/base/vec.h>

#include "cmd.h"

struct opt_list {
    zf_vec(char *);
};

/* Positions of the words of lost=, changed= and color=; for io= and xattrs= see zf/fs.h. */
enum { LOST_EIO, LOST_OMIT, LOST_NAN };
enum { CHANGED_AUTO, CHANGED_STRICT };
enum { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

enum {
    N_OPTIONS = 0
#define OPT(name, kind, field, dflt, commands, counts, meta, help) +1
#define OWN(letter, name, kind, field, commands, meta, help) +1
#include "options.def"
#undef OPT
#undef OWN
};

/* The fields that options.def refers to.  Strings without a default are NULL until given. */
struct opts {
    char *format, *tag, *strip_prefix, *side, *recipe, *tp_rules, *fsname, *subtype, *model_cache,
        *cacert, *cache_dir, *local_cache, *rtol, *atol, *file, *check;
    struct opt_list rename, only, except, keep, limit, pass, show, options_a, options_b;
    bool degraded, xdev, links, all_tags, current, nonempty, debug, verbose, io_uring;
    bool all_copies;   /* record the locations of all replicas; not an option, set by verify */
    bool bare;         /* only open the files (zf_open_opts); likewise */
    bool auto_unmount; /* has no effect: the supervisor always does it */
    uint64_t lost, changed, io, xattrs, color;
    uint64_t shard_size, uid, gid, umask, max_threads, max_read, read_ahead, connections, cache_mem,
        cache_size;
    uint64_t entry_timeout, attr_timeout, timeout, poll; /* ns */
    bool foreground, lazy, longer, human, all, recursive, null, json, force, quiet, sha256,
        to_stdout, hex, tree, quick;
    uint64_t depth;
    uint64_t jobs; /* 0: not given */

    bool given[N_OPTIONS];
    bool by_mount8; /* the options come from mount(8), which adds "rw" unless "ro" is given */
    uint32_t shown; /* the value of show=, as bits of enum zf_show */
    struct zf_limits lim;
};

struct opts opts_default(void);
void opts_fini(struct opts *o);
static inline void zf_auto_opts(struct opts *o)
{
    opts_fini(o);
}

/* After all options: sets defaults, refuses contradictions, makes paths absolute.  opts_parse calls it. */
bool opts_finish(struct opts *o, struct zf_err *err) ZF_CHECKED;

/* True if this word, which is passed on to libfuse, was given. */
bool opts_passes(const struct opts *o, const char *word);

/* The number of threads: -j, or one per CPU. */
uint32_t opts_jobs(const struct opts *o);

/* What an option affects (see options.def); OPTS_GIVEN: that it was given. */
enum { OPTS_MODEL = 1, OPTS_BYTES = 2, OPTS_SHOWN = 4, OPTS_GIVEN = 8 };

/* Calls fn for every option that affects one of `counts`, with its value in force, in the order of the rows.
 * value: as a user would write it; NULL for a switch.  Those without a value, and the first of several words, are
 * left out. */
typedef void opts_fn(void *ctx, const char *name, const char *value);
void opts_each(const struct opts *o, unsigned counts, opts_fn *fn, void *ctx);

/* The SHA-256 of these options, and of size and times of files that they name.  Errors: ZF_E_NOMEM. */
bool opts_digest(const struct opts *o, unsigned counts, uint8_t out[32],
                 struct zf_err *err) ZF_CHECKED;

/* ---- the rows, for parse.c ---- */

/* Explained in options.def. */
enum option_kind {
    FLAG,
    TEXT,
    PATH,
    NAMED,
    LIST,
    WORDS,
    PASS,
    WORD,
    SIZE,
    SECONDS,
    COUNT,
    JOBS,
    OCTAL,
    USER,
    GROUP
};

extern const struct option_row {
    const char *name;
    char letter;
    bool own; /* a flag of its commands, not allowed in -o lists */
    enum option_kind kind;
    size_t at; /* offset of the field in struct opts */
    const char *dflt;
    unsigned commands, counts;
    const char *meta, *help;
} option_rows[N_OPTIONS];

/* True if the command takes -o lists. */
bool option_lists(const struct cmd *c);
/* True if the row is in the command's --help. */
bool option_listed(const struct cmd *c, const struct option_row *r);
/* True if the command accepts the option.  Every command that opens a checkpoint also accepts, and ignores, options
 * that only matter for a tree, so that the same list works for all. */
bool option_accepts(const struct cmd *c, const struct option_row *r);

/* Sets the field of an option; value: NULL if there was no '='.  Errors: ZF_E_USAGE malformed, or given before with
 * another value. */
bool option_give(struct opts *o, const struct option_row *r, const char *value,
                 struct zf_err *err) ZF_CHECKED;

#endif
