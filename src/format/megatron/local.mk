# SPDX-License-Identifier: Apache-2.0
libzf_format_la_SOURCES += \
	src/format/megatron/settings.c \
	$(NULL)

noinst_HEADERS += \
	src/format/megatron/settings.h \
	$(NULL)
