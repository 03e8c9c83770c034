dnl SPDX-License-Identifier: Apache-2.0
dnl ZF_NEED(VAR, PKG-CONFIG SPEC, DEBIAN PACKAGE): a library without which there is no zerofs.
AC_DEFUN([ZF_NEED],
  [PKG_CHECK_MODULES([$1], [$2], [],
    [AC_MSG_ERROR([$2 was not found by pkg-config; on Debian: apt-get install $3])])])

dnl ZF_SYSTEM_HEADERS(VARS): turns -I into -isystem in each VAR_CFLAGS, so that a warning inside a
dnl library's header (libfuse 3.17 has some under -Wpedantic) does not stop our build.
AC_DEFUN([ZF_SYSTEM_HEADERS],
  [m4_foreach_w([zf_var], [$1],
    [zf_var[]_CFLAGS=`AS_ECHO([" $zf_var[]_CFLAGS"]) | sed 's/ -I/ -isystem /g'`
])])

dnl ZF_CHECK_FUSE: libfuse 3.10 is enough; what later versions added is used where it is.
AC_DEFUN([ZF_CHECK_FUSE],
  [save_CPPFLAGS=$CPPFLAGS
   CPPFLAGS="$CPPFLAGS -D_GNU_SOURCE -DFUSE_USE_VERSION=312 $FUSE_CFLAGS"
   zf_fuse_features=`$PKG_CONFIG --modversion fuse3`
   AC_CHECK_MEMBER([struct fuse_file_info.noflush],
     [AC_DEFINE([HAVE_FUSE_NOFLUSH], [1], [libfuse can tell the kernel to send no FLUSH (3.11)])],
     [zf_fuse_features="$zf_fuse_features, without noflush"],
     [[#include <fuse_lowlevel.h>]])
   AC_CHECK_DECL([fuse_loop_cfg_create],
     [AC_DEFINE([HAVE_FUSE_LOOP_CFG], [1], [libfuse bounds the threads of its loop (3.12)])],
     [zf_fuse_features="$zf_fuse_features, without a thread bound"],
     [[#include <fuse_lowlevel.h>]])
   CPPFLAGS=$save_CPPFLAGS])

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

dnl ZF_MAY(switch, VARIABLE, pkg-config module, Debian package, what it is for, [header, library, function]):
dnl --with-SWITCH, --without-SWITCH, or when it is there.  The last three find a library that some systems ship
dnl without its pkg-config file.
AC_DEFUN([ZF_MAY], [
  AC_ARG_WITH([$1], [AS_HELP_STRING([--without-$1], [do without $5])], [], [with_$1=auto])
  AS_IF([test "x$with_$1" != xno],
    [PKG_CHECK_MODULES([$2], [$3], [zf_found=yes], [zf_found=no])
     m4_ifval([$6], [AS_IF([test $zf_found = no],
       [AC_CHECK_HEADER([$6], [AC_CHECK_LIB([$7], [$8], [zf_found=yes; $2_LIBS=-l$7])])])])
     AS_IF([test "x$with_$1$zf_found" = xyesno],
       [AC_MSG_ERROR([$3 was not found; on Debian: apt-get install $4])])
     with_$1=$zf_found])
  AS_IF([test "x$with_$1" = xyes], [AC_DEFINE([HAVE_$2], [1], [there is $5])])
])

dnl ZF_SONAME(VARIABLE, function): the library of VARIABLE is loaded at run time: defines VARIABLE_SONAME, the name
dnl that a program linked with it asks for (distributions build libcurl under several), and DL_LIBS.
AC_DEFUN([ZF_SONAME], [
  zf_save_LIBS=$LIBS
  AC_SEARCH_LIBS([dlopen], [dl], [], [AC_MSG_ERROR([there is no dlopen])])
  AS_CASE(["$ac_cv_search_dlopen"], [-l*], [DL_LIBS=$ac_cv_search_dlopen], [DL_LIBS=])
  AC_SUBST([DL_LIBS])
  LIBS="$$1_LIBS $zf_save_LIBS"
  AC_ARG_VAR([$1_SONAME], [run-time name of $1_LIBS, where it cannot be linked to learn it])
  AC_MSG_CHECKING([what $$1_LIBS is called at run time])
  AS_IF([test -n "$$1_SONAME"], [zf_soname=$$1_SONAME],
   [AC_LINK_IFELSE([AC_LANG_PROGRAM([[char $2(void);]], [[return $2();]])],
    [zf_soname=`${READELF-readelf} -d conftest$EXEEXT 2>/dev/null |
       sed -n 's/.*(NEEDED).*\@<:@\(.*\)\@:>@.*/\1/p' | grep -i '^lib@<:@^.@:>@*'m4_tolower([$1]) | head -n 1`],
    [zf_soname=])])
  LIBS=$zf_save_LIBS
  AC_MSG_RESULT([$zf_soname])
  AS_IF([test -z "$zf_soname"], [AC_MSG_ERROR([readelf does not say what $$1_LIBS is called])])
  AC_DEFINE_UNQUOTED([$1_SONAME], ["$zf_soname"], [what a program linked with it would ask for])
])
