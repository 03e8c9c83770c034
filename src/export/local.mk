# SPDX-License-Identifier: Apache-2.0
# Files of a tree written out, safe against a crash: plan, copy, journal, checksums.
noinst_LTLIBRARIES += libzf-export.la
libzf_export_la_SOURCES = \
	src/export/copy.c \
	src/export/crc.c \
	src/export/dest.c \
	src/export/journal.c \
	src/export/plan.c \
	src/export/settle.c \
	src/export/sums.c \
	$(NULL)
libzf_export_la_LIBADD = $(NETTLE_LIBS) $(ZLIB_LIBS)

noinst_HEADERS += \
	include/zf/export/copy.h \
	include/zf/export/dest.h \
	include/zf/export/journal.h \
	include/zf/export/plan.h \
	include/zf/export/run.h \
	include/zf/export/settle.h \
	include/zf/export/sums.h \
	src/export/crc.h \
	$(NULL)
