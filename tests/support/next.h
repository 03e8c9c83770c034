/* SPDX-License-Identifier: Apache-2.0 */
/* For functions that stand in front of libc's of the same name. */
#ifndef TESTS_SUPPORT_NEXT_H
#define TESTS_SUPPORT_NEXT_H

#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>

/* openat2, which glibc has no name for, comes by syscall(2). */
#ifndef SYS_openat2
#define SYS_openat2 437
#endif

/* libc's. */
#define NEXT(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))

/* The arguments of syscall(2): six, whatever they are. */
struct next_args {
    long a[6];
};

static inline struct next_args next_args(va_list ap)
{
    struct next_args n;

    for (int i = 0; i < 6; i++)
        n.a[i] = va_arg(ap, long);
    return n;
}

#endif
