/* SPDX-License-Identifier: Apache-2.0 */
/* Writes zerofs.index.json of a directory, level by level.  Entries are listed by the store, which refuses links
 * out of the directory; a link to a directory above itself is skipped. */
#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/hex.h>
#include <zf/base/path.h>
#include <zf/base/utf8.h>
#include <zf/base/vec.h>
#include <zf/remote.h>

#include "index_file.h"

enum { INDEX_BLOCK = 1 << 20 };

struct index_dir {
    char *path;
    char *real;   /* path without links; inode numbers are not reliable on FUSE file systems */
    size_t above; /* index of the parent directory in the list */
};

struct index_make {
    struct zf_store *st;
    bool sha256;
    struct zf_out *out;
    uint64_t n, most;
    zf_vec(struct index_dir) dir; /* directories already listed, then those still to list */
};

/* ---- files ----------------------------------------------------------------------------------- */

static bool index_sha256(const struct index_make *m, const char *path, char hex[65],
                         struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = zf_store_open(m->st, path, err);
    zf_auto(mem) uint8_t *block = malloc(INDEX_BLOCK);
    struct sha256_ctx sum;
    uint8_t digest[SHA256_DIGEST_SIZE];

    if (!src || !block)
        return src && zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    sha256_init(&sum);
    for (uint64_t at = 0; at < src->size;) {
        size_t n = src->size - at < INDEX_BLOCK ? (size_t)(src->size - at) : INDEX_BLOCK;

        if (!zf_source_pread(src, block, n, at, err))
            return false;
        sha256_update(&sum, n, block);
        at += n;
    }
    sha256_digest(&sum, sizeof digest, digest);
    zf_hex(hex, digest, sizeof digest);
    return true;
}

static void index_time(struct zf_out *out, struct timespec t)
{
    char text[64];
    struct tm tm;

    if (gmtime_r(&t.tv_sec, &tm) && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm)) {
        zf_out_fmt(out, ", \"mtime\": \"%s", text);
        (void)snprintf(text, sizeof text, ".%09ldZ\"", (long)t.tv_nsec);
        zf_out_str(out, text);
    }
}

static bool index_file(struct index_make *m, const char *path, const struct zf_entry *e,
                       struct zf_err *err)
{
    char hex[65];

    if (m->n >= m->most) {
        return zf_fail_limit(err, ZF_LIMIT_dir_entries, ZF_OFF_NONE,
                             "it has more than %" PRIu64 " files (limit dir_entries)", m->most);
    }
    if (!zf_utf8_valid(path, strlen(path))) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "the name \"%.200s\" is not UTF-8, which JSON cannot hold", path);
    }
    if (m->sha256 && !index_sha256(m, path, hex, err))
        return false;
    zf_out_str(m->out, m->n++ ? ",\n  {\"path\": " : "\n  {\"path\": ");
    zf_out_json(m->out, path, strlen(path));
    zf_out_fmt(m->out, ", \"size\": %" PRIu64, e->id.size);
    index_time(m->out, e->id.mtime);
    if (m->sha256)
        zf_out_fmt(m->out, ", \"sha256\": \"%s\"", hex);
    zf_out_str(m->out, "}");
    return zf_out_ok(m->out, err);
}

/* ---- directories ----------------------------------------------------------------------------- */

/* True if `real` is the directory of index `at` or one of its parents. */
static bool index_is_above(const struct index_make *m, const char *real, size_t at)
{
    for (;; at = m->dir.at[at].above) {
        if (strcmp(m->dir.at[at].real, real) == 0)
            return true;
        if (at == 0)
            return false;
    }
}

/* Adds a directory to the list, unless it is a link to one of its parents.  path "": the root. */
static bool index_dir_add(struct index_make *m, const char *path, size_t above, struct zf_err *err)
{
    zf_auto(mem) char *full = zf_relpath_join(zf_store_name(m->st), path, err);
    zf_auto(mem) char *real = full ? realpath(full, NULL) : NULL;

    if (!real) {
        (void)(full && zf_fail_sys(err, "look at the directory"));
        return full && *path ? zf_err_in(err, "%s", path) : false;
    }
    if (m->dir.n && index_is_above(m, real, above))
        return true;
    zf_auto(mem) char *own = strdup(path);
    struct index_dir *d = own ? zf_vec_push(&m->dir, err) : NULL;
    if (!d)
        return !own && zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    *d = (struct index_dir){.path = own, .real = real, .above = above};
    own = real = NULL;
    return true;
}

/* True for the index itself and its temporary file. */
static bool index_is_ours(const char *dir, const char *name)
{
    return !*dir && (strcmp(name, INDEX_FILE_NAME) == 0 ||
                     strncmp(name, "." INDEX_FILE_NAME, sizeof INDEX_FILE_NAME) == 0);
}

static bool index_list(struct index_make *m, size_t at, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_rely(m->st, m->dir.at[at].path, err) ||
        !zf_store_list(m->st, m->dir.at[at].path, &e, &n, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        const char *dir = m->dir.at[at].path;
        zf_auto(mem) char *path = zf_relpath_join(dir, e[i].name, err);

        if (!path || (e[i].kind == ZF_ENTRY_DIR && !index_dir_add(m, path, at, err)) ||
            (e[i].kind == ZF_ENTRY_FILE && !index_is_ours(dir, e[i].name) &&
             !index_file(m, path, &e[i], err)))
            return false;
    }
    return true;
}

bool zf_remote_index(struct zf_store *st, bool sha256, uint64_t most, struct zf_out *out,
                     struct zf_err *err)
{
    struct index_make m = {.st = st, .sha256 = sha256, .out = out, .most = most};
    bool ok = index_dir_add(&m, "", 0, err);

    zf_out_str(out, "{\"zerofs_index\": 1, \"files\": [");
    for (size_t at = 0; ok && at < m.dir.n; at++)
        ok = index_list(&m, at, err);
    zf_out_str(out, m.n ? "\n]}\n" : "]}\n");
    for (size_t i = 0; i < m.dir.n; i++) {
        free(m.dir.at[i].path);
        free(m.dir.at[i].real);
    }
    zf_vec_fini(&m.dir);
    return ok && zf_out_ok(out, err) && zf_store_unchanged(st, err);
}
