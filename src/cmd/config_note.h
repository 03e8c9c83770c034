/* SPDX-License-Identifier: Apache-2.0 */
/* Whether config.json says of the weights what they are. */
#ifndef ZF_CMD_CONFIG_NOTE_H
#define ZF_CMD_CONFIG_NOTE_H

#include <zf/model/model.h>

/* Does config.json say of the weights what they are?  A sentence, malloc'ed, when it names another
 * floating type than most of them have; else NULL. */
char *config_note(const struct zf_checkpoint *c, const struct zf_limits *lim);

#endif
