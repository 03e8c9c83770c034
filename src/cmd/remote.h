/* SPDX-License-Identifier: Apache-2.0 */
/* The process's only client for addresses, so that its limits of connections and memory hold for the whole process. */
#ifndef ZF_CMD_REMOTE_H
#define ZF_CMD_REMOTE_H

#include <zf/remote.h>

#include "options.h"

/* The client, made at the first call with these options, which must live until remote_end; NULL: ZF_E_NOMEM. */
struct zf_remote *remote_of(const struct opts *o, struct zf_err *err) ZF_CHECKED;

/* Frees the client; no store may be left. */
void remote_end(void);

#endif
