# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-codec.la
libzf_codec_la_SOURCES = \
	src/codec/json.c \
	src/codec/safetensors.c \
	src/codec/safetensors_emit.c \
	src/codec/zip.c \
	src/codec/zip_end.c \
	src/codec/zip_end.h \
	src/codec/zip_reader.c \
	src/codec/zip_reader.h \
	$(NULL)
libzf_codec_la_LIBADD = $(ZIP_LIBS) $(JANSSON_LIBS)

noinst_HEADERS += \
	include/zf/codec/dtensor.h \
	include/zf/codec/json.h \
	include/zf/codec/pickle.h \
	include/zf/codec/safetensors.h \
	include/zf/codec/torch.h \
	include/zf/codec/zip.h \
	$(NULL)
