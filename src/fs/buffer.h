/* SPDX-License-Identifier: Apache-2.0 */
/* One reply buffer a thread, page-aligned, kept until the thread ends. */
#ifndef ZF_FS_BUFFER_H
#define ZF_FS_BUFFER_H

#include <stddef.h>

/* Gives this thread's buffer with room for at least n bytes, or NULL.  Its contents do not survive
 * the next call. */
void *buffer_get(size_t n);

#endif
