# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-find.la
libzf_find_la_SOURCES = \
	src/find/foreign.c \
	src/find/latest.c \
	src/find/locate.c \
	src/find/loose.c \
	src/find/match.c \
	src/find/newer.c \
	src/find/open.c \
	src/find/promise.c \
	src/find/save_name.c \
	src/find/save_word.c \
	src/find/saves.c \
	src/find/sidefiles.c \
	src/find/table.c \
	$(NULL)
libzf_find_la_LIBADD =

noinst_HEADERS += \
	include/zf/find.h \
	src/find/foreign.def \
	src/find/foreign.h \
	src/find/latest.h \
	src/find/locate.h \
	src/find/loose.h \
	src/find/match.h \
	src/find/newer.h \
	src/find/promise.h \
	src/find/save_name.h \
	src/find/save_word.h \
	src/find/saves.h \
	src/find/sidefiles.h \
	src/find/table.def \
	src/find/table.h \
	$(NULL)
