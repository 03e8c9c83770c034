/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs.index.json: the list of files of a directory on a server without listings.  `zerofs index DIR` writes it into the
 * served directory.
 *
 *   {"zerofs_index": 1, "files": [{"path": "global_step5/mp_rank_00_model_states.pt", "size": 4711,
 *    "mtime": "2026-11-22T19:10:00Z", "sha256": "…"}, …]}
 *
 * Paths are relative to the directory of the list; empty directories are not listed.  "mtime" and the optional "sha256" are
 * for humans and other programs: reads are only checked against the server's responses.  Unknown members are ignored; an
 * unknown version in "zerofs_index" is refused. */
#ifndef REMOTE_INDEX_FILE_H
#define REMOTE_INDEX_FILE_H

#include <zf/remote.h>

#include "entries.h"

#define INDEX_FILE_NAME ZF_REMOTE_INDEX
#define INDEX_FILE_VERSION 1

struct index_file {
    struct zf_arena *text;
    struct index_file_entry *at; /* sorted by path, byte by byte */
    size_t n;
};
struct index_file_entry {
    const char *path;
    uint64_t size;
};

/* Parses the list body[n].  Errors: ZF_E_FORMAT; ZF_E_UNSUPPORTED another version; ZF_E_LIMIT json_bytes, or more than
 * dir_entries files; ZF_E_NOMEM. */
bool index_file_read(const char *body, uint64_t n, const struct zf_limits *lim,
                     struct index_file *out, struct zf_err *err) ZF_CHECKED;
void index_file_fini(struct index_file *f);
static inline void zf_auto_index_file(struct index_file *f)
{
    index_file_fini(f);
}

/* Adds the entries of `dir` ("" = the directory of the list).  Errors: ZF_E_NOENT no such directory. */
bool index_file_list(const struct index_file *f, const char *dir, struct entries *out,
                     struct zf_err *err) ZF_CHECKED;

#endif
