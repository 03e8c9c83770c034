/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether a checkpoint can be mounted at the given place. */
#include "mount.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <zf/mountpoint.h>

/* True if dir is empty; else false with *err, also if it cannot be read. */
static bool mountable_is_empty(const char *dir, struct zf_err *err)
{
    DIR *d = opendir(dir);
    bool empty = true;

    if (!d)
        return zf_fail_sys(err, "read the mount point");
    for (struct dirent *e; empty && (e = readdir(d));)
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    (void)closedir(d);
    return empty || zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                            "the mount point is not empty; -o nonempty mounts over what is there");
}

static bool mountable_directory(const char *mnt, struct zf_err *err)
{
    struct stat st;

    if (stat(mnt, &st) != 0) {
        return errno == ENOENT
                   ? zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "the mount point does not exist")
                   : zf_fail_sys(err, "use the mount point");
    }
    return S_ISDIR(st.st_mode) ||
           zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "the mount point is not a directory");
}

/* Checks that mnt is usable, and no dead mount.  The kernel may answer stat from its cache, so only an open is
 * certain: it fails with ECONNABORTED while the daemon ends, and with ENOTCONN afterwards. */
static bool mountable_point(const char *mnt, const struct opts *o, struct zf_err *err)
{
    if (mountable_directory(mnt, err) && (o->nonempty || mountable_is_empty(mnt, err)))
        return true;
    if (err->sys == ENOTCONN || err->sys == ECONNABORTED) {
        (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                      "a dead mount is in the way. Unmount it first: zerofs umount %s", mnt);
    }
    return zf_err_in(err, "%s", mnt);
}

bool mountable_outside(const struct mount_job *job, struct zf_err *err)
{
    size_t n = strlen(job->mountpoint);

    if (strncmp(job->source, job->mountpoint, n) == 0 &&
        (job->source[n] == '/' || job->source[n] == '\0')) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "the mount would hide the checkpoint %.200s",
                      job->source);
        return zf_err_in(err, "%s", job->mountpoint);
    }
    n = strlen(job->source);
    if (job->opts->xdev && strncmp(job->mountpoint, job->source, n) == 0 &&
        job->mountpoint[n] == '/') {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                      "with -o xdev the mount point cannot be inside the checkpoint, because the "
                      "mount would contain itself");
        return zf_err_in(err, "%s", job->mountpoint);
    }
    return true;
}

bool mountable_automount(const char *mountpoint)
{
    struct zf_mount at;

    return zf_mount_at(mountpoint, &at) && at.here && strcmp(at.type, "autofs") == 0;
}

bool mountable_free(const struct mount_job *job, struct zf_err *err)
{
    return mountable_automount(job->mountpoint) ? mountable_directory(job->mountpoint, err)
                                                : mountable_point(job->mountpoint, job->opts, err);
}
