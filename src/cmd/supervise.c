/* SPDX-License-Identifier: Apache-2.0 */
/* A FUSE mount whose process is killed stays in the mount table and fails with ENOTCONN forever.  So
 * two processes belong to a mount: the worker, which reads the checkpoint, mounts and serves, and
 * its parent, the supervisor, which holds nothing but the identity of the mount.
 *
 * - The worker ends for any reason: the supervisor unmounts if the mount still exists.
 * - The supervisor is killed: the worker sees end of file on the socket between them (or, while it does
 *   not watch the socket, gets SIGTERM from the kernel), unmounts and ends.
 * - The command that waits for the mount is killed before it exists: as if the supervisor got a signal.
 * - One of them gets a signal to end: the other learns of it in the same ways.  A worker that does not
 *   end, because it is stopped or a thread hangs in a source, is killed after about a second, and the
 *   supervisor unmounts.
 *
 * Only the mount that the worker made is unmounted: never one that was mounted over it (the supervisor
 * waits until that is gone) or later at the same mount point. */
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include <zf/base/clock.h>
#include <zf/base/fd.h>

#include "cmd.h"

/* The supervisor's process name, so that `killall zerofs` does not hit the process that can still
 * unmount. */
#define SUPERVISOR_NAME "fuse-guard"

/* The longest time from mounting to the first answer, which needs no source; long because a machine may be busy. */
#define ANSWER_MS 60000
#define GRACE_MS 1500 /* time for the worker to end: its own second, and some more */
/* Time for the worker to write buffered data after its mount is gone, when nobody waits for it. */
#define LEAVE_MS 15000

struct message {
    int what;
    struct zf_mount mount;
};

struct watch {
    const struct supervise *s;
    pid_t worker;
    int link;    /* socket to the worker; -1 after the worker closed it */
    int signals; /* signalfd(2) */
    int signal;  /* the last signal that asked to end, or 0 */
    struct zf_mount before, mount;
    bool mounted, ready; /* as the worker reported */
    bool off;            /* the worker reported that its mount is gone */
    bool ended;          /* the worker was reaped, with `status` */
    int status;
    bool killed_by_us;
    bool late;        /* the deadline is for the first answer */
    bool unanswered;  /* … which was not met */
    int64_t deadline; /* ms; 0 = none */
};

/* ---- signals --------------------------------------------------------------------------------- */

/* Signal settings and process name to restore in the worker. */
struct inherited {
    sigset_t mask;
    struct sigaction child;
    char name[16]; /* the process's original name; size from prctl(2) */
};

/* Blocks the signals that ask to end, and SIGCHLD, and returns a signalfd for them; -1: errno.  Signals that are
 * ignored at the start, as set by the parent process, stay ignored. */
static int supervise_signals_take(struct inherited *old)
{
    static const int ends[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    static const int idle[] = {SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE};
    struct sigaction now, ignore = {.sa_handler = SIG_IGN}, dflt = {.sa_handler = SIG_DFL};
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < 4; i++) {
        (void)sigaction(idle[i], &ignore, NULL);
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            (void)sigaddset(&set, ends[i]);
    }
    /* With SIGCHLD ignored, children could not be waited for. */
    (void)sigaction(SIGCHLD, &dflt, &old->child);
    (void)sigprocmask(SIG_BLOCK, &set, &old->mask);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void supervise_signals_read(struct watch *w)
{
    struct signalfd_siginfo s;

    while (read(w->signals, &s, sizeof s) == (ssize_t)sizeof s)
        w->signal = s.ssi_signo == SIGCHLD ? w->signal : (int)s.ssi_signo;
}

/* ---- the worker's side ----------------------------------------------------------------------- */

void supervise_report(int link, int what, const struct zf_mount *m)
{
    const struct message message = {.what = what, .mount = m ? *m : (struct zf_mount){0}};

    if (send(link, &message, sizeof message, MSG_NOSIGNAL) < 0) {
        /* The supervisor is gone, which the session also notices on its own. */
    }
}

static _Noreturn void supervise_worker_run(const struct supervise *s, const struct inherited *old,
                                           pid_t parent, int link)
{
    (void)sigaction(SIGCHLD, &old->child, NULL);
    (void)sigprocmask(SIG_SETMASK, &old->mask, NULL);
    (void)prctl(PR_SET_NAME, old->name, 0, 0, 0);
    /* For the time before serving, while nothing watches the link. */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != parent)
        _exit(EXIT_IO);
    int code = s->work(s->ctx, link);
    (void)fflush(NULL);
    exit(code);
}

/* ---- the supervisor's side ------------------------------------------------------------------- */

