# SPDX-License-Identifier: Apache-2.0
libzf_format_la_SOURCES += \
	src/format/consolidated/consolidated.c \
	src/format/consolidated/llama.c \
	src/format/consolidated/llama.h \
	$(NULL)
