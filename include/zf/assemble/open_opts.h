/* SPDX-License-Identifier: Apache-2.0 */
/* How to open a checkpoint: limits, and what to do about damage and missing ranks. */
#ifndef ZF_ASSEMBLE_OPEN_OPTS_H
#define ZF_ASSEMBLE_OPEN_OPTS_H

#include <stdbool.h>

#include <zf/source/store.h>

struct zf_build;

/* Callbacks of the search for the newest complete save; names are paths relative to the run, "" = the run itself. */
struct zf_choice {
    /* Called before a save is opened: false, with a reason, skips it unopened.  NULL = true. */
    bool (*considers)(void *ctx, const char *name, struct zf_err *err);
    /* Called for a save that was opened and is complete: false, with a reason, still skips it.  NULL = true. */
    bool (*accepts)(void *ctx, const char *name, struct zf_err *err);
    /* Called for each save, the newest first: why it is skipped, or NULL for the one that is used. */
    void (*judged)(void *ctx, const char *name, const struct zf_err *why);
    void *ctx;
    /* The save that will be opened, if no other one is met before it, so that its cached model can be used; else
     * NULL. */
    const char *first;
};

/* The user's options. */
struct zf_open_opts {
    const struct zf_limits *lim;
    const struct zf_opener *opener; /* opens `side`; NULL = zf_store_dir */
    const char *format;             /* -o format=NAME, or NULL */
    const char *tag;      /* -o tag=NAME, or NULL: a path, a step, or latest, newest, whole */
    const char *side;     /* -o side=DIR, or NULL */
    const char *tp_rules; /* -o tp_rules=FILE (zf/assemble/tp_rules.h), or NULL */
    bool degraded;
    bool fill_lost; /* with degraded: zf_build_fill_lost */
    bool copies;    /* zf_build_record_copies */
    bool
        bare; /* only opens the files of the save: its format cannot be read.  The checkpoint has no tensors */
    /* NULL, or called with the build that is about to be sealed. */
    void (*sealing)(void *ctx, const struct zf_build *b, const char *format, const char *why);
    void *sealing_ctx;
    const struct zf_choice *choice; /* opens as tag=whole does, with these callbacks; or NULL */
};

#endif
