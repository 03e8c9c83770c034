/* SPDX-License-Identifier: Apache-2.0 */
/* bench_read seq FILE…      seconds to read the files from end to end, 1 MiB a call
 * bench_read crc FILE…      the same with zlib's crc32 of the bytes
 * bench_read share N FILE…  the same by N threads at once, each of which has an equal share of the bytes
 * bench_read random FILE N SIZE  median microseconds of N preads of SIZE bytes all over the file
 * bench_read map FILE…      seconds to copy the files out of maps of them
 * bench_read mapped FILE N  median microseconds of N faults all over a map of the file
 * bench_read walk DIR       seconds to list a directory and all below, and ask for every entry's attributes
 * bench_read tree CKPT PATH [N]  seconds to read a file of a checkpoint's tree without a kernel between, at N places
 *                           in turn, as of readers that are slower than we are
 * bench_read pick CKPT PATH N SIZE  median microseconds of N reads of SIZE bytes all over such a file
 */
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include <zf/find.h>
#include <zf/view.h>

#define BLOCK (1u << 20)

static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static int seq(char **path, bool crc, void *buf)
{
    unsigned long sum = 0;
    double start = now();

    for (; *path; path++) {
        int fd = open(*path, O_RDONLY);
        ssize_t n;

        if (fd < 0)
            return fail(*path);
        for (off_t off = 0; (n = pread(fd, buf, BLOCK, off)) > 0; off += n)
            sum = crc ? crc32_z(sum, buf, (size_t)n) : 0;
        (void)close(fd);
        if (n < 0)
            return fail(*path);
    }
    printf("%.9f\n", now() - start);
    return 0;
}

/* Bytes [begin, end) of the files one after the other. */
struct share {
    pthread_t thread;
    pthread_barrier_t *start;
    char **path;
    void *buf;
    off_t begin, end;
    bool ok;
};

/* [begin, end): of this one file */
static bool share_file(const char *path, void *buf, off_t begin, off_t end)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = 1;

    for (off_t at = begin; fd >= 0 && at < end && n > 0; at += n)
        n = pread(fd, buf, end - at < BLOCK ? (size_t)(end - at) : BLOCK, at);
    return fd >= 0 && close(fd) == 0 && n > 0;
}

static void *share_read(void *arg)
{
    struct share *s = arg;
    off_t file = 0;

    (void)pthread_barrier_wait(s->start);
    s->ok = true;
    for (char **path = s->path; s->ok && *path; path++) {
        struct stat st;

        s->ok = stat(*path, &st) == 0;
        const off_t begin = s->begin > file ? s->begin - file : 0;
        const off_t end = s->end - file < st.st_size ? s->end - file : st.st_size;
        s->ok = s->ok && (begin >= end || share_file(*path, s->buf, begin, end));
        file += st.st_size;
    }
    return NULL;
}

static int share_all(char **path, size_t n)
{
    struct share s[64];
    pthread_barrier_t start;
    struct stat st;
    off_t total = 0;
    bool ok = true;

    for (char **p = path; *p; p++) {
        if (stat(*p, &st) != 0)
            return fail(*p);
        total += st.st_size;
    }
    if (n == 0 || n > sizeof s / sizeof *s ||
        pthread_barrier_init(&start, NULL, (unsigned)n + 1) != 0)
        return 2;
    for (size_t i = 0; i < n; i++) {
        s[i] = (struct share){.start = &start,
                              .path = path,
                              .buf = aligned_alloc(4096, BLOCK),
                              .begin = total / (off_t)n * (off_t)i,
                              .end = i + 1 < n ? total / (off_t)n * (off_t)(i + 1) : total};
        if (!s[i].buf || pthread_create(&s[i].thread, NULL, share_read, &s[i]) != 0)
            return fail("thread");
        memset(s[i].buf, 1, BLOCK);
    }
    (void)pthread_barrier_wait(&start);
    double begun = now();
    for (size_t i = 0; i < n; i++) {
        ok = pthread_join(s[i].thread, NULL) == 0 && s[i].ok && ok;
        free(s[i].buf);
    }
    printf("%.9f\n", now() - begun);
    return ok ? 0 : fail("read");
}

static int map_all(char **path, void *buf)
{
    double start = now();

    for (; *path; path++) {
        int fd = open(*path, O_RDONLY);
        struct stat st;
        if (fd < 0 || fstat(fd, &st) != 0)
            return fail(*path);
        const size_t size = (size_t)st.st_size;
        const char *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            return fail(*path);
        for (size_t off = 0; off < size; off += BLOCK)
            memcpy(buf, map + off, size - off < BLOCK ? size - off : BLOCK);
        (void)munmap((void *)map, size);
        (void)close(fd);
    }
    printf("%.9f\n", now() - start);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

#define SEED 88172645463325252ull

/* xorshift64 */
static unsigned long long any(unsigned long long *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* size: of a pread; 0 = one byte of a map */
static int at_random(const char *path, size_t count, size_t size, void *buf)
{
    zf_auto(mem) double *took = calloc(count ? count : 1, sizeof *took);
    unsigned long long seed = SEED;
    int fd = open(path, O_RDONLY);
    struct stat st;
    const volatile char *map = NULL;
    const size_t step = size ? size : 4096;

    if (!took || fd < 0 || fstat(fd, &st) != 0 || (size_t)st.st_size < step || step > BLOCK)
        return fail(path);
    if (size == 0 &&
        (map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0)) == MAP_FAILED)
        return fail(path);
    for (size_t i = 0; i < count; i++) {
        off_t at = (off_t)(any(&seed) % ((unsigned long long)st.st_size / step) * step);
        double start = now();

        if (map)
            (void)map[at];
        else if (pread(fd, buf, size, at) != (ssize_t)size)
            return fail(path);
        took[i] = now() - start;
    }
    (void)close(fd);
    qsort(took, count, sizeof *took, by_value);
    printf("%.3f\n", took[count / 2] * 1e6);
    return 0;
}

static int see(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)path, (void)st, (void)type, (void)ftw;
    return 0;
}

