# SPDX-License-Identifier: Apache-2.0
libzf_codec_la_SOURCES += \
	src/codec/yaml/yaml.c \
	$(NULL)
