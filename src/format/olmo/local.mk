# SPDX-License-Identifier: Apache-2.0
libzf_format_la_SOURCES += \
	src/format/olmo/core.c \
	src/format/olmo/core_meta.c \
	src/format/olmo/flat_params.c \
	src/format/olmo/full.c \
	src/format/olmo/key64.c \
	src/format/olmo/local.c \
	src/format/olmo/local_lay.c \
	src/format/olmo/local_optim.c \
	src/format/olmo/olmo.c \
	src/format/olmo/rank_files.c \
	src/format/olmo/save.c \
	src/format/olmo/sharded.c \
	src/format/olmo/steps.c \
	src/format/olmo/train.c \
	src/format/olmo/unsharded.c \
	$(NULL)

noinst_HEADERS += \
	src/format/olmo/core_meta.h \
	src/format/olmo/flat_params.h \
	src/format/olmo/key64.h \
	src/format/olmo/local_lay.h \
	src/format/olmo/rank_files.h \
	src/format/olmo/save.h \
	src/format/olmo/steps.h \
	src/format/olmo/train.h \
	src/format/olmo/layouts.h \
	$(NULL)
