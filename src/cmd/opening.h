/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint that takes long to open: after 2 s a line on a terminal tells how many of its files were read. */
#ifndef ZF_CMD_OPENING_H
#define ZF_CMD_OPENING_H

#include <stdbool.h>

/* One line for the whole process: a caller inside of another's has none of its own. */
struct opening {
    bool mine;
};

/* many: several saves are opened at once, of which nobody knows yet how many files they have. */
struct opening opening_begin(bool many);
/* Takes the line away until the next look, so that something can be printed.  From any thread. */
void opening_clear(void);
/* Ends it and takes the line away.  May be called again. */
void opening_end(struct opening *o);
static inline void zf_auto_opening(struct opening *o)
{
    opening_end(o);
}

#endif
