/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs info as people read it: a line a question, no wider than the terminal. */
#ifndef ZF_CMD_INFO_PEOPLE_H
#define ZF_CMD_INFO_PEOPLE_H

#include <jansson.h>

#include "page.h"

/* Prints the document of zerofs info. */
void info_people(const struct page *p, const json_t *j);

#endif
