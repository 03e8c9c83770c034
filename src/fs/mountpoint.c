/* SPDX-License-Identifier: Apache-2.0 */
/* statx(2) with AT_STATX_DONT_SYNC gives the ID of the mount at a path without a request to its server; mountinfo has the
 * rest. */
#include <zf/mountpoint.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <zf/base/fd.h>

extern char **environ;

/* ---- the table ------------------------------------------------------------------------------- */

/* Decodes in place: mountinfo writes blanks and backslashes as \ooo (octal). */
static void mountpoint_unescape(char *s)
{
    char *to = s;

    for (; *s; s++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] && s[3]) {
            *to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

/* Parses "36 35 98:0 /root /mnt/point rw,noatime master:1 - fuse.zerofs source options" (proc(5)).  Modifies line; the
 * strings of *out point into it. */
static bool mountpoint_parse_row(char *line, struct zf_mount_row *out)
{
    unsigned major, minor;
    struct zf_mount *m = &out->mount;
    int at = 0, to = 0;

    if (sscanf(line, "%" SCNu64 " %" SCNu64 " %u:%u %*s %n", &m->id, &m->parent, &major, &minor,
               &at) != 4 ||
        at == 0)
        return false;
    char *point = line + at, *type = strstr(point, " - ");
    if (!type || sscanf(type, " - %63s", m->type) != 1 || sscanf(type, " - %*s %n", &to) != 0 ||
        to == 0)
        return false;
    char *source = type + to;
    point[strcspn(point, " ")] = '\0';
    source[strcspn(source, " \n")] = '\0';
    mountpoint_unescape(point);
    mountpoint_unescape(source);
    out->point = point;
    out->source = source;
    m->dev = makedev(major, minor);
    m->fuse = strcmp(m->type, "fuse") == 0 || strncmp(m->type, "fuse.", 5) == 0;
    return true;
}

void zf_mount_each(bool (*fn)(void *ctx, const struct zf_mount_row *row), void *ctx)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t cap = 0;
    bool more = true;

    while (f && more && getline(&line, &cap, f) > 0) {
        struct zf_mount_row row = {.point = NULL};

        more = !mountpoint_parse_row(line, &row) || fn(ctx, &row);
    }
    if (f)
        (void)fclose(f);
    free(line);
}

struct mount_search {
    uint64_t id;
    const char *path; /* compared with the mount point to set out->here; NULL = do not compare */
    struct zf_mount *out;
    bool found;
};

static bool mountpoint_mount_is_it(void *ctx, const struct zf_mount_row *row)
{
    struct mount_search *s = ctx;

    if (row->mount.id == s->id) {
        *s->out = row->mount;
        s->out->here = s->path && strcmp(row->point, s->path) == 0;
        s->found = true;
    }
    return !s->found;
}

static bool mountpoint_find_row(uint64_t id, const char *path, struct zf_mount *out)
{
    struct mount_search s = {.id = id, .path = path, .out = out};

    zf_mount_each(mountpoint_mount_is_it, &s);
    return s.found;
}

/* Finds the mount that contains `path` (relative to fd), or for "" that of fd itself. */
static bool mountpoint_mount_of(int fd, const char *path, int flags, struct zf_mount *out)
{
    struct statx st;

    *out = (struct zf_mount){.id = 0};
    if (statx(fd, path, AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC | flags, 0, &st) !=
            0 ||
        !(st.stx_mask & STATX_MNT_ID))
        return false;
    bool found = mountpoint_find_row(st.stx_mnt_id, NULL, out);
    out->id = st.stx_mnt_id;
    out->here = st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
    return found;
}

bool zf_mount_at(const char *path, struct zf_mount *out)
{
    return mountpoint_mount_of(AT_FDCWD, path, 0, out);
}

bool zf_mount_on(const char *path, struct zf_mount *out)
{
    return mountpoint_mount_of(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, out) && out->here;
}

/* ---- taking one off -------------------------------------------------------------------------- */

bool zf_mount_fusermount(const char *path, bool lazy, struct zf_err *err)
{
    char *words[] = {(char *)"fusermount3", (char *)(lazy ? "-uz" : "-u"), (char *)"--",
                     (char *)path, NULL};
    pid_t pid;
    int status;

    errno = posix_spawnp(&pid, words[0], NULL, NULL, words, environ);
    if (errno != 0)
        return zf_fail_sys(err, "run fusermount3");
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return zf_fail_sys(err, "wait for fusermount3");
    return (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
           zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "fusermount3 could not unmount it");
}

/* Unmounts lazily through `name`, a path or descriptor link that leads to `path`; fusermount3 needs `path` itself. */
static bool mountpoint_umount(const char *name, int flags, const char *path, struct zf_err *err)
{
    if (umount2(name, MNT_DETACH | flags) == 0)
        return true;
    return errno == EPERM ? zf_mount_fusermount(path, true, err) : zf_fail_sys(err, "unmount it");
}

/* Unmounts through the descriptor, so that a mount made at the path in the meantime is not affected. */
static bool mountpoint_detach_fd(int fd, const char *path, struct zf_err *err)
{
    char name[48];

    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return mountpoint_umount(name, 0, path, err);
}

enum zf_detached zf_mount_detach(const char *path, const struct zf_mount *m,
                                 bool (*ours)(void *ctx, int fd), void *ctx, struct zf_err *err)
{
    struct zf_mount at, row;
    /* O_PATH alone: O_DIRECTORY or an open for reading would trigger an automount. */
    zf_auto(fd) int fd = open(path, O_PATH | O_CLOEXEC);

    if (fd >= 0 && mountpoint_mount_of(fd, "", 0, &at) && zf_mount_same(&at, m)) {
        return ours && !ours(ctx, fd)                ? ZF_DETACH_GONE
               : mountpoint_detach_fd(fd, path, err) ? ZF_DETACH_DONE
                                                     : ZF_DETACH_FAILED;
    }
    return mountpoint_find_row(m->id, path, &row) && zf_mount_same(&row, m) && row.here
               ? ZF_DETACH_COVERED
               : ZF_DETACH_GONE;
}

bool zf_mount_detach_any(const char *path, struct zf_err *err)
{
    return mountpoint_umount(path, UMOUNT_NOFOLLOW, path, err);
}

/* ---- dead or alive --------------------------------------------------------------------------- */

#define PROBE_MS 1000

/* fork(), retried for PROBE_MS: the user's process limit may be reached for a moment. */
static pid_t mountpoint_fork(void)
{
    pid_t pid = fork();

    for (int ms = 0; pid < 0 && ms < PROBE_MS; ms++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        pid = fork();
    }
    return pid;
}

bool zf_mount_dead(int fd)
{
    pid_t pid = mountpoint_fork();
    int status = 0;
    pid_t got = 0;

    if (pid == 0) {
        struct statfs st;

        _exit(fstatfs(fd, &st) != 0 && (errno == ENOTCONN || errno == ECONNABORTED) ? 1 : 0);
    }
    for (int ms = 0; pid > 0 && ms < PROBE_MS; ms++) {
        got = waitpid(pid, &status, WNOHANG);
        if (got != 0)
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (pid > 0 && got == 0) {
        /* Not waited for: it may be blocked in the kernel until the mount answers. */
        (void)kill(pid, SIGKILL);
    }
    return got == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}
