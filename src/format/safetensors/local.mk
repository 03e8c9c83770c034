# SPDX-License-Identifier: Apache-2.0
libzf_format_la_SOURCES += \
	src/format/safetensors/hf.c \
	src/format/safetensors/hf_parts.c \
	src/format/safetensors/join.c \
	src/format/safetensors/safetensors.c \
	src/format/safetensors/series.c \
	src/format/safetensors/tied.c \
	$(NULL)

noinst_HEADERS += \
	src/format/safetensors/hf_parts.h \
	src/format/safetensors/join.h \
	src/format/safetensors/series.h \
	src/format/safetensors/tied.h \
	$(NULL)
