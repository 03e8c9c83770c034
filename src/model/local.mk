# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-model.la
libzf_model_la_SOURCES = \
	src/model/box.c \
	src/model/box.h \
	src/model/boxtree.c \
	src/model/boxtree.h \
	src/model/build.c \
	src/model/cast.c \
	src/model/cast_avx2.c \
	src/model/cast_kernels.h \
	src/model/cast_scalar.c \
	src/model/castmap.c \
	src/model/draft.c \
	src/model/draft.h \
	src/model/flat.c \
	src/model/flat.h \
	src/model/gather.c \
	src/model/grid.c \
	src/model/grid.h \
	src/model/grid_kind.h \
	src/model/gridmake.c \
	src/model/loss.c \
	src/model/map.c \
	src/model/map_kind.h \
	src/model/model.c \
	src/model/parts.c \
	src/model/prove.c \
	src/model/prove.h \
	src/model/seal.c \
	src/model/select.c \
	src/model/sources.c \
	src/model/sources.h \
	$(NULL)
libzf_model_la_LIBADD = 

noinst_HEADERS += \
	include/zf/model/build.h \
	include/zf/model/cast.h \
	include/zf/model/map.h \
	include/zf/model/model.h \
	$(NULL)
