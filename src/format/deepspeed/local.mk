# SPDX-License-Identifier: Apache-2.0
libzf_format_la_SOURCES += \
	src/format/deepspeed/affine.c \
	src/format/deepspeed/agree.c \
	src/format/deepspeed/autoep.c \
	src/format/deepspeed/buffers.c \
	src/format/deepspeed/deepspeed.c \
	src/format/deepspeed/experts.c \
	src/format/deepspeed/experts_split.c \
	src/format/deepspeed/extra_state.c \
	src/format/deepspeed/files.c \
	src/format/deepspeed/groups.c \
	src/format/deepspeed/layers.c \
	src/format/deepspeed/layers_rest.c \
	src/format/deepspeed/mappings.c \
	src/format/deepspeed/masters.c \
	src/format/deepspeed/model_states.c \
	src/format/deepspeed/name.c \
	src/format/deepspeed/optim_states.c \
	src/format/deepspeed/order.c \
	src/format/deepspeed/rank.c \
	src/format/deepspeed/ranks.c \
	src/format/deepspeed/save.c \
	src/format/deepspeed/stored.c \
	src/format/deepspeed/ties.c \
	src/format/deepspeed/tp_info.c \
	src/format/deepspeed/tp_join.c \
	src/format/deepspeed/trained.c \
	src/format/deepspeed/universal.c \
	src/format/deepspeed/vectors.c \
	src/format/deepspeed/warn.c \
	src/format/deepspeed/zero0.c \
	src/format/deepspeed/zero12.c \
	src/format/deepspeed/zero3.c \
	$(NULL)

noinst_HEADERS += \
	src/format/deepspeed/affine.h \
	src/format/deepspeed/agree.h \
	src/format/deepspeed/autoep.h \
	src/format/deepspeed/buffers.h \
	src/format/deepspeed/experts.h \
	src/format/deepspeed/extra_state.h \
	src/format/deepspeed/files.h \
	src/format/deepspeed/groups.h \
	src/format/deepspeed/layers.h \
	src/format/deepspeed/layers_rest.h \
	src/format/deepspeed/mappings.h \
	src/format/deepspeed/masters.h \
	src/format/deepspeed/model_states.h \
	src/format/deepspeed/name.h \
	src/format/deepspeed/optim_states.h \
	src/format/deepspeed/order.h \
	src/format/deepspeed/rank.h \
	src/format/deepspeed/ranks.h \
	src/format/deepspeed/save.h \
	src/format/deepspeed/stored.h \
	src/format/deepspeed/ties.h \
	src/format/deepspeed/tp_info.h \
	src/format/deepspeed/tp_join.h \
	src/format/deepspeed/trained.h \
	src/format/deepspeed/universal.h \
	src/format/deepspeed/vectors.h \
	src/format/deepspeed/warn.h \
	src/format/deepspeed/zero0.h \
	src/format/deepspeed/zero12.h \
	src/format/deepspeed/zero3.h \
	$(NULL)
