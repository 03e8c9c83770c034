# SPDX-License-Identifier: Apache-2.0
libzf_codec_la_SOURCES += \
	src/codec/json/hf_config.c \
	src/codec/json/json.c \
	src/codec/json/jsonin.c \
	src/codec/json/jsonin_token.c \
	src/codec/json/pv_form.c \
	src/codec/json/pv_json.c \
	src/codec/json/pv_out.c \
	$(NULL)

noinst_HEADERS += \
	src/codec/json/jsonin.h \
	src/codec/json/pv_form.h \
	src/codec/json/pv_out.h \
	$(NULL)
