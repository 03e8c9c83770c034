/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <zf/base/clock.h>
#include <zf/base/fd.h>

#include "beneath.h"
#include "statx.h"

/* Descriptors left for the mount, directories and sockets. */
#define POOL_RESERVE 128u
/* More shards than any known save has; each descriptor costs the kernel about 1 KiB. */
#define POOL_MOST 65536u

/* The list of all pools. */
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools;
/* Descriptors in all pools: each save of a run has its own pool, and all share the process's limit. */
static atomic_size_t pools_open;

/* The default for the number of descriptors that one pool, and all together, may keep.  That other parts of the process
 * take more than the reserve shows when there are none left (pools_relieve). */
static uint64_t pool_may_have(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur > POOL_MOST)
        return POOL_MOST;
    return r.rlim_cur > 4 * POOL_RESERVE ? r.rlim_cur - POOL_RESERVE : r.rlim_cur / 4 * 3 + 1;
}

struct pool *pool_new(const char *abs, const struct zf_limits *lim, struct zf_err *err)
{
    struct pool *p = calloc(1, sizeof *p);

    if (!p)
        return zf_null(zf_fail_sys(err, "make a file table"));
    p->cache = zf_cache_new(lim->cache_bytes, err);
    if (!p->cache || !reach_init(&p->reach, abs, err)) {
        zf_cache_unref(&p->cache);
        free(p);
        return NULL;
    }
    atomic_init(&p->refs, 1);
    struct stat st;
    p->place = place_of(p->reach.root);
    atomic_init(&p->dev, fstat(p->reach.root, &st) == 0 ? st.st_dev : 0);
    p->most = p->limit = lim->open_files ? lim->open_files : pool_may_have();
    (void)pthread_mutex_init(&p->lock, NULL);
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&pools_lock);
    p->other = pools;
    pools = p;
    return p;
}

struct pool *pool_ref(struct pool *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void pool_unref(struct pool **p)
{
    struct pool *gone = *p;

    *p = NULL;
    if (!gone || atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) != 1)
        return;
    (void)pthread_mutex_lock(&pools_lock);
    struct pool **at = &pools;
    while (*at != gone)
        at = &(*at)->other;
    *at = gone->other;
    (void)pthread_mutex_unlock(&pools_lock);
    zf_cache_unref(&gone->cache);
    reach_fini(&gone->reach);
    (void)pthread_mutex_destroy(&gone->lock);
    zf_vec_fini(&gone->ring);
    zf_vec_fini(&gone->places);
    free(gone);
}

void slot_init(struct slot *s)
{
    atomic_init(&s->users, ZF_SLOT_SHUT);
    atomic_init(&s->hot, false);
    s->fd = -1;
    s->at = 0;
}

int slot_look(struct slot *s)
{
    if (atomic_fetch_add_explicit(&s->users, 1, memory_order_acquire) & ZF_SLOT_SHUT) {
        slot_leave(s);
        return -1;
    }
    return s->fd;
}

int slot_enter(struct slot *s)
{
    const int fd = slot_look(s);

    if (fd >= 0 && !atomic_load_explicit(&s->hot, memory_order_relaxed))
        atomic_store_explicit(&s->hot, true, memory_order_relaxed);
    return fd;
}

void slot_leave(struct slot *s)
{
    atomic_fetch_sub_explicit(&s->users, 1, memory_order_release);
}

/* Takes out ring[at]; the last one moves there. */
static void pool_unlink_slot(struct pool *p, size_t at)
{
    p->ring.at[at] = p->ring.at[--p->ring.n];
    p->ring.at[at]->at = at;
    atomic_fetch_sub_explicit(&pools_open, 1, memory_order_relaxed);
}

