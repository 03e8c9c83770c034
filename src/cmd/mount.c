/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zf/base/name.h>
#include <zf/fs.h>
#include <zf/overlay/control.h>
#include <zf/overlay/log.h>

#include "mount.h"
#include "mounted.h"
#include "open.h"
#include "remote.h"
#include "where.h"

/* A mount in the background has three processes: the command waits for one byte from the supervisor, which
 * waits for the worker's report that the mount answers; end of file without the byte means failure, and
 * the supervisor's exit code is the command's.  In the foreground the command is the supervisor. */
struct service {
    const struct mount_job *job;
    int notify;         /* the supervisor's end of the pipe to the command; -1 in the foreground */
    int link;           /* the worker's end of the socket to the supervisor */
    int lock;           /* locks the mount point; the supervisor has it until the mount answers */
    struct zf_log *log; /* only in the worker */
    struct zf_tree *tree; /* only in the worker */
};

static void mount_detach_stdio(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0) {
        /* No descriptor is left: closing one makes room. */
        (void)close(STDIN_FILENO);
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
    }
    for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
        (void)dup2(null, fd);
    if (null == STDIN_FILENO)
        (void)fcntl(null, F_SETFD, 0);
    if (null > STDERR_FILENO)
        (void)close(null);
}

/* Closes the standard streams, first in the worker, then in the supervisor, so that readers of our output see its
 * end. */
static void mount_leave_terminal(void)
{
    (void)setsid();
    mount_detach_stdio();
}

/* Only logs the remedy: most users cannot change this kernel setting. */
static void mount_log_remedy(const struct service *v, const char *remedy)
{
    struct zf_err err;

    if (remedy[0]) {
        (void)zf_fail(&err, ZF_E_IO, ZF_OFF_NONE,
                      "sequential reads are about a third slower than possible, because the "
                      "kernel\'s read-ahead is small. As root: %s",
                      remedy);
        zf_log_say(v->log, &err);
    }
}

/* Handles an event of the file system; runs in the worker. */
static void mount_event(void *ctx, enum zf_fs_event what, const void *with)
{
    const struct service *v = ctx;
    const struct zf_fs_modes *modes = with;
    char *text = what == ZF_FS_READY ? mounted_modes_text(modes) : NULL;

    if (text)
        zf_control_set_modes(v->tree, text);
    if (what == ZF_FS_READY && v->notify >= 0) {
        zf_log_detach(v->log);
        mount_leave_terminal();
    }
    if (what == ZF_FS_READY)
        mount_log_remedy(v, modes->remedy);
    supervise_report(v->link, what, what == ZF_FS_MOUNTED ? with : NULL);
}

/* Reports that the mount answers; runs in the supervisor. */
static void mount_announce(void *ctx)
{
    const struct service *v = ctx;

    mounted_unlock(v->lock);
    if (v->notify < 0)
        return;
    mount_leave_terminal();
    if (chdir("/") != 0 || write(v->notify, "", 1) != 1) {
        /* The command has ended and no longer waits. */
    }
    (void)close(v->notify);
}

static void mount_say(void *ctx, const struct zf_err *err)
{
    const struct service *v = ctx;

    zf_log_say(v->log, err);
}

/* Opens the tree to serve.  tag: at least ZF_NAME_MAX + 1 bytes; gets the name of the save if it is one of several. */
static struct zf_tree *mount_open_served(const char *source, const struct open_saves *s, char *tag,
                                         struct zf_err *err)
{
    if (s->o->all_tags || s->o->current)
        return open_run(source, s, err);
    struct zf_tree *tree = open_asked(source, s->o, err);
    if (tree)
        (void)snprintf(tag, ZF_NAME_MAX + 1, "%s", zf_tree_checkpoint(tree)->tag);
    uint16_t withheld = tree ? open_withheld(tree, source, s->o, s->log) : 0;
    tree = tree ? zf_control_checkpoint(tree, s->log, err) : NULL;
    if (tree)
        zf_control_withhold(tree, withheld);
    return tree;
}

