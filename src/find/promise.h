/* SPDX-License-Identifier: Apache-2.0 */
/* Where the name of the latest save leads. */
#ifndef FIND_PROMISE_H
#define FIND_PROMISE_H

#include <zf/find.h>

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

#endif
