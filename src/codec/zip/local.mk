# SPDX-License-Identifier: Apache-2.0
libzf_codec_la_SOURCES += \
	src/codec/zip/dir.c \
	src/codec/zip/end.c \
	src/codec/zip/late.c \
	src/codec/zip/libzip.c \
	src/codec/zip/local.c \
	src/codec/zip/reader.c \
	src/codec/zip/write.c \
	src/codec/zip/zip.c \
	$(NULL)

noinst_HEADERS += \
	src/codec/zip/dir.h \
	src/codec/zip/end.h \
	src/codec/zip/late.h \
	src/codec/zip/libzip.h \
	src/codec/zip/local.h \
	src/codec/zip/reader.h \
	$(NULL)
