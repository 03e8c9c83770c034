/* SPDX-License-Identifier: Apache-2.0 */
/* From what the user pointed at to the directory that holds one save. */
#ifndef FIND_LOCATE_H
#define FIND_LOCATE_H

#include <zf/find.h>

#include "match.h"

/* ---- newer ----------------------------------------------------------------------------------- */
/* Saves of a run that are newer than the one that is opened. */

enum { NEWER_NOTE = 256 };

/* Names saves newer than `name` (a path from st), in a sentence, or "": of its own series beside
 * it, finished or not, or among Megatron's non-persistent saves; and which one was being written. */
void newer_note(struct zf_store *st, const char *name, const struct zf_limits *lim,
                char note[NEWER_NOTE]);

/* The last save in st that was being written, by its name (borrowed from the listing), or NULL. */
const char *newer_unfinished(struct zf_store *st);

/* ---- loose ----------------------------------------------------------------------------------- */

/* Does m fit nothing but files of weights, with no manifest that says what belongs to them? */
bool loose_fits(const struct match *m);

/* Are these files a whole save all the same?  An index, boxes or the names of all ranks say so; of plain safetensors a
 * config.json beside them, as transformers' trainer leaves them beside checkpoint-N.  With torch.save files, which
 * converters leave beside saves of every kind, all saves have those names, too. */
bool loose_is_model(struct zf_store *st, const struct match *m, const struct zf_saves *s);

/* The saves in st that were finished, of the directories that are called as saves are, and the one that is
 * `named` as the latest, or NULL.  Errors: of the store; ZF_E_NOMEM. */
bool loose_saves(struct zf_store *st, const char *named, const struct zf_limits *lim,
                 struct zf_saves *out, struct zf_err *err) ZF_CHECKED;

/* Fills l->beside and l->saves: "the files in this directory are shown; checkpoint-500 next to them is a save …"; s is empty:
 * they stay as they are.  Errors: ZF_E_NOMEM. */
struct located;
bool loose_note_saves(const struct zf_saves *s, struct located *l, struct zf_err *err) ZF_CHECKED;

/* ---- promise --------------------------------------------------------------------------------- */

enum promise_state {
    PROMISE_NONE, /* nothing says which save is the latest */
    PROMISE_KEPT, /* a save is there, or something that leads to one */
    PROMISE_GONE, /* nothing has that name */
    PROMISE_BAD,  /* something that cannot be the save; `why` says what is wrong with it */
};

struct promise {
    enum promise_state state;
    char *name;   /* of the latest save, or NULL */
    bool is_file; /* a pointer file says so.  A directory that happens to be called latest promises
                   * nothing. */
    char why[160];
};

static inline void zf_auto_promise(struct promise *p)
{
    free(p->name);
}

/* Reads which save of st is the latest, and looks for it.
 * Errors: ZF_E_FORMAT a pointer file that names no directory; ZF_E_IO it cannot be read, or not
 * what it names. */
bool promise_find(struct zf_store *st, const struct zf_open_opts *o, struct promise *out,
                  struct zf_err *err) ZF_CHECKED;

/* Fills *err with what is wrong with the save that p names.  Returns false. */
bool promise_refuse(const struct promise *p, struct zf_store *st, const struct zf_limits *lim,
                    struct zf_err *err);

/* ---- whole ----------------------------------------------------------------------------------- */
/* The newest save of a run that is whole: -o tag=whole, zerofs newest. */

/* Opens the save that o says, with a note unless it is "". */
typedef struct zf_checkpoint *whole_open_fn(struct zf_store *st, const struct zf_open_opts *o,
                                            const char *note, struct zf_err *err);

/* From the newest save of st down, the first that opens strictly and lacks no file that another save of its series is made
 * of.  Reasons against newer ones become a note, and o->choice is told.
 * Errors: those of the newest; ZF_E_USAGE there is no save, or nothing says which is newer. */
struct zf_checkpoint *whole_open(struct zf_store *st, const struct zf_open_opts *o,
                                 whole_open_fn *one, struct zf_err *err) ZF_CHECKED;

/* ---- locate ---------------------------------------------------------------------------------- */
/* From what the user pointed at to the directory that holds one save. */

/* Where the checkpoint is, and how it was found. */
struct located {
    struct zf_store *dir;   /* of the save, or the run directory whose `latest` names it */
    struct zf_store *outer; /* the directory in which `dir` was found, or NULL: it was pointed at */
    struct zf_store *loose; /* the run directory whose files of weights may be meant, or NULL */
    char *path;             /* from what was pointed at to `dir`, or NULL */
    char *tag;              /* of the save, as -o tag takes it, or NULL: it was pointed at */
    char *one;              /* the file that a tracker names as the save, or NULL */
    char *saves;            /* those that `beside` is about, one a line, or NULL */
    char note[160];         /* why this save and no other, or "" */
    char newer[NEWER_NOTE]; /* which newer save there is, or "" */
    char beside[NEWER_NOTE]; /* what else there is that could have been meant, or "" */
    struct match match;      /* the family, and what it opens */
};

void located_fini(struct located *l);
static inline void zf_auto_located(struct located *l)
{
    located_fini(l);
}

/* Looks at st, then into run directories and those below.  out is the caller's to free, also after a
 * failure.
 * Errors: ZF_E_UNKNOWN nothing fits, or several do below: the sentence says what to point at;
 * ZF_E_UNSUPPORTED something is there that zerofs does not read; ZF_E_FORMAT what a pointer file
 * names is no save; ZF_E_USAGE no such tag. */
bool locate(struct zf_store *st, const struct zf_open_opts *o, struct located *out,
            struct zf_err *err) ZF_CHECKED;

#endif
