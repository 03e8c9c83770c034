/* SPDX-License-Identifier: Apache-2.0 */
/* A session from mount to unmount. */
#include "config.h"

#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

static void auto_args(struct fuse_args *args)
{
    fuse_opt_free_args(args);
}

static bool add_opt(struct fuse_args *args, const char *key, const char *value)
{
    char *opts = NULL;
    int rc = 0;

    /* libfuse splits at commas; fuse_opt_add_opt_escaped keeps those of the value. */
    if (value) {
        char text[4096 + 32];
        int n = snprintf(text, sizeof text, "%s=%s", key, value);

        if (n < 0 || (size_t)n >= sizeof text) {
            return false;
        }
        rc = fuse_opt_add_opt_escaped(&opts, text);
    } else {
        rc = fuse_opt_add_opt(&opts, key);
    }
    rc = rc || fuse_opt_add_arg(args, "-o") || fuse_opt_add_arg(args, opts);
    free(opts);
    return rc == 0;
}

/* Always: read-only, permissions checked by the kernel (we check none), nothing executable
 * or special. */
static bool build_args(struct fuse_args *args, const struct zf_fs_opts *o, struct zf_err *err)
{
    static const char *const always[] = {"ro", "default_permissions", "nosuid", "nodev", "noexec"};
    bool ok = fuse_opt_add_arg(args, "zerofs") == 0 && add_opt(args, "fsname", o->fsname) &&
              add_opt(args, "subtype", o->subtype);

    for (size_t i = 0; ok && i < sizeof always / sizeof always[0]; i++) {
        ok = add_opt(args, always[i], NULL);
    }
    for (uint32_t i = 0; ok && i < o->n_fuse_opt; i++) {
        ok = add_opt(args, o->fuse_opt[i], NULL);
    }
    if (ok && o->max_read) {
        char text[16];

        (void)snprintf(text, sizeof text, "%u", o->max_read);
        ok = add_opt(args, "max_read", text);
    }
    if (ok && o->debug) {
        ok = fuse_opt_add_arg(args, "-d") == 0;
    }
    return ok || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for the mount options");
}

/* Waits until the mount answers, in a thread of its own because the answer comes from
 * the session's; then sees to it that a signal of the first moments is not lost. */
struct herald {
    const struct zf_fs_opts *o;
    struct fuse_session *se;
    pthread_t serving; /* the thread that the signals are for */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool over; /* the loop has returned; guarded by lock */
};

/* The kernel offers 128 KiB of read-ahead at INIT and takes no more then; the device's own setting
 * works, once INIT is over, for who may write it. */
static void raise_read_ahead(dev_t dev, uint32_t kib)
{
    char path[80], text[16];

    (void)snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb", major(dev), minor(dev));
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        int n = snprintf(text, sizeof text, "%u", kib);

        if (write(fd, text, (size_t)n) < 0) {
            /* Reads are only slower without it. */
        }
        (void)close(fd);
    }
}

/* With /dev/fd/N somebody else mounts: where, and when, only they know. */
static bool mounted_by_others(const char *mountpoint)
{
    return strncmp(mountpoint, "/dev/fd/", 8) == 0;
}

#define WATCHED_SECONDS 60

/* libfuse's loop asks whether a signal came and only then goes to sleep: one that comes in between
 * sets the flag but wakes nobody.  The loop sleeps once and for all, so this can only happen at the
 * beginning, which on a busy machine may take a while; a second signal then wakes it. */
static void watch_signals(struct herald *h)
{
    (void)pthread_mutex_lock(&h->lock);
    for (int i = 0; i < WATCHED_SECONDS && !h->over; i++) {
        struct timespec until;

        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        (void)pthread_cond_timedwait(&h->ended, &h->lock, &until);
        if (!h->over && fuse_session_exited(h->se)) {
            (void)pthread_kill(h->serving, SIGTERM);
        }
    }
    (void)pthread_mutex_unlock(&h->lock);
}

static void *herald_run(void *arg)
{
    struct herald *h = arg;
    struct stat st;

    if (mounted_by_others(h->o->mountpoint) || stat(h->o->mountpoint, &st) == 0) {
        if (h->o->read_ahead_kib && !mounted_by_others(h->o->mountpoint)) {
            raise_read_ahead(st.st_dev, h->o->read_ahead_kib);
        }
        if (h->o->ready) {
            h->o->ready(h->o->ready_ctx);
        }
    }
    watch_signals(h);
    return NULL;
}

