/* SPDX-License-Identifier: Apache-2.0 */
/* The Hugging Face hub's answers as JSON.  Source: huggingface_hub 0.36, hf_api.py (list_repo_tree, RepoFile,
 * RepoFolder, repo_info, ModelInfo) and utils/_pagination.py. */
#ifndef REMOTE_HUB_JSON_H
#define REMOTE_HUB_JSON_H

#include <zf/base/out.h>

#include "entries.h"

/* Adds what a page of GET /api/models/OWNER/NAME/tree/COMMIT/DIR says: an array of {"type": "file" |
 * "directory", "path" from the repository's root, "size", "lfs": {"size"}}.  The size of
 * a file in LFS is that of the file.  Errors: ZF_E_FORMAT; ZF_E_LIMIT; ZF_E_NOMEM. */
bool hub_tree_page(const char *body, uint64_t n, const char *dir, const struct zf_limits *lim,
                   struct entries *out, struct zf_err *err) ZF_CHECKED;

/* The commit ("sha", 40 hex digits) in the answer of GET /api/models/OWNER/NAME/revision/REV. */
bool hub_commit(const char *body, uint64_t n, const struct zf_limits *lim, char commit[41],
                struct zf_err *err) ZF_CHECKED;

/* The URL of rel="next" in a Link header; false: this is the last page. */
bool hub_next(const char *link, struct zf_out *url);

#endif
