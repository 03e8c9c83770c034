/* SPDX-License-Identifier: Apache-2.0 */
/* libfuse could mount too, but it does not report why mounting failed, and at its end it unmounts whatever is at the mount
 * point by then.
 *
 * Without the right to open the device or to mount we run fusermount3.  It inherits one end of a socket, finds its number
 * in _FUSE_COMMFD, mounts, and sends the open device through the socket.  In unprivileged pods the fusermount3 on PATH is
 * not the setuid program but a client of a daemon outside the pod. */
#include "attach.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zf/base/auto.h>

extern char **environ;

static bool attach_has_option(const struct zf_fs_opts *o, const char *name)
{
    for (uint32_t i = 0; i < o->n_fuse_opt; i++)
        if (strcmp(o->fuse_opt[i], name) == 0)
            return true;
    return false;
}

/* The kernel has only allow_other; allow_root is allow_other with libfuse refusing users other than root. */
static bool attach_lets_others_in(const struct zf_fs_opts *o)
{
    return attach_has_option(o, "allow_other") || attach_has_option(o, "allow_root");
}

/* ---- by ourselves ---------------------------------------------------------------------------- */

/* Mounts read-only, without executables and device files; the kernel checks permissions, since we do not. */
static bool attach_mount_here(const struct zf_fs_opts *o, int fd)
{
    char type[128], data[256];
    unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
    int n = snprintf(
        data, sizeof data, "fd=%d,rootmode=40000,user_id=%u,group_id=%u,default_permissions%s", fd,
        (unsigned)getuid(), (unsigned)getgid(), attach_lets_others_in(o) ? ",allow_other" : "");

    if (o->max_read)
        (void)snprintf(data + n, sizeof data - (size_t)n, ",max_read=%u", o->max_read);
    if ((size_t)snprintf(type, sizeof type, "fuse.%s", o->subtype) >= sizeof type) {
        errno = ENAMETOOLONG;
        return false;
    }
    return mount(o->fsname, o->mountpoint, type, flags, data) == 0;
}

/* ---- by fusermount3 -------------------------------------------------------------------------- */

struct helper {
    char said
        [160]; /* first line of its stderr, without the program's name; or why it could not be run */
    bool missing; /* no fusermount3 in PATH */
};

static void attach_helper_options(FILE *f, const struct zf_fs_opts *o)
{
    const char *const texts[] = {"fsname", o->fsname, "subtype", o->subtype};

    (void)fputs("ro,nosuid,nodev,noexec,default_permissions", f);
    if (attach_lets_others_in(o))
        (void)fputs(",allow_other", f);
    if (o->max_read)
        (void)fprintf(f, ",max_read=%u", o->max_read);
    for (size_t i = 0; i < 4; i += 2) {
        (void)fprintf(f, ",%s=", texts[i]);
        for (const char *p = texts[i + 1]; *p; p++)
            (void)fprintf(f, *p == ',' || *p == '\\' ? "\\%c" : "%c", *p);
    }
}

static char *attach_helper_list(const struct zf_fs_opts *o)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    if (!f)
        return NULL;
    attach_helper_options(f, o);
    return fclose(f) == 0 ? text : (free(text), NULL);
}

/* A copy of the environment with _FUSE_COMMFD set.  The caller frees the array but not its strings. */
static char **attach_helper_environment(char *commfd)
{
    size_t n = 0, to = 0;

    while (environ[n])
        n++;
    char **env = calloc(n + 2, sizeof *env);
    for (size_t i = 0; env && i < n; i++)
        if (strncmp(environ[i], "_FUSE_COMMFD=", 13) != 0)
            env[to++] = environ[i];
    if (env)
        env[to] = commfd;
    return env;
}

