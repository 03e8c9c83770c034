# SPDX-License-Identifier: Apache-2.0
libzf_format_la_SOURCES += \
	src/format/deepspeed/agree.c \
	src/format/deepspeed/buffers.c \
	src/format/deepspeed/deepspeed.c \
	src/format/deepspeed/extra_state.c \
	src/format/deepspeed/files.c \
	src/format/deepspeed/groups.c \
	src/format/deepspeed/masters.c \
	src/format/deepspeed/model_states.c \
	src/format/deepspeed/optim_states.c \
	src/format/deepspeed/order.c \
	src/format/deepspeed/stored.c \
	src/format/deepspeed/ties.c \
	src/format/deepspeed/universal.c \
	src/format/deepspeed/util.c \
	src/format/deepspeed/vectors.c \
	src/format/deepspeed/zero0.c \
	src/format/deepspeed/zero12.c \
	src/format/deepspeed/zero3.c \
	$(NULL)

noinst_HEADERS += \
	src/format/deepspeed/ds.h \
	src/format/deepspeed/groups.h \
	src/format/deepspeed/masters.h \
	src/format/deepspeed/order.h \
	src/format/deepspeed/vectors.h \
	src/format/deepspeed/zero12.h \
	src/format/deepspeed/zero3.h \
	$(NULL)
