/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the directory of one save from the path that the user gave. */
#ifndef FIND_LOCATE_H
#define FIND_LOCATE_H

#include <zf/find.h>

#include "match.h"

/* ---- newer ----------------------------------------------------------------------------------- */
/* Saves of a run that are newer than the one that is opened. */

enum { NEWER_NOTE = 256 };

/* Writes a sentence about saves newer than `name` (a path from st), or "": those of its own series,
 * finished or not, and Megatron's non-persistent saves; and which save was being written. */
void newer_note(struct zf_store *st, const char *name, const struct zf_limits *lim,
                char note[NEWER_NOTE]);

/* The last save in st that was being written, recognized by its name (borrowed from the listing), or NULL. */
const char *newer_unfinished(struct zf_store *st);

/* ---- loose ----------------------------------------------------------------------------------- */

/* Did only weight files match, without a manifest that says which files belong together? */
bool loose_fits(const struct match *m);

/* Are these files a complete model nevertheless?  Yes for an index, boxes or the names of all ranks; for plain
 * safetensors with a config.json, as transformers' trainer writes them next to checkpoint-N; for torch.save files,
 * which converters leave next to saves of any format, only if all saves are called checkpoint-N, too. */
bool loose_is_model(struct zf_store *st, const struct match *m, const struct zf_saves *s);

/* Lists the finished saves in st among the directories with names of saves, and `named`, the latest save, unless it is
 * NULL.  Errors: of the store; ZF_E_NOMEM. */
bool loose_saves(struct zf_store *st, const char *named, const struct zf_limits *lim,
                 struct zf_saves *out, struct zf_err *err) ZF_CHECKED;

/* Fills l->beside: "the files in this directory are shown; checkpoint-500 next to them is a save …", and l->saves
 * unless s is empty.  Errors: ZF_E_NOMEM. */
struct located;
bool loose_note_saves(const struct zf_saves *s, struct located *l, struct zf_err *err) ZF_CHECKED;

/* ---- whole ----------------------------------------------------------------------------------- */
/* The newest complete save of a run: -o tag=whole, zerofs newest. */

/* Opens the save that o selects, with a note unless it is "". */
typedef struct zf_checkpoint *whole_open_fn(struct zf_store *st, const struct zf_open_opts *o,
                                            const char *note, struct zf_err *err);

/* Opens the newest save of st that opens without degraded mode and lacks no file that other saves of its series have.
 * The reasons against newer ones become a note, and are passed to o->choice.
 * Errors: those of the newest; ZF_E_USAGE there is no save, or nothing says which is newer. */
struct zf_checkpoint *whole_open(struct zf_store *st, const struct zf_open_opts *o,
                                 whole_open_fn *one, struct zf_err *err) ZF_CHECKED;

/* ---- locate ---------------------------------------------------------------------------------- */
/* Finds the directory of one save from the path that the user gave. */

/* Where the checkpoint is, and how it was found. */
struct located {
    struct zf_store *dir; /* of the save, or the run directory whose `latest` names it */
    struct zf_store
        *outer; /* the directory in which `dir` was found, or NULL: the user gave `dir` */
    struct zf_store *loose; /* the run directory whose weight files may be meant, or NULL */
    char *path;             /* path of `dir` from what the user gave, or NULL */
    char *tag;      /* the value of -o tag for the save, or NULL: the user gave its directory */
    char *one;      /* the file that a tracker names as the save, or NULL */
    char *saves;    /* the saves that `beside` mentions, one per line, or NULL */
    char note[160]; /* why this save was chosen, or "" */
    char newer[NEWER_NOTE];  /* which newer saves exist, or "" */
    char beside[NEWER_NOTE]; /* what else could have been meant, or "" */
    struct match match;      /* the family, and what it opens */
};

void located_fini(struct located *l);
static inline void zf_auto_located(struct located *l)
{
    located_fini(l);
}

/* Searches st, then run directories and their subdirectories.  The caller must free *out, even after a
 * failure.
 * Errors: ZF_E_UNKNOWN nothing fits, or several saves do: the message says which path to give;
 * ZF_E_UNSUPPORTED a format that zerofs does not read; ZF_E_FORMAT a pointer file names something that
 * is not a save; ZF_E_USAGE no such tag. */
bool locate(struct zf_store *st, const struct zf_open_opts *o, struct located *out,
            struct zf_err *err) ZF_CHECKED;

#endif
