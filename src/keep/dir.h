/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of kept models, and whole files in it. */
#ifndef KEEP_DIR_H
#define KEEP_DIR_H

#include <zf/keep.h>

/* "0123…cdef.model" and its end. */
#define DIR_NAME 40

/* Its descriptor; make: with those above it.  -1: err. */
int dir_open(const char *path, bool make, struct zf_err *err);

/* All of a file, malloc'ed; *n_out its bytes.  It counts as used now.  Errors: ZF_E_NOENT;
 * ZF_E_USAGE it may be somebody else's; ZF_E_LIMIT more than `most`; ZF_E_IO. */
uint8_t *dir_read(int dir, const char *name, uint64_t most, uint64_t *n_out,
                  struct zf_err *err) ZF_CHECKED;

/* Bytes one behind the other as a file, whole or not at all. */
struct dir_part {
    const void *p;
    size_t n;
};
bool dir_write(int dir, const char *name, const struct dir_part *part, size_t n_parts,
               struct zf_err *err) ZF_CHECKED;

/* Removes those that were not used for longest until `most` bytes are left. */
void dir_trim(int dir, uint64_t most);

#endif
