/* SPDX-License-Identifier: Apache-2.0 */
/* Mount options of other programs, which come along in fstab and from mount(8). */
#ifndef ZF_CMD_FOREIGN_H
#define ZF_CMD_FOREIGN_H

#include <stdbool.h>

/* Asks for nothing that a read-only view could do differently. */
bool foreign_ignored(const char *word);

/* Why a word that mount(8) knows cannot be followed, or NULL. */
const char *foreign_refused(const char *word);

#endif
