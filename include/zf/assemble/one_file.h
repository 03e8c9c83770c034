/* SPDX-License-Identifier: Apache-2.0 */
/* Whether one file was pointed at, or the directory that it stands for. */
#ifndef ZF_ASSEMBLE_ONE_FILE_H
#define ZF_ASSEMBLE_ONE_FILE_H

#include <zf/source/store.h>

/* The file that the user pointed at and wants read by itself (borrowed), or NULL: the whole
 * directory is meant. */
const char *zf_one_file(const struct zf_store *st);

#endif
