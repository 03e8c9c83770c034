# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-fs.la
libzf_fs_la_SOURCES = \
	src/fs/ahead.c \
	src/fs/attach.c \
	src/fs/mode.c \
	src/fs/mountpoint.c \
	src/fs/ops.c \
	src/fs/park.c \
	src/fs/serve.c \
	src/fs/xattrs.c \
	$(NULL)
libzf_fs_la_LIBADD = $(FUSE_LIBS)

noinst_HEADERS += \
	include/zf/fs.h \
	include/zf/mountpoint.h \
	$(NULL)

noinst_HEADERS += \
	src/fs/ahead.h \
	src/fs/attach.h \
	src/fs/mode.h \
	src/fs/park.h \
	src/fs/session.h \
	$(NULL)
