/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for what is read before it is put in place: a MiB at a time, kept by the thread that gives
 * it back until it ends, because fresh memory is cleared by the kernel.  Not on the stack, of which
 * a thread has 2 MiB where `ulimit -s` says unlimited. */
#ifndef MODEL_DESK_H
#define MODEL_DESK_H

#include <zf/base/auto.h>
#include <zf/base/err.h>

#define DESK_BYTES (1u << 20)

/* DESK_BYTES whose contents mean nothing; another for each that was not given back.  Errors: ZF_E_NOMEM. */
unsigned char *desk_take(struct zf_err *err) ZF_CHECKED;
/* Nulls the pointer; NULL inside is fine. */
void desk_give(unsigned char **desk);

static inline void zf_auto_desk(unsigned char **desk)
{
    desk_give(desk);
}

#endif
