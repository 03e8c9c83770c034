/* SPDX-License-Identifier: Apache-2.0 */
/* Replays files through a fuzz target without libFuzzer and speaks TAP: each file whole and cut at
 * every place.  Without arguments: the corpus of the target, found by the program's name. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

/* Beyond this only the whole file is tried. */
#define CUT_MAX 4096

static int count;

static void try_cut(const uint8_t *data, size_t n)
{
    /* Memory of the exact size, so that a sanitizer sees the first byte read beyond it. */
    uint8_t *copy = malloc(n ? n : 1);

    if (!copy)
        abort();
    if (n)
        memcpy(copy, data, n);
    (void)LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static void try_file(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *f = fopen(path, "rb");

    if (!f) {
        printf("not ok %d - %s: %s\n", ++count, path, strerror(errno));
        return;
    }
    size_t n = fread(data, 1, sizeof data, f);
    (void)fclose(f);
    for (size_t cut = 0; n <= CUT_MAX && cut < n; cut++)
        try_cut(data, cut);
    try_cut(data, n);
    const char *name = strrchr(path, '/');
    printf("ok %d - %s\n", ++count, name ? name + 1 : path);
    (void)fflush(stdout);
}

static void try_corpus(const char *program)
{
    const char *top = getenv("top_srcdir"), *name = strstr(program, "fuzz_");
    struct dirent **list;
    char dir[2048], path[4096];

    while (name && strstr(name + 1, "fuzz_"))
        name = strstr(name + 1, "fuzz_");
    (void)snprintf(dir, sizeof dir, "%s/tests/fuzz/corpus/%s", top ? top : ".",
                   name ? name + strlen("fuzz_") : program);
    int n = scandir(dir, &list, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (list[i]->d_name[0] != '.') {
            (void)snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);
            try_file(path);
        }
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    if (count == 0)
        printf("not ok %d - no corpus in %s\n", ++count, dir);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        try_file(argv[i]);
    if (argc == 1)
        try_corpus(argv[0]);
    printf("1..%d\n", count);
    return 0;
}
