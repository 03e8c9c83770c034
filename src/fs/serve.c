/* SPDX-License-Identifier: Apache-2.0 */
/* A session from mount to unmount.
 *
 * Three threads beside those that libfuse's loop makes: the caller's runs the loop; one waits
 * until the mount answers, and looks at the files that are served from then on; a guard waits for a signal or for the end of the process that
 * supervises us, and ends the session.  The guard does not wait for the loop before it frees the
 * mount point, because a thread may be held by a source that never answers. */
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

/* Only what libfuse itself acts on: mounting is ours (attach.c). */
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

/* ---- what runs beside the loop --------------------------------------------------------------- */

enum stage { LOOPING, LEAVING, OVER };

struct session {
    const struct zf_fs_opts *o;
    const struct fs *fs;
    struct fuse_session *se;
    struct zf_mount mount;
    bool attached;     /* we mounted */
    bool known;        /* mount is filled, which takes /proc */
    int device;        /* the session's descriptor */
    pthread_t serving; /* the thread that runs the loop */
    int failed;        /* errno of the ready thread, which then ended the session */
    pthread_t ready, guard;
    bool ready_runs, guard_runs;
    bool answers; /* of the ready thread */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum stage stage; /* guarded by lock */
};

static void serve_say(const struct zf_fs_opts *o, enum zf_fs_event what, const void *with)
{
    if (o->event)
        o->event(o->ctx, what, with);
}

/* A signal may come to any thread; its handler only wakes the guard. */
static int guard_wake = -1;
static atomic_bool guard_signalled; /* a signal may run in any thread, at once with the guard */

static void serve_guard_poke(void)
{
    uint64_t one = 1;

    if (write(guard_wake, &one, sizeof one) < 0) {
        /* It is awake already. */
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

/* A signal that whoever started us ignores (nohup) stays ignored.  No SA_RESTART: the guard wakes
 * the loop with one of them. */
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

/* Asks the mount for its root.  When the process is killed meanwhile, a thread that waits for an
 * answer which is on its way stays in the kernel until the device is closed; so it must not itself be
 * one that holds the device.  Hence a table of descriptors of its own, without it. */
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

/* Until the session ends: what became of the files that are served. */
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

/* Waits until the mount answers, in a thread of its own because the answer comes from the loop. */
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

/* libfuse's loop asks whether it is to end and only then goes to sleep, so that one wake-up may be
 * lost; it is woken until it has noticed.  Threads that a source holds cannot be woken. */
static void serve_end_loop(struct session *s)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&s->lock);
    /* The loop may have ended by itself, because the mount is gone: then so is the session soon. */
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

/* The numbers of our mount are nobody else's as long as the device is connected. */
static bool serve_is_ours(void *ctx, int fd)
{
    const struct session *s = ctx;
    struct pollfd device = {.fd = s->device};

    return (poll(&device, 1, 0) >= 0 && !(device.revents & (POLLERR | POLLNVAL))) ||
           zf_mount_dead(fd);
}

/* True: it is certain that nothing of ours is mounted any more. */
static bool serve_detach(struct session *s)
{
    struct zf_err err;

    if (!s->known)
        return s->attached && zf_mount_detach_any(s->o->mountpoint, &err);
    enum zf_detached how = zf_mount_detach(s->o->mountpoint, &s->mount, serve_is_ours, s, &err);
    return how == ZF_DETACH_DONE || how == ZF_DETACH_GONE;
}

/* The mount point is freed first of all: what follows may take its time. */
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

/* Beside the main thread and those of the loop, to which signals go. */
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

/* A thread that is not among this many idle ones ends.  Room for some more than ever run at once:
 * else a single busy reader makes threads come and go with every few requests. */
#define IDLE_THREADS 12u

/* Threads come when all others are busy; some stay.  libfuse before 3.12 starts as many as it
 * needs. */
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

/* More threads than may read shards at once: if all of those hang, the rest answers what needs no
 * shard. */
#define SPARE_THREADS 8u

static bool serve_loop(struct fuse_session *se, const struct zf_fs_opts *o, struct zf_err *err)
{
    unsigned reads = o->max_threads ? o->max_threads : 64;

    zf_gate_room(reads);
    int rc =
        serve_loop_threads(se, reads < UINT32_MAX - SPARE_THREADS ? reads + SPARE_THREADS : reads);
    park_end();
    /* > 0 is the signal that ended it, which is how one ends a daemon. */
    if (rc < 0) {
        errno = -rc;
        return zf_fail_sys(err, "serve the mount");
    }
    return true;
}

/* libfuse takes a mount that is there already by the number of its descriptor. */
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

/* Takes fs->se. */
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
    /* Closes the device, first of all, because the ready thread may still wait for an answer that no
     * thread is left to give. */
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

/* Limit of all read-ahead together: half of the memory for blocks of remote stores. */
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
