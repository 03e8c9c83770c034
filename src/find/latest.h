/* SPDX-License-Identifier: Apache-2.0 */
/* The files in a run directory that name its latest save. */
#ifndef FIND_LATEST_H
#define FIND_LATEST_H

#include <zf/source/store.h>

/* The pointer file of DeepSpeed's kind in st: "latest", else "latest_universal", else NULL. */
const char *latest_file(struct zf_store *st);

/* The save that a pointer file names: one line, one relative path (DeepSpeed tags may hold '/');
 * malloc'ed.  Errors: ZF_E_FORMAT anything else; ZF_E_NOENT. */
bool latest_read(struct zf_store *st, const char *file, char **name_out,
                 struct zf_err *err) ZF_CHECKED;

/* The save that a pointer file of any kind, or a link called latest, names; malloc'ed.  It need not
 * be there.  *name_out = NULL when nothing says which is the latest. */
bool latest_save(struct zf_store *st, char **name_out, struct zf_err *err) ZF_CHECKED;

/* Is this the name of a link to a save, the latest or another, that trainers leave beside their saves? */
bool latest_is_link(const char *name);

/* The save that the file `name`, of that kind, names (malloc'ed), for -o tag=LOWEST_VAL; *name_out = NULL: it is
 * no such file. */
bool latest_named(struct zf_store *st, const char *name, char **name_out,
                  struct zf_err *err) ZF_CHECKED;

/* The one file that is the latest save, where a tracker names a file (malloc'ed); *name_out = NULL: none does. */
bool latest_one_file(struct zf_store *st, char **name_out, struct zf_err *err) ZF_CHECKED;

/* A tracker that is text under the name of a torch.save file. */
bool latest_means_directory(struct zf_store *st, const char *name);

#endif
