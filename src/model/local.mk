# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-model.la
libzf_model_la_SOURCES = \
	src/model/box.c \
	src/model/box_gather.c \
	src/model/box_source.c \
	src/model/box_tree.c \
	src/model/build.c \
	src/model/cast.c \
	src/model/cast_avx2.c \
	src/model/cast_avx512.c \
	src/model/cast_scalar.c \
	src/model/cast_tiny.c \
	src/model/cast_tiny_avx2.c \
	src/model/cast_vbmi.c \
	src/model/cast_vector.c \
	src/model/draft.c \
	src/model/draft_box.c \
	src/model/draft_copy.c \
	src/model/draft_index.c \
	src/model/draft_read.c \
	src/model/draft_run.c \
	src/model/draft_slots.c \
	src/model/draft_unflatten.c \
	src/model/grid_keep.c \
	src/model/grid_prove.c \
	src/model/loss.c \
	src/model/map.c \
	src/model/map_cast.c \
	src/model/map_flat.c \
	src/model/map_grid.c \
	src/model/map_parts.c \
	src/model/map_slice.c \
	src/model/map_slots.c \
	src/model/model.c \
	src/model/pack.c \
	src/model/pieces.c \
	src/model/scaffold.c \
	src/model/seal.c \
	src/model/select.c \
	src/model/sources.c \
	src/model/turn.c \
	src/model/undo.c \
	src/model/unpack.c \
	$(NULL)
libzf_model_la_LIBADD =

noinst_HEADERS += \
	include/zf/model/build.h \
	include/zf/model/cast.h \
	include/zf/model/map.h \
	include/zf/model/model.h \
	include/zf/model/pack.h \
	src/model/box.h \
	src/model/box_tree.h \
	src/model/build_kind.h \
	src/model/cast_kernels.h \
	src/model/cast_tiny.h \
	src/model/draft.h \
	src/model/draft_index.h \
	src/model/grid_kind.h \
	src/model/map_flat.h \
	src/model/map_grid.h \
	src/model/map_kind.h \
	src/model/map_slots.h \
	src/model/pack.h \
	src/model/boxes.h \
	src/model/sources.h \
	src/model/turn.h \
	$(NULL)
