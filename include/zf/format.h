/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoint families.  One row of src/format/table.def each. */
#ifndef ZF_FORMAT_H
#define ZF_FORMAT_H

#include <zf/model/build.h>

enum zf_fit {
    ZF_FIT_NO,
    ZF_FIT_WEAK,  /* only optimizer or RNG files: a save in a directory below is preferred */
    ZF_FIT_NAMES, /* file names look right */
    ZF_FIT_PROOF, /* a magic or a manifest was read */
};
struct zf_probe {
    enum zf_fit fit;
    bool unfinished; /* a save whose writer did not come to its end: others beside it go first */
    char why[160];   /* shown by `info` and in the tie error */
};

/* What the user asked for. */
struct zf_open_opts {
    const struct zf_limits *lim;
    const char *format; /* -o format=NAME, or NULL */
    const char *tag;    /* -o tag=NAME, or NULL: a path, a step, or latest, newest, whole */
    const char *side;   /* -o side=DIR, or NULL */
    bool degraded;
    bool fill_lost; /* with degraded: zf_build_fill_lost */
};

struct zf_format {
    const char *name, *summary;
    const char *refines; /* wins over this format on a tie; or NULL */
    bool shards;         /* reads what a training run saved, never files a model is published as */
    bool one_file;       /* also reads the one file the user pointed at (zf_store_focus) */
    bool tags;           /* open() is given a run directory and finds the save in it by itself */
    /* Lists names and peeks at heads; never reads tensor bytes.  A damaged candidate is no error:
     * it fits or not.  Errors: only of the store. */
    bool (*probe)(struct zf_store *st, const struct zf_open_opts *o, struct zf_probe *out,
                  struct zf_err *err);
    /* Speaks the verbs of zf/model/build.h. */
    bool (*open)(struct zf_store *st, const struct zf_open_opts *o, struct zf_build *b,
                 struct zf_err *err);
};

/* Row i, or NULL past the end (for lists). */
const struct zf_format *zf_format_row(size_t i);

/* Finds the checkpoint at, in, or one level below st (run directories, tags), chooses the format,
 * opens and seals it.  Takes its own reference on st.
 * Errors: ZF_E_UNKNOWN nothing fits (the sentence says what to point at, if something near does);
 * ZF_E_FORMAT; ZF_E_USAGE unknown format or tag. */
struct zf_checkpoint *zf_open(struct zf_store *st, const struct zf_open_opts *o,
                              struct zf_err *err) ZF_CHECKED;

/* The saves of a run directory, in order of age, newest last, and which one `latest` names (n =
 * none). names: malloc'ed array of malloc'ed strings, freed with zf_tags_free. */
struct zf_tags {
    char **name;
    size_t n, latest;
    size_t weak; /* unfinished ones that were left out */
};
bool zf_tags_list(struct zf_store *st, const struct zf_limits *lim, struct zf_tags *out,
                  struct zf_err *err) ZF_CHECKED;
void zf_tags_free(struct zf_tags *t);

#endif