/* Shuts a slot unless a read is inside. */
static bool pool_shut(struct pool *p, struct slot *s)
{
    unsigned idle = 0;

    if (!atomic_compare_exchange_strong_explicit(&s->users, &idle, ZF_SLOT_SHUT,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return false;
    (void)close(s->fd);
    s->fd = -1;
    pool_unlink_slot(p, s->at);
    return true;
}

/* Seconds. */
static int64_t pool_now(void)
{
    return zf_clock_ns() / 1000000000;
}

/* Raises the limit again, once a second: the only way to learn that descriptors are free again is to
 * open more of them.  A failure lowers it again (pool_relieve). */
static void pool_recover(struct pool *p)
{
    const int64_t now = p->limit < p->most && p->ring.n >= p->limit ? pool_now() : p->tried;

    if (now > p->tried) {
        p->limit = p->limit < p->most / 2 ? 2 * p->limit : p->most;
        p->tried = now;
    }
}

/* A reference to the pool after p, or the first one; skips pools that are being freed.  NULL: none. */
static struct pool *pool_after(const struct pool *p)
{
    struct pool *next;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&pools_lock);
    for (next = p ? p->other : pools; next; next = next->other) {
        unsigned refs = atomic_load_explicit(&next->refs, memory_order_relaxed);

        while (refs && !atomic_compare_exchange_weak(&next->refs, &refs, refs + 1)) {
        }
        if (refs)
            break;
    }
    return next;
}

/* One step of the clock algorithm: a slot used since the last round gets one more round. */
static void pool_turn(struct pool *p)
{
    p->hand = p->hand + 1 < p->ring.n ? p->hand + 1 : 0;
    struct slot *s = p->ring.at[p->hand];

    if (!atomic_exchange_explicit(&s->hot, false, memory_order_relaxed))
        (void)pool_shut(p, s);
}

static void pool_make_room(struct pool *p)
{
    pool_recover(p);
    for (size_t steps = 2 * p->ring.n; steps > 0 && p->ring.n >= p->limit; steps--)
        pool_turn(p);
}

/* Closes descriptors until all pools together keep at most `most`. */
static void pools_trim(uint64_t most)
{
    for (struct pool *p = pool_after(NULL), *next; p; p = next) {
        (void)pthread_mutex_lock(&p->lock);
        for (size_t steps = 2 * p->ring.n;
             steps > 0 && p->ring.n &&
             atomic_load_explicit(&pools_open, memory_order_relaxed) > most;
             steps--)
            pool_turn(p);
        (void)pthread_mutex_unlock(&p->lock);
        next = pool_after(p);
        pool_unref(&p);
    }
}

/* Closes some descriptors; false: none could be closed. */
static bool pool_relieve(struct pool *p)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&p->lock);
    size_t before = p->ring.n;
    p->limit = before > 1 ? before / 2 : 1;
    p->tried = pool_now();
    pool_make_room(p);
    return p->ring.n < before;
}

/* Closes descriptors of this pool or, if it has none, of all others. */
static bool pools_relieve(struct pool *mine)
{
    bool less = pool_relieve(mine);

    for (struct pool *p = less ? NULL : pool_after(NULL), *next; p; p = next) {
        less = (p != mine && pool_relieve(p)) || less;
        next = pool_after(p);
        pool_unref(&p);
    }
    return less;
}

bool pool_spared(struct pool *p, int why)
{
    return (why == EMFILE || why == ENFILE) && pools_relieve(p);
}

bool pool_is_away(int why)
{
    return why == ENOTCONN || why == ECONNABORTED || why == ESTALE || why == ENODEV ||
           why == ESHUTDOWN || why == EHOSTDOWN;
}

/* Is the same type of file system mounted there?  Without one, the path gives the bare mount point. */
static bool pool_is_such(const void *ctx, int fd)
{
    const struct pool *p = ctx;
    struct stat st;

    return fstat(fd, &st) == 0 && place_of(fd).type == p->place.type;
}

static bool pool_come_back(struct pool *p)
{
    struct stat st;
    bool back;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&p->lock);
    back = reach_again(&p->reach, pool_is_such, p) && fstat(p->reach.root, &st) == 0;
    if (back)
        atomic_store(&p->dev, st.st_dev);
    return back;
}

void pool_revive(struct pool *p)
{
    struct statx x;

    if (statx(p->reach.root, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_TYPE, &x) != 0 &&
        pool_is_away(errno))
        (void)pool_come_back(p);
}

int pool_open(struct pool *p, const char *path, int flags)
{
    bool back = false;
    int fd, why;

    do {
        const int64_t began = zf_clock_ns();

        fd = reach_open(&p->reach, path, flags);
        why = errno;
        pace_note(&p->pace, began);
    } while (fd < 0 && (pool_spared(p, why) || (!back && p->place.far && pool_is_away(why) &&
                                                (back = pool_come_back(p)))));
    errno = why;
    return fd;
}

static bool pool_is_link(int fd)
{
    struct statx x;

    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &x) != 0 ||
           !(x.stx_mask & STATX_TYPE) || S_ISLNK(x.stx_mode);
}

