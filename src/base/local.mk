# SPDX-License-Identifier: Apache-2.0
# What every room uses and knows nothing of checkpoints: errors, arenas, tables, vectors, texts being written, the cursor over
# bytes, checked numbers, limits, dtypes, names, threads that make things ahead.
noinst_LTLIBRARIES += libzf-base.la
libzf_base_la_SOURCES = \
	src/base/ahead.c \
	src/base/arena.c \
	src/base/buffer.c \
	src/base/bytes.c \
	src/base/dtype.c \
	src/base/err.c \
	src/base/fd.c \
	src/base/glob.c \
	src/base/hash.c \
	src/base/hex.c \
	src/base/limits.c \
	src/base/name.c \
	src/base/utf8.c \
	src/base/nearest.c \
	src/base/num.c \
	src/base/out.c \
	src/base/path.c \
	src/base/sorted.c \
	src/base/thread.c \
	src/base/vec.c \
	src/base/version.c \
	$(NULL)
libzf_base_la_LIBADD = $(NETTLE_LIBS)

noinst_HEADERS += \
	include/zf/base/ahead.h \
	include/zf/base/arena.h \
	include/zf/base/auto.h \
	include/zf/base/buffer.h \
	include/zf/base/bytes.h \
	include/zf/base/clock.h \
	include/zf/base/dtype.h \
	include/zf/base/err.h \
	include/zf/base/fd.h \
	include/zf/base/glob.h \
	include/zf/base/hash.h \
	include/zf/base/hex.h \
	include/zf/base/limits.h \
	include/zf/base/name.h \
	include/zf/base/utf8.h \
	include/zf/base/nearest.h \
	include/zf/base/num.h \
	include/zf/base/out.h \
	include/zf/base/path.h \
	include/zf/base/soon.h \
	include/zf/base/sorted.h \
	include/zf/base/table.h \
	include/zf/base/thread.h \
	include/zf/base/vec.h \
	include/zf/base/version.h \
	$(NULL)
