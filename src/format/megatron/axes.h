/* SPDX-License-Identifier: Apache-2.0 */
/* The axes that Megatron puts in front of the tensors of equal layers, and of a layer's experts. */
#ifndef FORMAT_MEGATRON_AXES_H
#define FORMAT_MEGATRON_AXES_H

#include "save.h"

/* Makes parameters of the stored weights and optimizer states: one a layer and expert where the axes
 * are found, else one a tensor.  Sets `sliced` of each tensor.
 * Errors: ZF_E_LIMIT tensors; ZF_E_NOMEM. */
bool mg_axes_slice(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

#endif
