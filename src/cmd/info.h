/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of `zerofs info` beside the checkpoint's content. */
#ifndef ZF_CMD_INFO_H
#define ZF_CMD_INFO_H

#include <stdio.h>

#include <zf/model/model.h>

/* Does config.json say of the weights what they are?  A sentence, malloc'ed, when it names another
 * floating type than most of them have; else NULL. */
char *config_note(const struct zf_checkpoint *c, const struct zf_limits *lim);

/* One line for each damaged tensor: name, bytes, file and reason. */
void lost_print(FILE *to, const struct zf_checkpoint *c);

#endif
