/* SPDX-License-Identifier: Apache-2.0 */
/* The process's one client for addresses: what it may use of connections and memory is used once. */
#ifndef ZF_CMD_REMOTE_H
#define ZF_CMD_REMOTE_H

#include <zf/remote.h>

#include "options.h"

/* Made at the first question, as the options say, which must live until remote_end; NULL: ZF_E_NOMEM. */
struct zf_remote *remote_of(const struct opts *o, struct zf_err *err) ZF_CHECKED;

/* Ends it, when no store is left. */
void remote_end(void);

#endif