static int64_t supervise_now_ms(void)
{
    return zf_clock_ns() / 1000000;
}

static void supervise_say(const struct watch *w, const char *text)
{
    if (w->s->background && w->ready) {
        openlog("zerofs", LOG_PID, LOG_DAEMON);
        syslog(LOG_ERR, "%s: %s", w->s->mountpoint, text);
    } else {
        (void)fprintf(stderr, "zerofs: %s: %s\n", w->s->mountpoint, text);
    }
}

static void supervise_say_err(const struct watch *w, const struct zf_err *err)
{
    char text[1024];

    supervise_say(w, zf_err_text(err, text, sizeof text));
}

/* Sets the deadline to at most `ms` from now; replaces the deadline for the first answer. */
static void supervise_end_within(struct watch *w, int ms)
{
    w->deadline = w->deadline && !w->late ? w->deadline : supervise_now_ms() + ms;
    w->late = false;
}

static void supervise_take_report(struct watch *w)
{
    struct message m;
    ssize_t n = recv(w->link, &m, sizeof m, MSG_DONTWAIT);

    if (n == (ssize_t)sizeof m) {
        if (m.what == ZF_FS_MOUNTED) {
            w->mounted = true;
            w->mount = m.mount;
            w->late = !w->deadline;
            w->deadline = w->deadline ? w->deadline : supervise_now_ms() + ANSWER_MS;
        } else if (m.what == ZF_FS_READY && !w->ready) {
            w->s->ready(w->s->ctx);
            w->ready = true;
            w->deadline = w->late ? 0 : w->deadline;
            w->late = false;
        } else if (m.what == ZF_FS_OFF) {
            w->off = true;
        } else if (m.what == ZF_FS_STOPPING) {
            supervise_end_within(w, GRACE_MS);
        } else if (m.what == SUPERVISE_LEAVING && !w->killed_by_us) {
            w->deadline = supervise_now_ms() + LEAVE_MS;
        }
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        (void)close(w->link);
        w->link = -1;
    }
}

/* Asks the worker to end: by a signal, for the time when it opens the checkpoint, and by closing the
 * link, for the time when it serves and may ignore signals. */
static void supervise_ask_to_end(struct watch *w)
{
    if (w->link >= 0)
        (void)shutdown(w->link, SHUT_WR);
    (void)kill(w->worker, SIGTERM);
    supervise_end_within(w, GRACE_MS);
}

static void supervise_reap(struct watch *w)
{
    if (!w->ended && waitpid(w->worker, &w->status, WNOHANG) == w->worker)
        w->ended = true;
}

/* Waits once for a report, a signal or the deadline. */
static void supervise_wait_once(struct watch *w)
{
    const bool waited = !w->ready && !w->signal;
    struct pollfd fds[] = {{.fd = w->link, .events = POLLIN},
                           {.fd = w->signals, .events = POLLIN},
                           {.fd = waited ? w->s->waiter : -1}};
    int64_t ms = w->deadline - supervise_now_ms();

    if (poll(fds, 3, !w->deadline ? -1 : ms > 0 ? (int)ms : 0) > 0) {
        supervise_signals_read(w);
        if (fds[2].revents && !w->signal)
            w->signal = SIGTERM;
        if (fds[0].revents)
            supervise_take_report(w);
    }
}

/* Waits until the worker has ended, or the supervisor gives up waiting. */
static void supervise_watch_worker(struct watch *w)
{
    bool asked = false;

    for (supervise_reap(w); !w->ended; supervise_reap(w)) {
        if (w->signal && !asked) {
            asked = true;
            supervise_ask_to_end(w);
        }
        if (w->deadline && supervise_now_ms() >= w->deadline) {
            if (w->killed_by_us)
                return;
            /* It is stopped, or hangs in a source; in the latter case even SIGKILL waits for the source. */
            w->killed_by_us = true;
            w->unanswered = w->late;
            (void)kill(w->worker, SIGKILL);
            w->deadline = supervise_now_ms() + GRACE_MS / 3;
        }
        supervise_wait_once(w);
    }
    /* Read the reports that it sent before it ended. */
    while (w->link >= 0)
        supervise_take_report(w);
}

/* Something is mounted over our mount: waits until that is gone. */
static bool supervise_wait_uncovered(struct watch *w)
{
    zf_auto(fd) int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    struct pollfd fds[] = {{.fd = fd, .events = POLLPRI}, {.fd = w->signals, .events = POLLIN}};
    char byte;

    if (fd < 0 || read(fd, &byte, 1) != 1)
        return false;
    /* The timeout makes sure that a change between the last check and this poll is noticed. */
    bool go_on = poll(fds, 2, 1000) >= 0 || errno == EINTR;
    supervise_signals_read(w);
    return go_on;
}

