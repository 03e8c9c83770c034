# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-view.la
libzf_view_la_SOURCES = \
	src/view/empty.c \
	$(NULL)
libzf_view_la_LIBADD = 

noinst_HEADERS += \
	include/zf/tree.h \
	include/zf/view.h \
	$(NULL)