/* Opens the tree and adds the description that mounted_check reads. */
static struct zf_tree *mount_open_described(const struct mount_job *job, const struct open_saves *s,
                                            struct zf_err *err)
{
    char tag[ZF_NAME_MAX + 1] = "";
    struct zf_tree *tree = mount_open_served(job->source, s, tag, err);
    char *text = tree ? mounted_text(job, tag, err) : NULL;

    if (tree && !text) {
        zf_tree_free(tree);
        return NULL;
    }
    if (tree)
        zf_control_set_mount(tree, text);
    return tree;
}

/* Returns the memory used for reading metadata to the system: otherwise the C library would keep several
 * times what the tree needs. */
static void mount_give_memory_back(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

/* The options of the FUSE session; link: the socket on which the supervisor asks to stop. */
static struct zf_fs_opts mount_fs_opts(struct service *v, int link)
{
    const struct mount_job *job = v->job;
    const struct opts *o = job->opts;

    return (struct zf_fs_opts){
        .mountpoint = job->mountpoint,
        .fsname = o->fsname ? o->fsname : job->source,
        .subtype = o->subtype,
        .fuse_opt = (const char *const *)o->pass.at,
        .n_fuse_opt = o->pass.n,
        .uid = (uid_t)o->uid,
        .gid = (gid_t)o->gid,
        .umask = (mode_t)o->umask,
        .entry_timeout = (double)o->entry_timeout / 1e9,
        .attr_timeout = (double)o->attr_timeout / 1e9,
        .max_threads = (uint32_t)o->max_threads,
        .max_read = o->max_read > UINT32_MAX ? UINT32_MAX : (uint32_t)o->max_read,
        .read_ahead_kib =
            o->read_ahead / 1024 > INT32_MAX ? INT32_MAX : (uint32_t)(o->read_ahead / 1024),
        .xattrs = (enum zf_fs_xattrs)o->xattrs,
        .io = (enum zf_fs_io)o->io,
        .io_uring = o->io_uring,
        .debug = o->debug,
        .log = mount_say,
        .event = mount_event,
        .ctx = v,
        .stop_fd = link,
    };
}

/* Mounts and serves; runs in the worker. */
static int mount_serve(void *ctx, int link)
{
    struct service *v = ctx;
    const struct mount_job *job = v->job;
    const struct opts *o = job->opts;
    struct zf_err err;

    if (v->notify >= 0)
        (void)close(
            v->notify); /* from now on only its being ≥ 0 matters: we run in the background */
    if (v->lock >= 0)
        (void)close(v->lock);
    zf_auto(log) struct zf_log *log = zf_log_new(stderr, &err);
    const struct open_saves saves = {.o = o, .opener = open_opener(o), .log = log};
    zf_auto(tree) struct zf_tree *tree = log ? mount_open_described(job, &saves, &err) : NULL;
    const struct zf_fs_opts fs = mount_fs_opts(v, link);

    v->link = link;
    v->log = log;
    v->tree = tree;
    mount_give_memory_back();
    /* A daemon must not keep a directory busy; all paths have been made absolute. */
    if (!tree || (v->notify >= 0 && chdir("/") != 0 && !zf_fail_sys(&err, "change to /")) ||
        !zf_fs_serve(tree, &fs, &err))
        return cmd_fail(&err);
    return EXIT_OK;
}

/* Runs the worker; frees the tree before it ends the client for remote sources. */
static int mount_work(void *ctx, int link)
{
    int code = mount_serve(ctx, link);

    supervise_report(link, SUPERVISE_LEAVING, NULL);
    remote_end();
    return code;
}

static int mount_serve_supervised(struct service *v)
{
    struct supervise s = {
        .mountpoint = v->job->mountpoint,
        .work = mount_work,
        .ready = mount_announce,
        .ctx = v,
        .waiter = v->notify,
        .background = v->notify >= 0,
    };

    return supervise(&s);
}

/* Waits for the supervisor's byte or its end; returns the exit code. */
static int mount_wait_ready(pid_t child, int fd)
{
    char byte;
    ssize_t n;
    int status;

    do {
        n = read(fd, &byte, 1);
    } while (n < 0 && errno == EINTR);
    if (n == 1)
        return EXIT_OK;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return EXIT_IO;
    if (WIFEXITED(status))
        return WEXITSTATUS(status) ? WEXITSTATUS(status) : EXIT_IO;
    (void)fprintf(stderr, "zerofs: the supervising process was ended by signal %d (%s)\n",
                  WTERMSIG(status), strsignal(WTERMSIG(status)));
    return EXIT_IO;
}

static int mount_serve_behind(const struct mount_job *job, int lock)
{
    struct zf_err err;
    int fd[2];

    if (pipe2(fd, O_CLOEXEC) != 0) {
        (void)zf_fail_sys(&err, "make a pipe");
        return cmd_fail(&err);
    }
    (void)fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        (void)zf_fail_sys(&err, "start the supervising process");
        return cmd_fail(&err);
    }
    if (child == 0) {
        struct service v = {.job = job, .notify = fd[1], .lock = lock};

        (void)close(fd[0]);
        int code = mount_serve_supervised(&v);
        (void)fflush(NULL);
        exit(code);
    }
    (void)close(fd[1]);
    int code = mount_wait_ready(child, fd[0]);
    (void)close(fd[0]);
    return code;
}

