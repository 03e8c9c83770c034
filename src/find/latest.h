/* SPDX-License-Identifier: Apache-2.0 */
/* The save that a run directory names as its latest, by a pointer file, a link, or a directory called `latest`. */
#ifndef FIND_LATEST_H
#define FIND_LATEST_H

#include <zf/source/store.h>

enum latest_state {
    LATEST_UNREAD, /* nobody needed to know */
    LATEST_NONE,   /* nothing names the latest save */
    LATEST_BROKEN, /* a pointer file names no directory; `why` */
    LATEST_GONE,   /* there is nothing of that name */
    LATEST_BAD,    /* the name is not a save; `why` */
    LATEST_FOUND,  /* `save` is the directory */
};

struct latest {
    enum latest_state state;
    char *name; /* path of the save from the run directory; NULL: unread, none, or broken */
    struct zf_store *save;
    struct zf_err why;
};

void latest_fini(struct latest *l);
static inline void zf_auto_latest(struct latest *l)
{
    latest_fini(l);
}

/* Reads which save of st is the latest, unless *l has it already, and opens its directory.  deepspeed: only that
 * trainer's files count.  *l is zero or filled; free it with latest_fini, even after a failure.
 * Errors: ZF_E_IO, ZF_E_NOMEM a pointer file cannot be read. */
bool latest_find(struct zf_store *st, bool deepspeed, struct latest *l,
                 struct zf_err *err) ZF_CHECKED;

/* Opens the save `name` of st as if something named it as the latest.  Errors: ZF_E_NOMEM. */
bool latest_open(struct zf_store *st, const char *name, struct latest *l,
                 struct zf_err *err) ZF_CHECKED;

/* Only the name, malloc'ed; what has it may not exist.  *name_out = NULL: nothing names the latest save.
 * Errors: ZF_E_FORMAT a file that names no directory; it cannot be read. */
bool latest_name(struct zf_store *st, char **name_out, struct zf_err *err) ZF_CHECKED;

/* Is this the name of a link that trainers make to the latest or another save? */
bool latest_is_link(const char *name);

/* The save that a word names for -o tag= (malloc'ed): `latest`, or such a link or a file in its place (LOWEST_VAL).
 * *name_out = NULL: none. */
bool latest_word(struct zf_store *st, const char *word, char **name_out,
                 struct zf_err *err) ZF_CHECKED;

/* The file that is the latest save, if a tracker names a file (malloc'ed); *name_out = NULL: none does. */
bool latest_one_file(struct zf_store *st, char **name_out, struct zf_err *err) ZF_CHECKED;

/* Is this file a text tracker, although it has the name of a torch.save file? */
bool latest_means_directory(struct zf_store *st, const char *name);

#endif
