# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-fs.la
libzf_fs_la_SOURCES = \
	src/fs/empty.c \
	$(NULL)
libzf_fs_la_LIBADD = $(FUSE_LIBS)

noinst_HEADERS += \
	include/zf/fs.h \
	$(NULL)
