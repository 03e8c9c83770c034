/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a checkpoint's root holds what PEFT calls an adapter. */
#ifndef VIEW_ADAPTER_H
#define VIEW_ADAPTER_H

#include <zf/model/model.h>

/* PEFT looks for adapter_model.safetensors beside adapter_config.json, in one piece.  A full model
 * may have an adapter_config.json beside it too, so the weights' own file must say it.
 * Source: peft utils/constants.py, utils/save_and_load.py (0.4 ... 0.21). */
bool adapter_is(const struct zf_checkpoint *c);

#endif
