/* SPDX-License-Identifier: Apache-2.0 */
#include "broken_io.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "next.h"

const char *const broken_kind_name[] = {"open", "stat", "list", "read", "heap"};

enum { FDS = 4096, POINTS = 16384 };

static pthread_mutex_t broken_lock = PTHREAD_MUTEX_INITIALIZER;
static char broken_path_of[FDS][256]; /* of open descriptors; "" = the root, or not known */
static struct broken_point broken_point_of[POINTS];
static size_t broken_n_points;
static struct broken_plan broken_now;
static atomic_bool broken_on, broken_has_plan;
static atomic_long broken_n, broken_n_heap, broken_n_failed;

void broken_begin(const struct broken_plan *plan)
{
    broken_now = plan ? *plan : (struct broken_plan){.why = 0};
    broken_n = broken_n_heap = broken_n_failed = 0;
    broken_has_plan = plan != NULL;
    broken_on = true;
}

long broken_end(void)
{
    broken_on = false;
    return broken_n_failed;
}

long broken_calls(void)
{
    return broken_n;
}

long broken_heap_calls(void)
{
    return broken_n_heap;
}

size_t broken_points(const struct broken_point **out)
{
    *out = broken_point_of;
    return broken_n_points;
}

void broken_forget(void)
{
    broken_n_points = 0;
}

static void broken_write_down(enum broken_kind kind, const char *path)
{
    (void)pthread_mutex_lock(&broken_lock);
    size_t i = 0;
    while (i < broken_n_points &&
           (broken_point_of[i].kind != kind || strcmp(broken_point_of[i].path, path) != 0))
        i++;
    if (i == broken_n_points && i < POINTS) {
        broken_point_of[i].kind = kind;
        (void)snprintf(broken_point_of[i].path, sizeof broken_point_of[i].path, "%s", path);
        broken_n_points++;
    }
    (void)pthread_mutex_unlock(&broken_lock);
}

/* Does this call fail?  Sets errno. */
static bool broken_here(enum broken_kind kind, const char *path)
{
    if (!broken_on)
        return false;
    const struct broken_plan *p = &broken_now;
    long n = ++broken_n;

    if (!broken_has_plan) {
        broken_write_down(kind, path);
        return false;
    }
    if (p->kind == BROKEN_HEAP ||
        (p->path ? p->kind != kind || strcmp(p->path, path) != 0 : n != p->at))
        return false;
    broken_n_failed++;
    errno = p->why;
    return true;
}

static const char *broken_fd(int fd)
{
    return fd >= 0 && fd < FDS ? broken_path_of[fd] : "";
}

/* ---- what stands in front ------------------------------------------------------------------------ */

long syscall(long number, ...)
{
    va_list ap;

    va_start(ap, number);
    const struct next_args args = next_args(ap);
    const long *a = args.a;
    va_end(ap);
    if (number != SYS_openat2)
        return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    char path[256];
    const char *dir = broken_fd((int)a[0]), *name = (const char *)(uintptr_t)a[1];

    name = strcmp(name, ".") == 0 ? "" : name;
    if (snprintf(path, sizeof path, "%s%s%s", dir, *dir && *name ? "/" : "", name) < 0 ||
        broken_here(BROKEN_OPEN, path))
        return -1;
    long fd = NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (fd >= 0 && fd < FDS)
        memcpy(broken_path_of[fd], path, sizeof path);
    return fd;
}

int close(int fd)
{
    if (fd >= 0 && fd < FDS)
        broken_path_of[fd][0] = '\0';
    return NEXT(close)(fd);
}

/* Before 2.33 glibc had no functions of these names that could be stood in front of. */
#if !defined(__GLIBC__) || __GLIBC_PREREQ(2, 33)
int fstat(int fd, struct stat *st)
{
    return broken_here(BROKEN_STAT, broken_fd(fd)) ? -1 : NEXT(fstat)(fd, st);
}

int fstatat(int fd, const char *name, struct stat *st, int flags)
{
    char path[256];
    const char *dir = broken_fd(fd);

    return snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", name) < 0 ||
                   broken_here(BROKEN_STAT, path)
               ? -1
               : NEXT(fstatat)(fd, name, st, flags);
}

#endif

struct dirent *readdir(DIR *d)
{
    return broken_here(BROKEN_LIST, broken_fd(dirfd(d))) ? NULL : NEXT(readdir)(d);
}

ssize_t pread(int fd, void *p, size_t n, off_t off)
{
    return broken_here(BROKEN_READ, broken_fd(fd)) ? -1 : NEXT(pread)(fd, p, n, off);
}

ssize_t preadv(int fd, const struct iovec *v, int n, off_t off)
{
    return broken_here(BROKEN_READ, broken_fd(fd)) ? -1 : NEXT(preadv)(fd, v, n, off);
}

/* ---- the heap -------------------------------------------------------------------------------------- */

/* A sanitizer brings a heap of its own. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#include <execinfo.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);

/* The places that asked since the program began, in a table by hash, and which of the calls of this run were the first. */
enum { PLACES = 1 << 16, CALLS = 1 << 20 };
static uint64_t broken_place[PLACES];
static uint8_t broken_new[CALLS / 8];
static _Thread_local bool broken_looks; /* backtrace() may ask the heap */

__attribute__((noinline)) static void broken_note_place(long at)
{
    void *up[6];
    uint64_t hash = 1;

    if (at >= CALLS)
        return;
    broken_looks = true;
    const int n = backtrace(up, 6); /* here, broken_heap, malloc, then who asks */
    broken_looks = false;
    for (int i = 3; i < n; i++)
        hash = (hash ^ (uintptr_t)up[i]) * 0x9e3779b97f4a7c15u;
    (void)pthread_mutex_lock(&broken_lock);
    size_t k = hash >> 48;
    for (size_t tries = 0; tries < PLACES && broken_place[k] && broken_place[k] != hash; tries++)
        k = (k + 1) % PLACES;
    broken_new[at / 8] &= (uint8_t) ~(1u << at % 8);
    broken_new[at / 8] |= (uint8_t)((broken_place[k] != hash) << at % 8);
    broken_place[k] = hash;
    (void)pthread_mutex_unlock(&broken_lock);
}

bool broken_heap_is_new(long at)
{
    return at < CALLS && broken_new[at / 8] >> at % 8 & 1;
}

__attribute__((noinline)) static bool broken_heap(void)
{
    if (!broken_on || broken_looks)
        return false;
    const long at = ++broken_n_heap;
    if (!broken_has_plan)
        broken_note_place(at);
    if (at != broken_now.at || !broken_has_plan || broken_now.kind != BROKEN_HEAP)
        return false;
    broken_n_failed++;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n)
{
    return broken_heap() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t each)
{
    return broken_heap() ? NULL : __libc_calloc(n, each);
}

void *realloc(void *p, size_t n)
{
    return broken_heap() ? NULL : __libc_realloc(p, n);
}

bool broken_has_heap(void)
{
    return true;
}
#else
bool broken_has_heap(void)
{
    return false;
}

bool broken_heap_is_new(long at)
{
    (void)at;
    return false;
}
#endif
