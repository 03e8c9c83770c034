/* SPDX-License-Identifier: Apache-2.0 */
/* How a checkpoint is to be opened: limits, and what to do about damage and missing ranks. */
#ifndef ZF_ASSEMBLE_OPEN_OPTS_H
#define ZF_ASSEMBLE_OPEN_OPTS_H

#include <stdbool.h>

#include <zf/source/store.h>

struct zf_build;

/* The search for the newest save that is whole; names are paths from the run, "" = the run is the save. */
struct zf_choice {
    /* Asked before a save is opened: false, with a reason, and it is passed over unopened.  NULL = true. */
    bool (*considers)(void *ctx, const char *name, struct zf_err *err);
    /* A save that opens and lacks nothing: false, with a reason, and it is passed over all the same.  NULL = true. */
    bool (*accepts)(void *ctx, const char *name, struct zf_err *err);
    /* Called with each save, the newest first: why it is passed over, or NULL for the one that is opened. */
    void (*judged)(void *ctx, const char *name, const struct zf_err *why);
    void *ctx;
    /* The only save that is considered, if it is the first to be asked about: its model may be kept; else NULL. */
    const char *first;
};

/* The user's options. */
struct zf_open_opts {
    const struct zf_limits *lim;
    const struct zf_opener *opener; /* of what else is named (side); NULL = zf_store_dir */
    const char *format;             /* -o format=NAME, or NULL */
    const char *tag;      /* -o tag=NAME, or NULL: a path, a step, or latest, newest, whole */
    const char *side;     /* -o side=DIR, or NULL */
    const char *tp_rules; /* -o tp_rules=FILE (zf/assemble/tp_rules.h), or NULL */
    bool degraded;
    bool fill_lost; /* with degraded: zf_build_fill_lost */
    bool copies;    /* zf_build_record_copies */
    /* NULL, or called with what is about to be sealed. */
    void (*sealing)(void *ctx, const struct zf_build *b, const char *format, const char *why);
    void *sealing_ctx;
    const struct zf_choice *choice; /* as tag=whole, and it is asked and told; or NULL */
};

#endif
