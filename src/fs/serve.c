/* SPDX-License-Identifier: Apache-2.0 */
/* A session from mount to unmount.
 *
 * There are three threads besides the workers of libfuse's loop: the caller's thread runs the loop; the ready thread waits
 * until the mount answers and then checks the served files regularly for changes; the guard waits for a signal or the end
 * of stop_fd and ends the session.  The guard unmounts before the loop has ended, because a worker may be blocked by a
 * source that never answers. */
#include "config.h"

#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/base/thread.h>
#include <zf/source/gate.h>
#include <zf/source/store.h>

#include "attach.h"
#include "mode.h"
#include "park.h"

static void serve_auto_args(struct fuse_args *args)
{
    fuse_opt_free_args(args);
}

/* Builds libfuse's arguments: only options it handles itself, since attach.c mounts. */
static bool serve_build_args(struct fuse_args *args, const struct zf_fs_opts *o, struct zf_err *err)
{
    bool ok = fuse_opt_add_arg(args, "zerofs") == 0;

    for (uint32_t i = 0; ok && i < o->n_fuse_opt; i++)
        ok = fuse_opt_add_arg(args, "-o") == 0 && fuse_opt_add_arg(args, o->fuse_opt[i]) == 0;
    if (ok && o->max_read) {
        char text[32];

        (void)snprintf(text, sizeof text, "-omax_read=%u", o->max_read);
        ok = fuse_opt_add_arg(args, text) == 0;
    }
    if (ok && o->io_uring && mode_has_io_uring())
        ok = fuse_opt_add_arg(args, "-oio_uring") == 0;
    if (ok && o->debug)
        ok = fuse_opt_add_arg(args, "-d") == 0;
    return ok || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for the mount options");
}

/* ---- the other threads ----------------------------------------------------------------------- */

enum stage { LOOPING, LEAVING, OVER };

struct session {
    const struct zf_fs_opts *o;
    const struct fs *fs;
    struct fuse_session *se;
    struct zf_mount mount;
    bool attached;     /* we mounted */
    bool known;        /* mount is filled in; false without /proc */
    int device;        /* the session's descriptor */
    pthread_t serving; /* the thread that runs the loop */
    int failed;        /* errno if the ready thread failed and ended the session */
    pthread_t ready, guard;
    bool ready_runs, guard_runs;
    bool answers; /* the mount answers; used by the ready thread only */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum stage stage; /* guarded by lock */
};

static void serve_say(const struct zf_fs_opts *o, enum zf_fs_event what, const void *with)
{
    if (o->event)
        o->event(o->ctx, what, with);
}

/* eventfd that wakes the guard.  The signal handler, which may run in any thread, only writes to it. */
static int guard_wake = -1;
static atomic_bool guard_signalled; /* a signal came; set by the handler in any thread */

static void serve_guard_poke(void)
{
    uint64_t one = 1;

    if (write(guard_wake, &one, sizeof one) < 0) {
        /* The counter is full: the guard is awake already. */
    }
}

static void serve_on_signal(int sig)
{
    int saved = errno;

    (void)sig;
    atomic_store(&guard_signalled, true);
    serve_guard_poke();
    errno = saved;
}

static const int guard_signals[] = {SIGTERM, SIGINT, SIGHUP};
#define N_GUARD_SIGNALS (sizeof guard_signals / sizeof guard_signals[0])

/* Installs the handlers.  A signal that is ignored at start (nohup) stays ignored.  No SA_RESTART: the guard interrupts the
 * loop's read with a signal. */
static bool serve_signals_catch(struct sigaction old[N_GUARD_SIGNALS], struct zf_err *err)
{
    struct sigaction mine = {.sa_handler = serve_on_signal};

    atomic_store(&guard_signalled, false);
    guard_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (guard_wake < 0)
        return zf_fail_sys(err, "catch signals");
    (void)sigfillset(&mine.sa_mask);
    for (size_t i = 0; i < N_GUARD_SIGNALS; i++) {
        (void)sigaction(guard_signals[i], NULL, &old[i]);
        if (old[i].sa_handler == SIG_DFL)
            (void)sigaction(guard_signals[i], &mine, NULL);
    }
    return true;
}

static void serve_signals_restore(const struct sigaction old[N_GUARD_SIGNALS])
{
    for (size_t i = 0; i < N_GUARD_SIGNALS; i++)
        (void)sigaction(guard_signals[i], &old[i], NULL);
    (void)close(guard_wake);
    guard_wake = -1;
}

/* Calls stat on the mount's root.  If the process is killed during that, this thread stays in the kernel until the device
 * is closed, so it must not hold the device open itself: it gets its own descriptor table without the device. */
static void *serve_asker_run(void *arg)
{
    struct session *s = arg;
    struct stat st;

    if (unshare(CLONE_FILES) == 0) {
        (void)close(s->device);
        (void)close(s->o->stop_fd);
    }
    s->answers = stat(s->o->mountpoint, &st) == 0;
    return NULL;
}

