# SPDX-License-Identifier: Apache-2.0
libzf_codec_la_SOURCES += \
	src/codec/torch/dtensor.c \
	src/codec/torch/file.c \
	src/codec/torch/flip.c \
	src/codec/torch/form.c \
	src/codec/torch/legacy.c \
	src/codec/torch/numpy.c \
	src/codec/torch/parts.c \
	src/codec/torch/sharded.c \
	src/codec/torch/storage.c \
	src/codec/torch/stream.c \
	src/codec/torch/tar.c \
	src/codec/torch/tensor.c \
	src/codec/torch/twins.c \
	src/codec/torch/write.c \
	src/codec/torch/zip.c \
	$(NULL)

noinst_HEADERS += \
	src/codec/torch/file.h \
	$(NULL)
