/* SPDX-License-Identifier: Apache-2.0 */
/* PEFT adapters inside a full model's state dict, shown as adapter/<name>/ with the names under which PEFT saves
 * them. */
#ifndef ZF_ASSEMBLE_ADAPTER_H
#define ZF_ASSEMBLE_ADAPTER_H

#include <zf/model/build.h>

/* True for the parameters that the optimizer trains.  is = NULL: not known. */
struct zf_trained {
    bool (*is)(const void *ctx, const char *name, size_t n);
    const void *ctx;
};

/* Shows those of the root, or below the prefix `dir`, in adapter/<name>/ of it: the tensors of the methods that are
 * known, modules trained as a whole, and what else is trained, under its own name; and the adapter_config.json of st,
 * the directory beside the save, or of <name>/ in it.  st may be NULL.  An adapter that would be incomplete, or that
 * the settings contradict, is not shown, with a note that says why.  No prefix is set in b.  Errors: of the build and
 * the store. */
bool zf_adapters_show(struct zf_build *b, const char *dir, struct zf_store *st,
                      struct zf_trained trained, struct zf_err *err) ZF_CHECKED;

#endif
