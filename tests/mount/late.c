/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: the supervisor of a mount is slow.  When the process called "fuse-guard" opens the path ZEROFS_LATE_AT for
 * the ZEROFS_LATE_OPEN-th time it waits until the file ZEROFS_LATE_GATE is gone, half a minute at most. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static int opened;

static void wait_for_gate(const char *path)
{
    const char *at = getenv("ZEROFS_LATE_AT"), *gate = getenv("ZEROFS_LATE_GATE"),
               *nth = getenv("ZEROFS_LATE_OPEN");
    char name[16] = "";

    (void)prctl(PR_GET_NAME, name, 0, 0, 0);
    if (!at || !gate || !nth || strcmp(name, "fuse-guard") != 0 || strcmp(path, at) != 0 ||
        ++opened != atoi(nth))
        return;
    for (int i = 0; i < 30000 && access(gate, F_OK) == 0; i++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static int next_open(const char *name, const char *path, int flags, mode_t mode)
{
    int (*next)(const char *, int, ...) =
        (int (*)(const char *, int, ...))(uintptr_t)dlsym(RTLD_NEXT, name);

    wait_for_gate(path);
    return next(path, flags, mode);
}

/* libc declares them with attributes of its own. */
#define OPEN(name)                                                                                 \
    int late_##name(const char *path, int flags, ...) __asm__(#name);                              \
    int late_##name(const char *path, int flags, ...)                                              \
    {                                                                                              \
        va_list ap;                                                                                \
                                                                                                   \
        va_start(ap, flags);                                                                       \
        mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;                                    \
        va_end(ap);                                                                                \
        return next_open(#name, path, flags, mode);                                                \
    }
OPEN(open)
OPEN(open64)