static int walk(const char *path)
{
    double start = now();

    if (nftw(path, see, 64, FTW_PHYS) != 0)
        return fail(path);
    printf("%.9f\n", now() - start);
    return 0;
}

static struct zf_tree *open_tree(const char *path, const struct zf_limits *lim, struct zf_err *err)
{
    struct zf_open_opts how = {.lim = lim};
    struct zf_view_opts view = {.lim = lim};
    zf_auto(store) struct zf_store *st = zf_store_dir(path, lim, err);
    struct zf_checkpoint *c = st ? zf_open(st, &how, err) : NULL;

    return c ? zf_tree_new(c, &view, err) : NULL;
}

static bool tree_in_turn(struct zf_tree *t, const struct zf_stat *st, size_t places, void *buf,
                         struct zf_err *err)
{
    const uint64_t part = st->size / places + 1;
    bool ok = true;
    size_t got;

    for (uint64_t into = 0; ok && into < part; into += BLOCK) {
        for (size_t i = 0; ok && i < places; i++) {
            ok = t->ops->read(t, st->ino, buf, part - into < BLOCK ? (size_t)(part - into) : BLOCK,
                              i * part + into, &got, err);
        }
    }
    return ok;
}

static bool tree_at_random(struct zf_tree *t, const struct zf_stat *st, double *took, size_t n,
                           size_t size, void *buf, struct zf_err *err)
{
    unsigned long long seed = SEED;
    bool ok = true;
    size_t got;

    for (size_t i = 0; ok && i < n; i++) {
        double start = now();

        ok = t->ops->read(t, st->ino, buf, size, any(&seed) % (st->size / size) * size, &got, err);
        took[i] = (now() - start) * 1e6;
    }
    return ok;
}

/* n reads of `size` bytes each all over the file; n = 0: all of it, at so many places in turn */
static int tree(const char *ckpt, const char *path, size_t places, size_t n, size_t size, void *buf)
{
    struct zf_limits lim = zf_limits_default();
    zf_auto(mem) double *took = calloc(n ? n : 1, sizeof *took);
    struct zf_err err;
    struct zf_stat st;
    char text[800];
    zf_auto(tree) struct zf_tree *t = open_tree(ckpt, &lim, &err);

    if (!t || !zf_tree_walk(t, path, &st)) {
        fprintf(stderr, "%s\n", t ? path : zf_err_text(&err, text, sizeof text));
        return 1;
    }
    if (!took || places == 0 || (n && (size == 0 || size > BLOCK || size > st.size)))
        return 2;
    double start = now();
    if (!(n ? tree_at_random(t, &st, took, n, size, buf, &err)
            : tree_in_turn(t, &st, places, buf, &err))) {
        fprintf(stderr, "%s\n", zf_err_text(&err, text, sizeof text));
        return 1;
    }
    double all = now() - start;
    qsort(took, n, sizeof *took, by_value);
    printf("%.9f\n", n ? took[n / 2] : all);
    return 0;
}

int main(int argc, char **argv)
{
    zf_auto(mem) void *buf = aligned_alloc(4096, BLOCK);

    if (!buf || argc < 3)
        return 2;
    memset(buf, 1, BLOCK);
    if (strcmp(argv[1], "seq") == 0 || strcmp(argv[1], "crc") == 0)
        return seq(argv + 2, strcmp(argv[1], "crc") == 0, buf);
    if (argc > 3 && strcmp(argv[1], "share") == 0)
        return share_all(argv + 3, strtoul(argv[2], NULL, 10));
    if (strcmp(argv[1], "map") == 0)
        return map_all(argv + 2, buf);
    if (argc == 5 && strcmp(argv[1], "random") == 0)
        return at_random(argv[2], strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10), buf);
    if (argc == 4 && strcmp(argv[1], "mapped") == 0)
        return at_random(argv[2], strtoul(argv[3], NULL, 10), 0, buf);
    if (argc == 3 && strcmp(argv[1], "walk") == 0)
        return walk(argv[2]);
    if (argc == 6 && strcmp(argv[1], "pick") == 0) {
        return tree(argv[2], argv[3], 1, strtoul(argv[4], NULL, 10), strtoul(argv[5], NULL, 10),
                    buf);
    }
    if ((argc == 4 || argc == 5) && strcmp(argv[1], "tree") == 0)
        return tree(argv[2], argv[3], argc == 5 ? strtoul(argv[4], NULL, 10) : 1, 0, 0, buf);
    return 2;
}
