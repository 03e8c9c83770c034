/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of opening a checkpoint: after 2 s a line on the terminal shows how many of its files were read. */
#ifndef ZF_CMD_OPENING_H
#define ZF_CMD_OPENING_H

#include <stdbool.h>

/* There is one line per process: nested calls have none of their own. */
struct opening {
    bool mine;
};

/* many: several saves are opened at once, so the total number of files is unknown. */
struct opening opening_begin(bool many);
/* Clears the line until its next update, so that a message can be printed.  Callable from any thread. */
void opening_clear(void);
/* Ends it and clears the line.  May be called again. */
void opening_end(struct opening *o);
static inline void zf_auto_opening(struct opening *o)
{
    opening_end(o);
}

#endif
