/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoint families: a folder of src/format and a row of src/find/table.def each. */
#ifndef ZF_FORMAT_H
#define ZF_FORMAT_H

#include <zf/assemble/layouts.h>
#include <zf/model/build.h>
#include <zf/source/recipe.h>

struct zf_format {
    const char *name, *summary;
    const char *refines; /* wins over this format on a tie; or NULL */
    bool shards;         /* reads what a training run saved, never files a model is published as */
    bool one_file;       /* also reads the one file the user pointed at (zf_save.file) */
    bool latest;         /* its saves lie in a run directory whose file `latest` names one of them:
                          * what is named there is asked about, not the run directory itself */
    /* Of sources that this family alone makes, or NULL. */
    const struct zf_source_kind *kind;
    /* Shows something of every file of weights and every save in the directory of a save: what else there is
     * of either is told to be left out. */
    bool whole;
    bool tp_rules; /* asks -o tp_rules how ranks are joined */
    /* Lists names and peeks at heads; never reads tensor bytes.  A damaged candidate is no error:
     * it fits or not.  Errors: only of the store. */
    bool (*probe)(const struct zf_save *save, const struct zf_open_opts *o, struct zf_probe *out,
                  struct zf_err *err);
    /* Speaks the verbs of zf/model/build.h.  Errors name files as seen from save->store. */
    bool (*open)(const struct zf_save *save, const struct zf_open_opts *o, struct zf_build *b,
                 struct zf_err *err);
};

#endif