/* Looks up the name alone if the kernel's entry for it has expired; the answer includes the attributes. */
static int pool_open_name(struct pool *p, int dir, const char *name, int *sync_out)
{
    int fd = beneath_cached(dir, name, O_PATH | O_NOFOLLOW, p->reach.xdev);

    *sync_out = AT_STATX_FORCE_SYNC;
    if (fd < 0 && errno == EAGAIN) {
        fd = beneath_open(dir, name, O_PATH | O_NOFOLLOW, p->reach.xdev);
        *sync_out = AT_STATX_SYNC_AS_STAT;
    }
    if (fd >= 0 && pool_is_link(fd)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

int pool_open_fresh(struct pool *p, const char *path, int *sync_out)
{
    const char *slash = strrchr(path, '/');
    zf_auto(mem) char *dir = slash ? strndup(path, (size_t)(slash - path)) : NULL;
    zf_auto(fd) int up = dir && p->place.user ? pool_open(p, dir, O_PATH | O_DIRECTORY) : -1;
    int fd = p->place.user && (up >= 0 || !slash)
                 ? pool_open_name(p, slash ? up : p->reach.root, slash ? slash + 1 : path, sync_out)
                 : -1;

    if (fd < 0) {
        *sync_out = AT_STATX_FORCE_SYNC;
        fd = pool_open(p, path, O_PATH);
    }
    return fd;
}

/* ---- places ---- */

/* Most places that are remembered. */
#define POOL_PLACES 64u

static bool pool_met(struct pool *p, uint64_t dev, struct place *out)
{
    bool met = dev == atomic_load_explicit(&p->dev, memory_order_relaxed);

    *out = p->place;
    if (met)
        return true;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&p->lock);
    for (size_t i = 0; i < p->places.n && !met; i++) {
        met = p->places.at[i].dev == dev;
        *out = met ? p->places.at[i].place : *out;
    }
    return met;
}

bool pool_knows(struct pool *p, uint64_t dev)
{
    struct place ignored;

    return pool_met(p, dev, &ignored);
}

static struct place pool_place(struct pool *p, uint64_t dev, int fd)
{
    struct zf_err ignored;
    struct place at;

    if (pool_met(p, dev, &at))
        return at;
    at = place_of(fd);
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&p->lock);
    struct pool_place *to =
        fd >= 0 && p->places.n < POOL_PLACES ? zf_vec_push(&p->places, &ignored) : NULL;
    if (to)
        *to = (struct pool_place){.dev = dev, .place = at};
    return at;
}

struct zf_identity pool_identity(struct pool *p, const struct stat *st, int fd)
{
    const struct place at = pool_place(p, st->st_dev, fd);

    return place_identity(&at, st);
}

static bool pool_link_slot(struct pool *p, struct slot *s)
{
    struct zf_err ignored;
    struct slot **to = zf_vec_push(&p->ring, &ignored);

    if (to) {
        *to = s;
        s->at = p->ring.n - 1;
        atomic_fetch_add_explicit(&pools_open, 1, memory_order_relaxed);
    }
    return to != NULL;
}

int pool_put(struct pool *p, struct slot *s, int fd)
{
    (void)pthread_mutex_lock(&p->lock);
    int now = slot_enter(s);

    if (now < 0) {
        pool_make_room(p);
        if (pool_link_slot(p, s)) {
            s->fd = now = fd;
            fd = -1;
            atomic_store_explicit(&s->hot, true, memory_order_relaxed);
            /* Off with the bit, in with one user, in one step. */
            atomic_fetch_sub_explicit(&s->users, ZF_SLOT_SHUT - 1, memory_order_acq_rel);
        }
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (fd >= 0)
        (void)close(fd);
    if (atomic_load_explicit(&pools_open, memory_order_relaxed) > p->most)
        pools_trim(p->most);
    return now;
}

void pool_drop(struct pool *p, struct slot *s)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&p->lock);
    if (!(atomic_load_explicit(&s->users, memory_order_relaxed) & ZF_SLOT_SHUT))
        (void)pool_shut(p, s);
}

/* The ring changes meanwhile: a slot that moved to a place that was passed is met the next time. */
static void pool_each(struct pool *p, bool (*hold)(struct slot *s), void (*look)(struct slot *s))
{
    bool more = true;

    for (size_t i = 0; more; i++) {
        struct slot *s = NULL;

        (void)pthread_mutex_lock(&p->lock);
        more = i < p->ring.n;
        s = more && hold(p->ring.at[i]) ? p->ring.at[i] : NULL;
        (void)pthread_mutex_unlock(&p->lock);
        if (s)
            look(s);
    }
}

void pools_each(bool (*hold)(struct slot *s), void (*look)(struct slot *s))
{
    struct pool *p = pool_after(NULL);

    while (p) {
        pool_each(p, hold, look);
        struct pool *next = pool_after(p);
        pool_unref(&p);
        p = next;
    }
}
