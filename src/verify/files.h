/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a save, and those beside them, of which somebody may think that they belong to it. */
#ifndef VERIFY_FILES_H
#define VERIFY_FILES_H

#include <zf/base/table.h>
#include <zf/model/model.h>

struct files_path {
    UT_hash_handle hh; /* by path, as the store has it */
    bool beside;       /* opening did not look at it */
};

struct files {
    struct files_path *paths, *dirs; /* of directories the paths of files are in */
};

/* Those that were opened, and, unless the user named one file, all in their directories.  Errors: ZF_E_NOMEM. */
bool files_init(struct files *f, struct zf_store *store, struct zf_err *err) ZF_CHECKED;
void files_fini(struct files *f);

#endif
