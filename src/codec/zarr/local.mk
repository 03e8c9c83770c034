# SPDX-License-Identifier: Apache-2.0
libzf_codec_la_SOURCES += \
	src/codec/zarr/array.c \
	src/codec/zarr/blosc.c \
	src/codec/zarr/chunk.c \
	src/codec/zarr/fill.c \
	$(NULL)

noinst_HEADERS += \
	src/codec/zarr/inside.h \
	$(NULL)