static int mount_serve_here(const struct mount_job *job, int lock)
{
    struct service v = {.job = job, .notify = -1, .lock = lock};

    return mount_serve_supervised(&v);
}

/* Resolves the mount point.  It may also be an open descriptor of /dev/fuse (/dev/fd/N), as containers get. */
static char *mount_resolve_mountpoint(const char *mnt)
{
    return zf_mount_given(mnt) ? strdup(mnt) : realpath(mnt, NULL);
}

/* Checks what is mounted there already; returns an exit code, or -1 to go on and mount. */
static int mount_check_mounted(const struct mount_job *job, bool *already_out)
{
    struct zf_err err;
    enum mounted found = mounted_check(job, &err);

    *already_out = found == MOUNTED_SAME;
    if (found == MOUNTED_SAME) {
        (void)fprintf(stderr, "zerofs: %s\n", err.msg);
        return EXIT_OK;
    }
    if (found == MOUNTED_OTHER) {
        (void)zf_err_in(&err, "%s", job->mountpoint);
        return cmd_fail(&err);
    }
    return -1;
}

static int mount_fail_path(const char *what, const char *path)
{
    struct zf_err err;

    (void)zf_fail_sys(&err, what);
    (void)zf_err_in(&err, "%s", path);
    return cmd_fail(&err);
}

/* Mounts with the mount point locked, so that of two simultaneous commands one finds the other's mount. */
static int mount_locked(struct mount_job *job, bool foreground, bool *already_out, int lock)
{
    bool given = zf_mount_given(job->mountpoint);
    struct zf_err err;
    int code = given ? -1 : mount_check_mounted(job, already_out);

    if (code >= 0)
        return code;
    if (!given && !mountable_free(job, &err))
        return cmd_fail(&err);
    zf_auto(mem) char *mountpoint = mount_resolve_mountpoint(job->mountpoint);
    if (!mountpoint)
        return mount_fail_path("resolve the mount point", job->mountpoint);
    job->mountpoint = mountpoint;
    if (!mountable_outside(job, &err))
        return cmd_fail(&err);
    return foreground ? mount_serve_here(job, lock) : mount_serve_behind(job, lock);
}

int mount_at(const struct opts *o, const char *from, const char *mountpoint, bool *already_out)
{
    struct mount_job job = {.source = from, .mountpoint = mountpoint, .opts = o};
    struct zf_err err;

    *already_out = false;
    if (!where_check(job.source, &err))
        return cmd_fail(&err);
    bool remote = where_is_remote(job.source);
    zf_auto(mem) char *source = remote ? strdup(job.source) : realpath(job.source, NULL);
    int lock = -1, code;
    if (!source)
        return mount_fail_path("open the checkpoint", job.source);
    job.source = source;
    if (!zf_mount_given(job.mountpoint)) {
        code = mount_check_mounted(&job, already_out);
        if (code >= 0)
            return code;
        lock = mountable_automount(job.mountpoint) ? -1 : mounted_lock(job.mountpoint);
    }
    return mount_locked(&job, o->foreground || o->debug, already_out, lock);
}

int cmd_mount(const struct opts *o, int n, char **word)
{
    bool already;

    (void)n;
    return mount_at(o, word[0], word[1], &already);
}
