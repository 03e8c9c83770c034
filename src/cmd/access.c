/* SPDX-License-Identifier: Apache-2.0 */
/* A class of users (group, other) may read a source if the mode bits of the file and of all directories
 * above it allow it.  The mount has its own owner and group, which may differ from the source's: a user
 * who is "group" or "other" for the mount may be "group", "other" or neither for the source, so a bit
 * counts only if every class such a user may be in has it.  The mount's owner keeps all bits: that
 * user, or root on the user's behalf, has just read the source.
 *
 * A file with an access control list counts as closed: the list may grant or deny anything, and its
 * mask replaces the group bits. */
#include "access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <zf/base/auto.h>

#define FOR_GROUP 0050u
#define FOR_OTHER 0005u

/* The mount's classes of users to which the file grants `bit` (4 read, 1 search). */
static mode_t access_given_to(const struct access *a, const char *path, const struct stat *st,
                              unsigned bit)
{
    bool group = st->st_mode & bit << 3, other = st->st_mode & bit;

    if (getxattr(path, "system.posix_acl_access", NULL, 0) > 0)
        return 0;
    if (st->st_gid == a->gid)
        return (group ? FOR_GROUP : 0) | (other ? FOR_OTHER : 0);
    return group && other ? FOR_GROUP | FOR_OTHER : 0;
}

static void access_withhold(struct access *a, mode_t bits, const char *path, mode_t mode)
{
    if (bits && !a->first) {
        a->first = strdup(path);
        a->its_mode = mode & 07777;
    }
    a->withheld |= bits;
}

static void access_look_at(struct access *a, const char *path)
{
    struct stat st;
    mode_t all = FOR_GROUP | FOR_OTHER;

    if (stat(path, &st) != 0) {
        access_withhold(a, all, path, 0);
    } else {
        access_withhold(a, all & ~access_given_to(a, path, &st, S_ISDIR(st.st_mode) ? 1 : 4), path,
                        st.st_mode);
    }
}

/* Checks `dir` and all directories above it; `dir` is changed meanwhile and restored. */
static void access_look_above(struct access *a, char *dir)
{
    if (a->last_dir && strcmp(a->last_dir, dir) == 0)
        return;
    free(a->last_dir);
    a->last_dir = strdup(dir);
    for (char *slash = dir; slash; slash = strchr(slash + 1, '/')) {
        char cut = slash[1];

        slash[1] = '\0'; /* "/", "/data/", … */
        access_look_at(a, dir);
        slash[1] = cut;
    }
    access_look_at(a, dir);
}

void access_add(struct access *a, const char *path)
{
    zf_auto(mem) char *real = realpath(path, NULL);
    char *slash = real ? strrchr(real, '/') : NULL;

    if (!slash) {
        access_withhold(a, FOR_GROUP | FOR_OTHER, path, 0);
        return;
    }
    access_look_at(a, real);
    *slash = '\0';
    access_look_above(a, slash == real ? strcpy(real, "/") : real);
}

struct access_below {
    struct access *a;
    const char *dir;
    int n; /* length of dir */
};

static void access_add_file(void *ctx, const struct zf_file_stats *s)
{
    const struct access_below *e = ctx;
    zf_auto(mem) char *path = NULL;

    if (asprintf(&path, "%.*s/%s", e->n, e->dir, s->path) < 0)
        path = NULL;
    access_add(e->a, path ? path : "");
}

void access_add_checkpoint(struct access *a, const struct zf_checkpoint *c, const char *source)
{
    struct access_below e = {.a = a, .dir = source, .n = (int)strlen(source)};
    struct stat st;

    if (stat(source, &st) == 0 && !S_ISDIR(st.st_mode))
        e.n = (int)(strrchr(source, '/') ? strrchr(source, '/') - source : 0);
    zf_store_stats(c->store, access_add_file, &e);
}

void access_fini(struct access *a)
{
    free(a->first);
    free(a->last_dir);
}
