/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoint formats fsdp_dtensor (Megatron-FSDP) and torch_dcp (torch's FSDP2): Megatron's state dict as
 * torch.distributed.checkpoint flattens it, without a manifest of Megatron's. */
#ifndef FORMAT_MEGATRON_FSDP_H
#define FORMAT_MEGATRON_FSDP_H

#include "save.h"

/* Does st's root look like one?  Reads the beginning of .metadata; `why` says what was seen. */
bool mg_fsdp_is(struct zf_store *st, char why[160]);

/* Reads it into the lists of s, settings and state/ included.
 * Errors: of the driver; ZF_E_FORMAT the iteration inside is not that of the folder. */
bool mg_fsdp(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

#endif
