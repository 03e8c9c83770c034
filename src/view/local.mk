# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-view.la
libzf_view_la_SOURCES = \
	src/view/bulk.c \
	src/view/bulk.h \
	src/view/bulk_safetensors.c \
	src/view/bulk_torch.c \
	src/view/each.c \
	src/view/hf.c \
	src/view/hf.h \
	src/view/lost.c \
	src/view/lost.h \
	src/view/nodes.c \
	src/view/nodes.h \
	src/view/layout.c \
	src/view/shelf.c \
	src/view/shelf.h \
	src/view/show.c \
	src/view/show.h \
	src/view/sources.c \
	src/view/sources.h \
	src/view/through.c \
	src/view/tree.c \
	src/view/tree.h \
	src/view/walk.c \
	src/view/xattr.c \
	$(NULL)
libzf_view_la_LIBADD =

noinst_HEADERS += \
	include/zf/each.h \
	include/zf/tree.h \
	include/zf/view.h \
	$(NULL)
