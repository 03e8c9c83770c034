/* SPDX-License-Identifier: Apache-2.0 */
/* A mount describes itself in /.zerofs/mount.json.  There is no record outside of it that could be stale or
 * wrong.  The file may come from another user's mount, so it is not trusted: its size is limited, and it
 * only decides on messages and on exit code 0. */
#include "mounted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <zf/codec/json.h>
#include <zf/mountpoint.h>
#include <zf/overlay/index.h>

#include "open.h"

#define MAX_TEXT (16u << 20)

/* ---- the requested mount --------------------------------------------------------------------- */

static void mounted_add_option(void *ctx, const char *name, const char *value)
{
    zf_auto(mem) char *text = NULL;

    if (asprintf(&text, "%s%s%s", name, value ? "=" : "", value ? value : "") > 0)
        (void)json_array_append_new(ctx, zf_json_text(text));
}

static json_t *mounted_options_of(const struct opts *o, unsigned counts)
{
    json_t *list = json_array();

    if (list)
        opts_each(o, counts, mounted_add_option, list);
    return list;
}

/* The name of what a mount shows: "/data/run7", followed by the save in it unless the source is the save. */
static json_t *mounted_shown_name(const char *source, const char *tag)
{
    size_t n = strlen(source), t = strlen(tag);
    zf_auto(mem) char *text = NULL;

    if (!t || (n > t && source[n - t - 1] == '/' && strcmp(source + n - t, tag) == 0))
        return zf_json_text(source);
    return asprintf(&text, "%s/%s", source, tag) < 0 ? NULL : zf_json_text(text);
}

char *mounted_text(const struct mount_job *job, const char *tag, struct zf_err *err)
{
    return zf_index_dump(
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:I}", "schema", "zerofs.mount/1", "checkpoint",
                  zf_json_text(job->source), "shows", mounted_shown_name(job->source, tag),
                  "options", mounted_options_of(job->opts, OPTS_GIVEN), "in_force",
                  mounted_options_of(job->opts, OPTS_SHOWN), "since", (json_int_t)time(NULL)),
        NULL, err);
}

char *mounted_modes_text(const struct zf_fs_modes *m)
{
    struct zf_err ignored;

    return zf_index_dump(json_pack("{s:s, s:s, s:s, s:b, s:i, s:i, s:s}", "schema",
                                   "zerofs.modes/1", "io", m->direct ? "direct" : "cached", "why",
                                   m->why, "io_uring", m->io_uring, "read_ahead_kib",
                                   (int)m->read_ahead_kib, "read_ahead_wanted_kib",
                                   (int)m->read_ahead_wanted, "remedy", m->remedy),
                         NULL, &ignored);
}

/* ---- the existing mount ---------------------------------------------------------------------- */

/* Loads a JSON file of the mount.  NULL: with errno, which is 0 if the file was read but is not JSON. */
static json_t *mounted_load(const char *mountpoint, const char *name)
{
    zf_auto(mem) char *path = NULL, *text = malloc(MAX_TEXT);
    size_t n = 0;
    ssize_t got = 1;

    if (!text || asprintf(&path, "%s/.zerofs/%s", mountpoint, name) < 0) {
        errno = ENOMEM;
        return NULL;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    while (fd >= 0 && got > 0 && n < MAX_TEXT) {
        got = read(fd, text + n, MAX_TEXT - n);
        n += got > 0 ? (size_t)got : 0;
    }
    int sys = fd < 0 || got < 0 ? errno : 0;
    if (fd >= 0)
        (void)close(fd);
    json_t *j = fd >= 0 ? json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    errno = sys;
    return j;
}

/* The sum of member `key` over all objects of a list. */
static json_int_t mounted_sum(const json_t *list, const char *key)
{
    json_int_t sum = 0;
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        sum += json_integer_value(json_object_get(one, key));
    }
    return sum;
}

json_t *mounted_describe(const char *mountpoint)
{
    zf_auto(json) json_t *mount = mounted_load(mountpoint, "mount.json");
    zf_auto(json) json_t *stats = mount ? mounted_load(mountpoint, "stats.json") : NULL;
    zf_auto(json) json_t *modes = mount ? mounted_load(mountpoint, "modes.json") : NULL;
    json_t *checkpoint = json_object_get(mount, "checkpoint");
    json_t *shows = json_object_get(mount, "shows"), *since = json_object_get(mount, "since");
    const json_t *sources = json_object_get(stats, "sources");
    const json_t *hosts = json_object_get(stats, "hosts");

    if (!json_is_string(checkpoint) || !json_is_string(shows))
        return NULL;
    const json_int_t age =
        json_is_integer(since) ? (json_int_t)time(NULL) - json_integer_value(since) : -1;
    return json_pack(
        "{s:o, s:O, s:O, s:O*, s:o?, s:o?, s:o?, s:O*, s:O*}", "mountpoint",
        zf_json_text(mountpoint), "checkpoint", checkpoint, "shows", shows, "in_force",
        json_object_get(mount, "in_force"), "uptime", age >= 0 ? json_integer(age) : NULL, "bytes",
        sources ? json_integer(mounted_sum(sources, "bytes")) : NULL, "errors",
        sources ? json_integer(mounted_sum(sources, "errors") + mounted_sum(hosts, "errors"))
                : NULL,
        "io", json_object_get(modes, "io"), "remedy", json_object_get(modes, "remedy"));
}

