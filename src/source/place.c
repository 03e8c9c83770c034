/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <linux/magic.h>
#include <sys/vfs.h>

/* File systems that are not local; all others are.  Numbers missing from (some versions of) the kernel's headers are
 * from statfs(2), Lustre's own header (2.15) and stat in coreutils 9.1. */
static const struct place place_table[] = {
    {.type = 0x65735546 /* FUSE */, .user = true},
    {.type = NFS_SUPER_MAGIC, .lasting = true},
    {.type = 0x0BD00BD0 /* Lustre */, .lasting = true},
    {.type = 0x00C36400 /* Ceph */, .lasting = true},
    {.type = 0x47504653 /* GPFS */, .lasting = true},
    {.type = 0x19830326 /* BeeGFS */, .lasting = true},
    {.type = 0xFF534D42 /* CIFS */},
    {.type = 0xFE534D42 /* SMB 2 */},
    {.type = SMB_SUPER_MAGIC},
    {.type = V9FS_MAGIC},
    {.type = AFS_SUPER_MAGIC},
    {.type = AFS_FS_MAGIC},
    {.type = CODA_SUPER_MAGIC},
};

struct place place_of(int fd)
{
    struct statfs s;

    if (fstatfs(fd, &s) != 0)
        return (struct place){.far = true, .user = true};
    struct place p = {.type = (uint32_t)s.f_type, .lasting = true};
    for (size_t i = 0; i < sizeof place_table / sizeof place_table[0]; i++) {
        if (place_table[i].type == p.type) {
            p = place_table[i];
            p.far = true;
        }
    }
    return p;
}

struct zf_identity place_identity(const struct place *p, const struct stat *st)
{
    struct zf_identity id = {
        .dev = p->far ? 0 : st->st_dev,
        .ino = p->lasting ? st->st_ino : 0,
        .size = (uint64_t)st->st_size,
        .mtime = st->st_mtim,
        .ctime = st->st_ctim,
        .meta = {.mode = st->st_mode,
                 .uid = st->st_uid,
                 .gid = st->st_gid,
                 .nlink = st->st_nlink > UINT32_MAX ? UINT32_MAX : (uint32_t)st->st_nlink},
    };
    if (!p->lasting && S_ISDIR(st->st_mode))
        id = (struct zf_identity){.meta = {.mode = st->st_mode}};
    return id;
}

void place_reduce(const struct zf_identity *was, struct zf_identity *now)
{
    now->dev = was->dev ? now->dev : 0;
    now->ino = was->ino ? now->ino : 0;
}

struct timespec place_clock(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now;
}

bool place_fresh(struct timespec ctime, struct timespec began)
{
    /* A ctime a second or more ahead, by another machine's clock, is not waited for. */
    return ctime.tv_sec == began.tv_sec
               ? ctime.tv_nsec >= began.tv_nsec
               : ctime.tv_sec == began.tv_sec + 1 && ctime.tv_nsec < began.tv_nsec;
}

static int64_t place_ns(const struct timespec *t)
{
    return t->tv_sec * INT64_C(1000000000) + t->tv_nsec;
}

/* Nanoseconds; FAR allows for the difference of two machines' clocks under NTP. */
#define PLACE_TICK 20000000
#define PLACE_FAR_TICK 200000000
#define PLACE_SECONDS 2000000000
/* Seconds. */
#define PLACE_DAY 86400

static bool place_racy_time(const struct timespec *t, const struct timespec *when, int64_t tick)
{
    const int64_t before = t->tv_nsec ? tick : PLACE_SECONDS;

    /* Nanoseconds of times far apart would overflow. */
    if (t->tv_sec < when->tv_sec - PLACE_DAY)
        return false;
    return t->tv_sec > when->tv_sec + PLACE_DAY || place_ns(t) >= place_ns(when) - before;
}

bool place_racy(const struct zf_identity *id, struct timespec when)
{
    if (!place_is_far(id))
        return place_racy_time(&id->ctime, &when, PLACE_TICK);
    return !place_timeless(id, when) && (place_racy_time(&id->ctime, &when, PLACE_FAR_TICK) ||
                                         place_racy_time(&id->mtime, &when, PLACE_FAR_TICK));
}

bool place_timeless(const struct zf_identity *id, struct timespec when)
{
    return id->mtime.tv_sec <= 0 || id->mtime.tv_sec > when.tv_sec + PLACE_DAY;
}