#define LOOK_MS 5000

/* Checks every LOOK_MS, until the session ends, whether served files were changed or deleted, and logs it. */
static void serve_look(struct session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    while (s->stage == LOOPING) {
        if (!zf_thread_wait(&s->changed, &s->lock, LOOK_MS) && s->stage == LOOPING) {
            (void)pthread_mutex_unlock(&s->lock);
            zf_files_look(s->o->log, s->o->ctx);
            (void)pthread_mutex_lock(&s->lock);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
}

/* The ready thread: waits until the mount answers.  The answer comes from the loop, so it needs its own thread. */
static void *serve_ready_run(void *arg)
{
    struct session *s = arg;
    const struct zf_fs_opts *o = s->o;
    pthread_t asker;

    s->answers = zf_mount_given(o->mountpoint);
    if (!s->answers) {
        s->failed = pthread_create(&asker, NULL, serve_asker_run, s);
        if (s->failed) {
            atomic_store(&guard_signalled, true);
            serve_guard_poke();
            return NULL;
        }
        (void)pthread_join(asker, NULL);
    }
    if (s->answers) {
        struct zf_fs_modes modes;

        mode_get(s->fs, s->known ? &s->mount.dev : NULL, &modes);
        serve_say(o, ZF_FS_READY, &modes);
        if (o->log)
            serve_look(s);
    }
    return NULL;
}

static enum stage serve_stage_of(struct session *s)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&s->lock);
    return s->stage;
}

static void serve_stage_set(struct session *s, enum stage stage)
{
    (void)pthread_mutex_lock(&s->lock);
    s->stage = stage;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
}

#define STOP_MS 1000
#define NUDGE_MS 20

/* Ends libfuse's loop.  The loop checks its exit flag before it sleeps, so a single wake-up may be lost; signals are sent
 * until it has ended.  Threads blocked by a source cannot be woken: after STOP_MS the process exits. */
static void serve_end_loop(struct session *s)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&s->lock);
    /* If the loop has ended by itself because of an unmount, the session may be freed soon. */
    if (s->stage == LOOPING)
        fuse_session_exit(s->se);
    for (int ms = 0; s->stage != OVER; ms += NUDGE_MS) {
        if (ms >= STOP_MS)
            _exit(0);
        if (s->stage == LOOPING)
            (void)pthread_kill(s->serving, SIGTERM);
        (void)zf_thread_wait(&s->changed, &s->lock, NUDGE_MS);
    }
}

/* Is the mount at fd, which has our mount's numbers, ours?  While our device is connected the numbers cannot be reused. */
static bool serve_is_ours(void *ctx, int fd)
{
    const struct session *s = ctx;
    struct pollfd device = {.fd = s->device};

    return (poll(&device, 1, 0) >= 0 && !(device.revents & (POLLERR | POLLNVAL))) ||
           zf_mount_dead(fd);
}

/* Unmounts our mount.  True: it is certainly unmounted. */
static bool serve_detach(struct session *s)
{
    struct zf_err err;

    if (!s->known)
        return s->attached && zf_mount_detach_any(s->o->mountpoint, &err);
    enum zf_detached how = zf_mount_detach(s->o->mountpoint, &s->mount, serve_is_ours, s, &err);
    return how == ZF_DETACH_DONE || how == ZF_DETACH_GONE;
}

/* Unmounts first, since ending the loop may take a second. */
static void serve_stop(struct session *s)
{
    if (serve_detach(s))
        serve_say(s->o, ZF_FS_OFF, NULL);
    serve_say(s->o, ZF_FS_STOPPING, NULL);
    serve_end_loop(s);
}

static void *serve_guard_run(void *arg)
{
    struct session *s = arg;
    struct pollfd fds[] = {{.fd = guard_wake, .events = POLLIN},
                           {.fd = s->o->stop_fd, .events = POLLIN}};

    while (serve_stage_of(s) == LOOPING) {
        if (poll(fds, 2, -1) < 0)
            continue;
        if (atomic_load(&guard_signalled) || fds[1].revents) {
            serve_stop(s);
            break;
        }
    }
    return NULL;
}

/* Starts a thread that signals are not delivered to; the main thread and the loop's take them. */
static bool serve_start_thread(pthread_t *out, void *(*run)(void *), struct session *s,
                               struct zf_err *err)
{
    errno = zf_thread_start(out, run, s);
    return errno == 0 || zf_fail_sys(err, "start a thread");
}

static bool serve_start_threads(struct session *s, struct zf_err *err)
{
    s->guard_runs = serve_start_thread(&s->guard, serve_guard_run, s, err);
    s->ready_runs = s->guard_runs && serve_start_thread(&s->ready, serve_ready_run, s, err);
    return s->ready_runs;
}

/* libfuse ends idle threads beyond this number.  It is larger than the usual number of busy threads; otherwise a single
 * busy reader would create and end threads all the time. */
#define IDLE_THREADS 12u

