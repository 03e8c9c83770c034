/* SPDX-License-Identifier: Apache-2.0 */
/* bench_pickle FILE…: how much processor time each pickle takes to read and how much memory its
 * values need.  Each is read in a process of its own, whose largest size is told too. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <zf/codec/pickle.h>

static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int bench(const char *path)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    struct rusage before, after;
    char text[800];
    FILE *f = fopen(path, "rb");

    if (!f || fseek(f, 0, SEEK_END) != 0) {
        perror(path);
        return 1;
    }
    size_t n = (size_t)ftell(f);
    rewind(f);
    zf_auto(mem) char *p = malloc(n + 1);
    if (!p || fread(p, 1, n, f) != n) {
        perror(path);
        return 1;
    }
    (void)fclose(f);
    (void)getrusage(RUSAGE_SELF, &before);
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(UINT64_MAX, &err);
    struct zf_bytes in = zf_bytes_of(p, n);
    double start = now();
    const struct zf_pv *v = arena ? zf_pickle_load(&in, arena, &lim, &err) : NULL;
    double took = now() - start;
    (void)getrusage(RUSAGE_SELF, &after);
    printf(
        "%-40s %10zu bytes %6.1f ns/byte  values %5.1f bytes/byte  process %5.1f bytes/byte%s%s\n",
        path, n, took / (double)n, arena ? (double)zf_arena_used(arena) / (double)n : 0.0,
        (double)(after.ru_maxrss - before.ru_maxrss) * 1024 / (double)n, v ? "" : "  ",
        v ? "" : zf_err_text(&err, text, sizeof text));
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        pid_t child = fork();
        if (child == 0)
            return bench(argv[i]);
        (void)waitpid(child, NULL, 0);
    }
    return 0;
}
