/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a save, and the other files in their directories, which a user may take for a part of it. */
#ifndef VERIFY_FILES_H
#define VERIFY_FILES_H

#include <zf/base/table.h>
#include <zf/model/model.h>

struct files_path {
    UT_hash_handle hh; /* key: the path within the store */
    bool beside;       /* opening the checkpoint did not open it */
};

struct files {
    struct files_path *paths, *dirs; /* dirs: directories that contain the files */
};

/* Lists the opened files and, unless the user named one file, all others in their directories.  Errors: ZF_E_NOMEM. */
bool files_init(struct files *f, struct zf_store *store, struct zf_err *err) ZF_CHECKED;
void files_fini(struct files *f);

#endif
