dnl SPDX-License-Identifier: Apache-2.0
dnl ZF_NEED(VAR, PKG-CONFIG SPEC, DEBIAN PACKAGE): a library without which there is no zerofs.
AC_DEFUN([ZF_NEED],
  [PKG_CHECK_MODULES([$1], [$2], [],
    [AC_MSG_ERROR([$2 was not found by pkg-config; on Debian: apt-get install $3])])])

dnl AX_ZF_COMPILER: C17 and the warnings the whole tree is clean at.  `cleanup` attributes and checked
dnl arithmetic built-ins make GCC and Clang the only compilers.
AC_DEFUN([AX_ZF_COMPILER],
  [AC_MSG_CHECKING([for C17 with the cleanup attribute])
   save_CFLAGS=$CFLAGS
   CFLAGS="$CFLAGS -std=gnu17"
   AC_COMPILE_IFELSE(
     [AC_LANG_PROGRAM([[static void f(int *p) { (void)p; }
                        _Static_assert(__STDC_VERSION__ >= 201710L, "C17");]],
                      [[int x __attribute__((cleanup(f))) = 0; return __builtin_add_overflow(x, 1, &x);]])],
     [AC_MSG_RESULT([yes])],
     [AC_MSG_ERROR([no; zerofs needs GCC or Clang with C17])])
   CFLAGS=$save_CFLAGS
   ZF_CFLAGS="-std=gnu17 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -fvisibility=hidden -pthread"
   ZF_LDFLAGS="-pthread"])
