# SPDX-License-Identifier: Apache-2.0
libzf_codec_la_SOURCES += \
	src/codec/safetensors/emit.c \
	src/codec/safetensors/load.c \
	$(NULL)