/* Runs libfuse's loop, which starts a thread when all others are busy.  libfuse before 3.12 has no limit on threads. */
#ifdef HAVE_FUSE_LOOP_CFG
static int serve_loop_threads(struct fuse_session *se, unsigned most)
{
    struct fuse_loop_config *cfg = fuse_loop_cfg_create();

    if (!cfg)
        return -ENOMEM;
    fuse_loop_cfg_set_max_threads(cfg, most);
    fuse_loop_cfg_set_idle_threads(cfg, IDLE_THREADS < most ? IDLE_THREADS : most);
    int rc = fuse_session_loop_mt(se, cfg);
    fuse_loop_cfg_destroy(cfg);
    return rc;
}
#else
static int serve_loop_threads(struct fuse_session *se, unsigned most)
{
    struct fuse_loop_config cfg = {
        .max_idle_threads = IDLE_THREADS < most ? IDLE_THREADS : most,
    };

    return fuse_session_loop_mt(se, &cfg);
}
#endif

/* Threads beyond those that may read shards: if all shard reads hang, these still answer requests that need no shard. */
#define SPARE_THREADS 8u

static bool serve_loop(struct fuse_session *se, const struct zf_fs_opts *o, struct zf_err *err)
{
    unsigned reads = o->max_threads ? o->max_threads : 64;

    zf_gate_room(reads);
    int rc =
        serve_loop_threads(se, reads < UINT32_MAX - SPARE_THREADS ? reads + SPARE_THREADS : reads);
    park_end();
    /* rc > 0 is the signal that ended the loop: no error. */
    if (rc < 0) {
        errno = -rc;
        return zf_fail_sys(err, "serve the mount");
    }
    return true;
}

/* Mounts, and passes the open device to libfuse as /dev/fd/N. */
static bool serve_attach(struct session *s, struct zf_err *err)
{
    const struct zf_fs_opts *o = s->o;
    char name[32];
    int fd;

    if (zf_mount_given(o->mountpoint)) {
        return fuse_session_mount(s->se, o->mountpoint) == 0 ||
               zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "%s is not an open descriptor", o->mountpoint);
    }
    if (!fs_attach(o, &fd, err))
        return false;
    s->attached = true;
    s->known = zf_mount_at(o->mountpoint, &s->mount) && s->mount.here && s->mount.fuse;
    if (s->known)
        serve_say(o, ZF_FS_MOUNTED, &s->mount);
    (void)snprintf(name, sizeof name, "/dev/fd/%d", fd);
    return fuse_session_mount(s->se, name) == 0 ||
           zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "libfuse does not take the descriptor of the mount");
}

/* Runs the session from mount to unmount.  Destroys fs->se. */
static bool serve_session(const struct fs *fs, struct zf_err *err)
{
    const struct zf_fs_opts *o = fs->opts;
    struct fuse_session *se = fs->se;
    struct session s = {.o = o,
                        .fs = fs,
                        .se = se,
                        .serving = pthread_self(),
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .changed = PTHREAD_COND_INITIALIZER};
    bool ok = serve_attach(&s, err);

    s.device = fuse_session_fd(se);
    ok = ok && serve_start_threads(&s, err);
    if (!ok && s.attached)
        (void)serve_detach(&s);
    ok = ok && serve_loop(se, o, err);
    serve_stage_set(&s, LEAVING);
    /* Closes the device before joining the ready thread, which may still wait for an answer that no thread can give. */
    fuse_session_destroy(se);
    if (s.ready_runs)
        (void)pthread_join(s.ready, NULL);
    if (ok && s.failed) {
        errno = s.failed;
        ok = zf_fail_sys(err, "start a thread");
    }
    serve_stage_set(&s, OVER);
    if (s.guard_runs) {
        serve_guard_poke();
        (void)pthread_join(s.guard, NULL);
    }
    return ok;
}

/* Limit of all prefetch windows together: half of the memory for blocks of remote stores. */
#define AHEAD_BYTES (128ull << 20)

const char *zf_fs_version(void)
{
    return fuse_pkgversion();
}

bool zf_fs_serve(struct zf_tree *t, const struct zf_fs_opts *o, struct zf_err *err)
{
    struct fs fs = {.tree = t, .opts = o};
    struct sigaction old[N_GUARD_SIGNALS];
    __attribute__((cleanup(serve_auto_args))) struct fuse_args args = FUSE_ARGS_INIT(0, NULL);

    if (!serve_build_args(&args, o, err))
        return false;
    struct fuse_session *se = fuse_session_new(&args, &zf_ops, sizeof zf_ops, &fs);
    if (!se)
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "libfuse does not take these mount options");
    fs.se = se;
    if (!serve_signals_catch(old, err)) {
        fuse_session_destroy(se);
        return false;
    }
    ahead_init(&fs.ahead, AHEAD_BYTES);
    bool ok = serve_session(&fs, err);
    ahead_fini(&fs.ahead);
    serve_signals_restore(old);
    return ok;
}
