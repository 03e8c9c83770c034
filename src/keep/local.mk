# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-keep.la
libzf_keep_la_SOURCES = \
	src/keep/dir.c \
	src/keep/kinds.c \
	src/keep/load.c \
	src/keep/put.c \
	$(NULL)
libzf_keep_la_LIBADD =

noinst_HEADERS += \
	include/zf/keep.h \
	src/keep/dir.h \
	src/keep/keep.h \
	src/keep/kinds.h \
	$(NULL)
