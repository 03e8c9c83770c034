/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoint families: each has a folder in src/format and a row in src/find/table.def. */
#ifndef ZF_FORMAT_H
#define ZF_FORMAT_H

#include <zf/assemble/layouts.h>
#include <zf/model/build.h>
#include <zf/source/recipe.h>

struct zf_format {
    const char *name, *summary;
    const char *refines; /* wins over this format on a tie; or NULL */
    bool shards;         /* reads what a training run saved, never files a model is published as */
    bool one_file;       /* also reads a single file that the user named (zf_save.file) */
    bool latest;         /* its saves lie in a run directory whose file `latest` names one of them:
                          * that save is probed, not the run directory itself */
    /* The kind of sources that only this family makes, or NULL. */
    const struct zf_source_kind *kind;
    /* It shows something of every weights file and every save in a save's directory; any other one is noted as left
     * out. */
    bool whole;
    bool tp_rules; /* uses -o tp_rules to join ranks */
    /* Lists names and reads file headers; never reads tensor bytes.  A damaged candidate is no error: it fits or not.
     * Errors: only those of the store. */
    bool (*probe)(const struct zf_save *save, const struct zf_open_opts *o, struct zf_probe *out,
                  struct zf_err *err);
    /* Adds the save to b with the calls of zf/model/build.h.  Errors have paths relative to save->store. */
    bool (*open)(const struct zf_save *save, const struct zf_open_opts *o, struct zf_build *b,
                 struct zf_err *err);
};

#endif