/* Starts fusermount3, which inherits `sock` and writes its stderr to `say`.  Returns 0 or an errno. */
static int attach_helper_start(const struct zf_fs_opts *o, int sock, int say, pid_t *pid_out)
{
    char commfd[32];
    zf_auto(mem) char *list = attach_helper_list(o);
    zf_auto(mem) char **env = attach_helper_environment(commfd);
    char *words[] = {(char *)"fusermount3", (char *)"-o",          list,
                     (char *)"--",          (char *)o->mountpoint, NULL};
    posix_spawn_file_actions_t actions;

    (void)snprintf(commfd, sizeof commfd, "_FUSE_COMMFD=%d", sock);
    if (!list || !env || posix_spawn_file_actions_init(&actions) != 0)
        return ENOMEM;
    int rc = posix_spawn_file_actions_adddup2(&actions, say, STDERR_FILENO);
    rc = rc ? rc : posix_spawnp(pid_out, words[0], &actions, NULL, words, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* The descriptor that the helper sends along with one byte, or -1 if it ends without sending one. */
static int attach_receive_fd(int sock)
{
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof control.space};
    ssize_t n;
    int fd = -1;

    do {
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

/* Reads the helper's error message.  Does not wait for end of file: a process it left behind may keep the pipe open. */
static void attach_read_reply(struct helper *h, int pipe)
{
    char text[512];
    ssize_t n = fcntl(pipe, F_SETFL, O_NONBLOCK) == 0 ? read(pipe, text, sizeof text - 1) : -1;

    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    const char *from = strncmp(text, "fusermount3: ", 13) == 0 ? text + 13 : text;
    (void)snprintf(h->said, sizeof h->said, "%.*s", (int)sizeof h->said - 1, from);
}

static int attach_helper_run(const struct zf_fs_opts *o, struct helper *h, const int sock[2],
                             const int say[2])
{
    pid_t pid;
    int rc = attach_helper_start(o, sock[1], say[1], &pid);

    (void)close(sock[1]);
    (void)close(say[1]);
    h->missing = rc == ENOENT;
    if (rc != 0) {
        (void)snprintf(h->said, sizeof h->said, "%s", strerror(rc));
        return -1;
    }
    int fd = attach_receive_fd(sock[0]);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    if (fd < 0)
        attach_read_reply(h, say[0]);
    return fd;
}

static int attach_mount_by_helper(const struct zf_fs_opts *o, struct helper *h)
{
    int sock[2], say[2], fd = -1;

    /* The helper's end is not close-on-exec: the helper must inherit it. */
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sock) != 0)
        return -1;
    (void)fcntl(sock[0], F_SETFD, FD_CLOEXEC);
    if (pipe2(say, O_CLOEXEC) == 0) {
        fd = attach_helper_run(o, h, sock, say);
        (void)close(say[0]);
    } else {
        (void)close(sock[1]);
    }
    (void)close(sock[0]);
    return fd;
}

/* ---- why not --------------------------------------------------------------------------------- */

static const char *attach_device_cause(int sys)
{
    return sys == ENOENT || sys == ENODEV || sys == ENXIO
               ? " (no module fuse, or a container without the device)"
           : sys == EACCES || sys == EPERM ? " (its mode, or the container's device rules)"
                                           : "";
}

static const char *attach_helper_cause(const struct helper *h)
{
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? " (no_new_privs is set, by a container or "
                                                         "a service: setuid programs get no rights)"
           : h->missing                                ? " (package fuse3)"
           : strstr(h->said, "user_allow_other")
               ? " (let root add that line, or leave out allow_other)"
               : "";
}

/* device, mounting: errno of opening the device and of mount(2); 0 = that step did not fail. */
static bool attach_fail(int device, int mounting, const struct helper *h, struct zf_err *err)
{
    char first[120];

    if (device) {
        (void)snprintf(first, sizeof first, "cannot open /dev/fuse: %s%s", strerror(device),
                       attach_device_cause(device));
    } else {
        (void)snprintf(first, sizeof first, "cannot mount: %s", strerror(mounting));
    }
    (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "%s; %s%s%s%s; ls, cat and export need no FUSE", first,
                  h->missing ? "fusermount3 is not in PATH" : "fusermount3",
                  h->missing || !h->said[0] ? "" : ": ", h->missing ? "" : h->said,
                  attach_helper_cause(h));
    return false;
}

bool fs_attach(const struct zf_fs_opts *o, int *fd_out, struct zf_err *err)
{
    struct helper h = {0};
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), device = fd < 0 ? errno : 0, mounting = 0;

    if (fd >= 0 && !attach_mount_here(o, fd)) {
        mounting = errno;
        (void)close(fd);
        fd = -1;
    }
    if (fd < 0 && mounting && mounting != EPERM) {
        errno = mounting;
        (void)zf_fail_sys(err, "mount");
        err->code = ZF_E_IO;
    } else if (fd < 0 && (fd = attach_mount_by_helper(o, &h)) < 0) {
        (void)attach_fail(device, mounting, &h, err);
    }
    if (fd < 0)
        return zf_err_in(err, "%s", o->mountpoint);
    *fd_out = fd;
    return true;
}
