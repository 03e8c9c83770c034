# SPDX-License-Identifier: Apache-2.0
libzf_format_la_SOURCES += \
	src/format/megatron/bucket_walk.c \
	src/format/megatron/settings.c \
	$(NULL)

noinst_HEADERS += \
	src/format/megatron/bucket_walk.h \
	src/format/megatron/settings.h \
	$(NULL)
