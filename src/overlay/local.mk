# SPDX-License-Identifier: Apache-2.0
# Trees laid over the tree of a checkpoint: /.zerofs/ with its log and index, all saves of a run, the list of what is lost.
noinst_LTLIBRARIES += libzf-overlay.la
libzf_overlay_la_SOURCES = \
	src/overlay/control.c \
	src/overlay/fingerprint.c \
	src/overlay/index.c \
	src/overlay/log.c \
	src/overlay/lost.c \
	src/overlay/run_list.c \
	src/overlay/runs.c \
	src/overlay/save.c \
	$(NULL)
libzf_overlay_la_LIBADD = $(JANSSON_LIBS)

noinst_HEADERS += \
	include/zf/overlay/control.h \
	include/zf/overlay/index.h \
	include/zf/overlay/log.h \
	include/zf/overlay/lost.h \
	include/zf/overlay/run_opts.h \
	include/zf/overlay/runs.h \
	src/overlay/fingerprint.h \
	src/overlay/run_list.h \
	src/overlay/save.h \
	$(NULL)
