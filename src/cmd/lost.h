/* SPDX-License-Identifier: Apache-2.0 */
/* What info says about lost bytes, tensor by tensor. */
#ifndef CMD_LOST_H
#define CMD_LOST_H

#include <stdio.h>

#include <zf/model/model.h>

/* One line for each damaged tensor: name, bytes, file and reason. */
void lost_print(FILE *to, const struct zf_checkpoint *c);

#endif
