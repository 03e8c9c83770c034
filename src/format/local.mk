# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-format.la
libzf_format_la_SOURCES = \
	src/format/hashes.c \
	src/format/names.c \
	src/format/text.c \
	$(NULL)
libzf_format_la_LIBADD = 

noinst_HEADERS += \
	include/zf/format.h \
	src/format/hashes.h \
	src/format/names.h \
	src/format/text.h \
	$(NULL)