static bool mounted_fail_foreign(const struct zf_mount *at, int sys, struct zf_err *err)
{
    if (sys == EACCES || sys == EPERM) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "another user has mounted something here (%s) and gives no access to others",
                       at->type);
    }
    return true;
}

/* The first option in `has` that `lacks` does not have, for a message. */
static const char *mounted_odd_one(json_t *has, json_t *lacks)
{
    size_t i, k;
    json_t *a, *b;

    json_array_foreach(has, i, a)
    {
        bool found = false;

        json_array_foreach(lacks, k, b)
        {
            found = found || json_equal(a, b);
        }
        if (!found && json_is_string(a))
            return json_string_value(a);
    }
    return NULL;
}

static void mounted_say_other(const struct mount_job *job, json_t *there, json_t *asked,
                              struct zf_err *err)
{
    const char *shows = json_string_value(json_object_get(there, "shows"));
    json_t *theirs = json_object_get(there, "in_force"), *ours = json_object_get(asked, "in_force");
    const char *plus = mounted_odd_one(ours, theirs), *minus = mounted_odd_one(theirs, ours);

    if (!json_equal(json_object_get(there, "checkpoint"), json_object_get(asked, "checkpoint"))) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                      "already shows another checkpoint, %.130s. Unmount it first: zerofs umount "
                      "%.80s",
                      shows, job->mountpoint);
    } else {
        (void)zf_fail(
            err, ZF_E_USAGE, ZF_OFF_NONE,
            "already shows %.100s, mounted %s%.40s%s%.40s. Unmount it first: zerofs umount "
            "%.60s",
            shows, minus ? "with " : "without ",
            minus  ? minus
            : plus ? plus
                   : "options",
            minus && plus ? " instead of " : "", minus && plus ? plus : "", job->mountpoint);
    }
}

/* True if the existing mount shows the requested save.  For a run directory this is its latest save, which may have
 * changed since: it is looked up as for a new mount.  A path to a save always means that save. */
static bool mounted_same_save(const struct mount_job *job, const char *shows, struct zf_err *err)
{
    struct zf_err why;

    if (job->opts->tag || job->opts->all_tags || job->opts->current ||
        strcmp(shows, job->source) == 0)
        return true;
    struct zf_checkpoint *c = open_checkpoint(job->source, job->opts, &why);
    json_t *now = c ? mounted_shown_name(job->source, c->tag) : NULL;
    const char *name = now ? json_string_value(now) : NULL;
    bool same = name && strcmp(name, shows) == 0;
    if (!same) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                      "still shows %.90s, not what is there now: %.90s. Unmount it first: zerofs "
                      "umount %.60s",
                      shows, name ? name : why.msg, job->mountpoint);
    }
    json_decref(now);
    zf_checkpoint_free(c);
    return same;
}

static enum mounted mounted_compare(const struct mount_job *job, json_t *there, struct zf_err *err)
{
    const char *shows = json_string_value(json_object_get(there, "shows"));
    zf_auto(mem) char *text = mounted_text(job, "", err);
    json_t *asked = text ? json_loads(text, 0, NULL) : NULL;
    enum mounted result = MOUNTED_OTHER;

    if (!shows || !asked) {
        json_decref(asked);
        return MOUNTED_NOTHING;
    }
    if (!json_equal(json_object_get(there, "checkpoint"), json_object_get(asked, "checkpoint")) ||
        !json_equal(json_object_get(there, "in_force"), json_object_get(asked, "in_force"))) {
        mounted_say_other(job, there, asked, err);
    } else if (mounted_same_save(job, shows, err)) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                      "%.80s already shows %.150s (zerofs umount %.80s)", job->mountpoint, shows,
                      job->mountpoint);
        result = MOUNTED_SAME;
    }
    json_decref(asked);
    return result;
}

enum mounted mounted_check(const struct mount_job *job, struct zf_err *err)
{
    struct zf_mount at;

    if (!zf_mount_at(job->mountpoint, &at) || !at.here || !at.fuse)
        return MOUNTED_NOTHING;
    json_t *there = mounted_load(job->mountpoint, "mount.json");
    if (!there)
        return mounted_fail_foreign(&at, errno, err) ? MOUNTED_NOTHING : MOUNTED_OTHER;
    zf_auto(mem) char *real = realpath(job->mountpoint, NULL);
    struct mount_job named = *job;
    named.mountpoint = real ? real : job->mountpoint;
    enum mounted result = mounted_compare(&named, there, err);
    json_decref(there);
    return result;
}

/* ---- one at a time --------------------------------------------------------------------------- */

int mounted_lock(const char *mountpoint)
{
    int fd = open(mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = -1;

    do {
        rc = fd >= 0 ? flock(fd, LOCK_EX) : -1;
    } while (rc != 0 && fd >= 0 && errno == EINTR);
    if (rc != 0 && fd >= 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* Unlocks explicitly: the processes of the mount have copies of the descriptor, so closing it is not enough. */
void mounted_unlock(int fd)
{
    if (fd >= 0) {
        (void)flock(fd, LOCK_UN);
        (void)close(fd);
    }
}
