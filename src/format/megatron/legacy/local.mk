# SPDX-License-Identifier: Apache-2.0
libzf_format_la_SOURCES += \
	src/format/megatron/legacy/bucket.c \
	src/format/megatron/legacy/draft.c \
	src/format/megatron/legacy/files.c \
	src/format/megatron/legacy/join.c \
	src/format/megatron/legacy/layers.c \
	src/format/megatron/legacy/legacy.c \
	src/format/megatron/legacy/names.c \
	src/format/megatron/legacy/optim.c \
	src/format/megatron/legacy/rank.c \
	src/format/megatron/legacy/same.c \
	src/format/megatron/legacy/whose.c \
	$(NULL)

noinst_HEADERS += \
	src/format/megatron/legacy/files.h \
	src/format/megatron/legacy/join.h \
	src/format/megatron/legacy/layers.h \
	src/format/megatron/legacy/legacy.h \
	src/format/megatron/legacy/names.def \
	src/format/megatron/legacy/names.h \
	src/format/megatron/legacy/parts.h \
	src/format/megatron/legacy/save.h \
	src/format/megatron/legacy/steps.h \
	$(NULL)