/* Signals are for the main thread, which libfuse's handlers wake. */
static bool herald_start(struct herald *h, struct zf_err *err)
{
    sigset_t all, old;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&h->thread, NULL, herald_run, h);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        errno = rc;
        return zf_fail_sys(err, "start a thread");
    }
    h->running = true;
    return true;
}

/* After this it sends no more signals: unmounting is not to be interrupted. */
static void herald_dismiss(struct herald *h)
{
    (void)pthread_mutex_lock(&h->lock);
    h->over = true;
    (void)pthread_cond_signal(&h->ended);
    (void)pthread_mutex_unlock(&h->lock);
}

/* A thread that is not among this many idle ones ends.  Room for some more than ever run at once:
 * else a single busy reader makes threads come and go with every few requests. */
#define IDLE_THREADS 12u

/* Threads come when all others are busy, so a stalled shard holds up only its own readers; some
 * stay.  libfuse before 3.12 starts as many as it needs. */
#ifdef HAVE_FUSE_LOOP_CFG
static int loop_threads(struct fuse_session *se, unsigned most)
{
    struct fuse_loop_config *cfg = fuse_loop_cfg_create();

    if (!cfg) {
        return -ENOMEM;
    }
    fuse_loop_cfg_set_max_threads(cfg, most);
    fuse_loop_cfg_set_idle_threads(cfg, IDLE_THREADS < most ? IDLE_THREADS : most);
    int rc = fuse_session_loop_mt(se, cfg);
    fuse_loop_cfg_destroy(cfg);
    return rc;
}
#else
static int loop_threads(struct fuse_session *se, unsigned most)
{
    struct fuse_loop_config cfg = {
        .max_idle_threads = IDLE_THREADS < most ? IDLE_THREADS : most,
    };

    return fuse_session_loop_mt(se, &cfg);
}
#endif

static bool loop(struct fuse_session *se, const struct zf_fs_opts *o, struct zf_err *err)
{
    int rc = loop_threads(se, o->max_threads ? o->max_threads : 64);

    /* > 0 is the signal that ended it, which is how one ends a daemon. */
    if (rc < 0) {
        errno = -rc;
        return zf_fail_sys(err, "serve the mount");
    }
    return true;
}

/* Asked first, because libfuse does not pass on why it cannot. */
static bool check_device(struct zf_err *err)
{
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

    if (fd < 0) {
        (void)zf_fail_sys(err, "open /dev/fuse");
        err->code = ZF_E_IO;
        return false;
    }
    (void)close(fd);
    return true;
}

static bool serve(struct fuse_session *se, const struct zf_fs_opts *o, struct zf_err *err)
{
    struct herald h = {.o = o,
                       .se = se,
                       .serving = pthread_self(),
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .ended = PTHREAD_COND_INITIALIZER};

    if (!mounted_by_others(o->mountpoint) && !check_device(err)) {
        return false;
    }
    if (fuse_session_mount(se, o->mountpoint) != 0) {
        (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                      "cannot mount here (it takes root, or fusermount3 and the right to run it)");
        return zf_err_in(err, "%s", o->mountpoint);
    }
    bool ok = herald_start(&h, err) && loop(se, o, err);
    herald_dismiss(&h);
    /* First, because the herald may still wait for an answer that no thread is left to give. */
    fuse_session_unmount(se);
    if (h.running) {
        (void)pthread_join(h.thread, NULL);
    }
    return ok;
}

bool zf_fs_serve(struct zf_tree *t, const struct zf_fs_opts *o, struct zf_err *err)
{
    struct fs fs = {.tree = t, .opts = o};
    __attribute__((cleanup(auto_args))) struct fuse_args args = FUSE_ARGS_INIT(0, NULL);

    if (!build_args(&args, o, err)) {
        return false;
    }
    struct fuse_session *se = fuse_session_new(&args, &zf_ops, sizeof zf_ops, &fs);
    if (!se) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "libfuse does not take these mount options");
    }
    bool ok = fuse_set_signal_handlers(se) == 0 ||
              zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "cannot catch signals");
    if (ok) {
        ok = serve(se, o, err);
        fuse_remove_signal_handlers(se);
    }
    fuse_session_destroy(se);
    return ok;
}
