/* SPDX-License-Identifier: Apache-2.0 */
/* The files in a run directory that name its latest save. */
#ifndef FIND_LATEST_H
#define FIND_LATEST_H

#include <zf/source/store.h>

/* The DeepSpeed pointer file in st: "latest", else "latest_universal", else NULL. */
const char *latest_file(struct zf_store *st);

/* The save that a pointer file names: one line, one relative path (DeepSpeed tags may hold '/');
 * malloc'ed.  Errors: ZF_E_FORMAT anything else; ZF_E_NOENT. */
bool latest_read(struct zf_store *st, const char *file, char **name_out,
                 struct zf_err *err) ZF_CHECKED;

/* The save that a pointer file of any kind, or a link `latest`, names; malloc'ed.  It may not exist.
 * *name_out = NULL: nothing names the latest save. */
bool latest_save(struct zf_store *st, char **name_out, struct zf_err *err) ZF_CHECKED;

/* Is this the name of a link that trainers make to the latest or another save? */
bool latest_is_link(const char *name);

/* The save that such a link, or a file in its place, names (malloc'ed), for -o tag=LOWEST_VAL; *name_out = NULL: it
 * is neither. */
bool latest_named(struct zf_store *st, const char *name, char **name_out,
                  struct zf_err *err) ZF_CHECKED;

/* The file that is the latest save, if a tracker names a file (malloc'ed); *name_out = NULL: none does. */
bool latest_one_file(struct zf_store *st, char **name_out, struct zf_err *err) ZF_CHECKED;

/* Is this file a text tracker, although it has the name of a torch.save file? */
bool latest_means_directory(struct zf_store *st, const char *name);

#endif
