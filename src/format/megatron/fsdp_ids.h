/* SPDX-License-Identifier: Apache-2.0 */
/* torch_dcp keeps what an optimizer has of a parameter under the parameter's number.  Masters prove which
 * parameter that is. */
#ifndef FORMAT_MEGATRON_FSDP_IDS_H
#define FORMAT_MEGATRON_FSDP_IDS_H

#include "save.h"

/* Gives masters and states of the list the names of their parameters, all of them or none, with a note.
 * Without masters nothing is done.  Errors: of reading; ZF_E_NOMEM. */
bool mg_fsdp_ids(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

#endif