/* True if a mount is the worker's.  The kernel reuses the IDs of mounts that are gone, so after the worker
 * has ended, a mount with its IDs counts as its own only if no process serves it.  A running worker
 * reports when its mount is gone. */
static bool supervise_is_ours(void *ctx, int fd)
{
    const struct watch *w = ctx;

    return !w->ended || zf_mount_dead(fd);
}

static void supervise_take_off(struct watch *w)
{
    struct zf_err err;
    enum zf_detached result;
    int first = w->signal;

    while ((result = zf_mount_detach(w->s->mountpoint, &w->mount, supervise_is_ours, w, &err)) ==
           ZF_DETACH_COVERED) {
        if (w->signal != first || !supervise_wait_uncovered(w)) {
            supervise_say(w, "another mount covers it; the one below it is dead");
            return;
        }
    }
    if (result == ZF_DETACH_FAILED)
        supervise_say_err(w, &err);
}

/* Finds the mount of a worker that was killed between mounting and its report. */
static bool supervise_find_unreported(struct watch *w)
{
    return zf_mount_at(w->s->mountpoint, &w->mount) && w->mount.here && w->mount.fuse &&
           w->before.id && w->mount.parent == w->before.id;
}

static void supervise_clean_up(struct watch *w)
{
    if (!w->off && !zf_mount_given(w->s->mountpoint) &&
        (w->mounted || supervise_find_unreported(w)))
        supervise_take_off(w);
}

/* The signal that ended the mount, unless it was one that asks to end; 0: a regular end. */
static int supervise_fatal_signal(const struct watch *w)
{
    if (w->signal == SIGQUIT)
        return SIGQUIT;
    int sig = w->ended && !w->killed_by_us && WIFSIGNALED(w->status) ? WTERMSIG(w->status) : 0;
    bool asked = sig == SIGTERM || sig == SIGINT || sig == SIGHUP;
    return w->signal && asked ? 0 : sig;
}

static int supervise_exit_code(const struct watch *w, const sigset_t *mask)
{
    char text[160];
    int sig = supervise_fatal_signal(w);

    if (w->signal && !w->mounted && !w->ready) {
        /* Nothing was mounted: end by the signal, as if there had been no supervisor. */
        (void)sigprocmask(SIG_SETMASK, mask, NULL);
        (void)raise(w->signal);
        return EXIT_IO; /* still running: the first process of a container is not killed by signals */
    }
    if (w->unanswered) {
        supervise_say(w, "the mount did not answer within a minute; it is unmounted");
        return EXIT_IO;
    }
    if (!sig)
        return w->ended && WIFEXITED(w->status) ? WEXITSTATUS(w->status) : EXIT_OK;
    (void)snprintf(text, sizeof text, "the serving process was ended by signal %d (%s)%s", sig,
                   strsignal(sig), w->mounted ? "; it is unmounted" : "");
    supervise_say(w, text);
    return EXIT_IO;
}

static int supervise_start(struct watch *w, const struct inherited *old)
{
    int link[2];
    pid_t self = getpid();

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) != 0)
        return -1;
    (void)fflush(NULL);
    w->worker = fork();
    if (w->worker == 0) {
        (void)close(link[0]);
        (void)close(w->signals);
        supervise_worker_run(w->s, old, self, link[1]);
    }
    (void)close(link[1]);
    if (zf_mount_given(w->s->mountpoint)) {
        /* The connection lives as long as any process has the device open, so only the worker may. */
        (void)close((int)strtol(w->s->mountpoint + strlen("/dev/fd/"), NULL, 10));
    }
    w->link = link[0];
    return w->worker < 0 ? -1 : 0;
}

int supervise(const struct supervise *s)
{
    struct watch w = {.s = s};
    struct inherited old;
    struct zf_err err;

    (void)zf_mount_at(s->mountpoint, &w.before);
    w.signals = supervise_signals_take(&old);
    /* Rename before the worker exists: who looks for it by name must not find this process. */
    (void)prctl(PR_GET_NAME, old.name, 0, 0, 0);
    (void)prctl(PR_SET_NAME, SUPERVISOR_NAME, 0, 0, 0);
    if (w.signals < 0 || supervise_start(&w, &old) != 0) {
        (void)zf_fail_sys(&err, "start the serving process");
        return cmd_fail(&err);
    }
    supervise_watch_worker(&w);
    supervise_clean_up(&w);
    supervise_signals_read(&w);
    return supervise_exit_code(&w, &old.mask);
}
