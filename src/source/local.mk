# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-source.la
libzf_source_la_SOURCES = \
	src/source/empty.c \
	$(NULL)
libzf_source_la_LIBADD = $(ZLIB_LIBS) $(ZSTD_LIBS)

noinst_HEADERS += \
	include/zf/source/items.h \
	include/zf/source/source.h \
	include/zf/source/store.h \
	$(NULL)
