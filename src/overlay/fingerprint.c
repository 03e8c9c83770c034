/* SPDX-License-Identifier: Apache-2.0 */
/* A hash of all entries below a directory.  It is the sum of the entries' hashes, so the order of
 * directories does not matter.  A file that is written twice within one clock tick keeps its times, so
 * a change within the last seconds makes the fingerprint unsettled. */
#include "save.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zf/base/clock.h>
#include <zf/base/hash.h>
#include <zf/base/path.h>
#include <zf/base/vec.h>

/* More than the clock resolution of any common file system (FAT: 2 s). */
#define SETTLED_SECONDS 3
#define SETTLED_NS (4 * 1000000000ll)
/* At most this many directories are examined; more do not count. */
#define FINGERPRINT_DIRS 4096

struct fingerprint_walk {
    struct zf_store *st;
    zf_vec(char *) dir; /* directories still to list */
    size_t seen;
    int64_t newest; /* seconds */
    uint64_t hash, same;
};

/* Queues path, which it owns and which may be NULL; without memory the path is left out. */
static void fingerprint_push(struct fingerprint_walk *w, char *path)
{
    struct zf_err err;

    if (!path || w->seen == FINGERPRINT_DIRS || !zf_vec_room(&w->dir, 1, &err)) {
        free(path);
        return;
    }
    w->dir.at[w->dir.n++] = path;
    w->seen++;
}

static void fingerprint_entry(struct fingerprint_walk *w, const char *dir, const struct zf_entry *e)
{
    uint64_t h = zf_hash_str(zf_hash_str(e->kind, dir), e->name);
    struct zf_err ignored;

    struct zf_identity bytes = e->id;

    bytes.ctime = (struct timespec){.tv_sec = 0};
    w->hash += zf_hash(h, &e->id, sizeof e->id);
    w->same += zf_hash(h, &bytes, sizeof bytes);
    w->newest = e->id.mtime.tv_sec > w->newest ? e->id.mtime.tv_sec : w->newest;
    w->newest = e->id.ctime.tv_sec > w->newest ? e->id.ctime.tv_sec : w->newest;
    if (e->kind == ZF_ENTRY_DIR)
        fingerprint_push(w, zf_relpath_join(dir, e->name, &ignored));
}

struct fingerprint fingerprint_take(const struct zf_opener *opener, const char *root,
                                    const char *dir, const struct zf_limits *lim)
{
    struct fingerprint_walk w = {.newest = 0};
    struct zf_err err = {.code = ZF_OK};

    w.st = zf_store_by(opener, root, lim, &err);
    fingerprint_push(&w, strdup(dir));
    while (w.st && w.dir.n) {
        zf_auto(mem) char *path = w.dir.at[--w.dir.n];
        const struct zf_entry *e;
        size_t n;

        if (!zf_store_list(w.st, path, &e, &n, &err)) {
            w.hash += zf_hash_str(err.code, path);
            w.same += zf_hash_str(err.code, path);
            continue;
        }
        for (size_t i = 0; i < n; i++)
            fingerprint_entry(&w, path, &e[i]);
    }
    const bool far = w.st && zf_store_is_far(w.st);
    zf_store_unref(&w.st);
    while (w.dir.n)
        free(w.dir.at[--w.dir.n]);
    zf_vec_fini(&w.dir);
    return (struct fingerprint){.hash = w.hash,
                                .same = w.same,
                                .since = zf_clock_ns(),
                                .far = far,
                                .settled = time(NULL) - w.newest > SETTLED_SECONDS};
}

void fingerprint_look(struct fingerprint *f, const struct zf_opener *opener, const char *root,
                      const char *dir, const struct zf_limits *lim)
{
    const int64_t began = zf_clock_ns();
    struct fingerprint now = fingerprint_take(opener, root, dir, lim);

    if (f->since && f->hash == now.hash) {
        now.settled = now.settled || began - f->since >= SETTLED_NS;
        now.since = f->since;
    }
    *f = now;
}
