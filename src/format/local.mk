# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-format.la
libzf_format_la_SOURCES = \
	src/format/empty.c \
	$(NULL)
libzf_format_la_LIBADD = 

noinst_HEADERS += \
	include/zf/format.h \
	$(NULL)
