/* SPDX-License-Identifier: Apache-2.0 */
/* Adapters of PEFT in a full model's state: adapter/<name>/, with the names under which PEFT saves one. */
#ifndef ZF_ASSEMBLE_ADAPTER_H
#define ZF_ASSEMBLE_ADAPTER_H

#include <zf/model/build.h>

/* Shows those of the root, or below the prefix `dir`, in adapter/<name>/ of it, if there is a pair
 * lora_A, lora_B; and the adapter_config.json of st, the directory beside the save, or of <name>/ in it.
 * st may be NULL.  No prefix is set in b.  Errors: of the build and the store. */
bool zf_adapters_show(struct zf_build *b, const char *dir, struct zf_store *st,
                      struct zf_err *err) ZF_CHECKED;

#endif
