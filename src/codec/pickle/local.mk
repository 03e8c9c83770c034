# SPDX-License-Identifier: Apache-2.0
libzf_codec_la_SOURCES += \
	src/codec/pickle/call.c \
	src/codec/pickle/fold.c \
	src/codec/pickle/got.c \
	src/codec/pickle/heap.c \
	src/codec/pickle/index.c \
	src/codec/pickle/keys.c \
	src/codec/pickle/load.c \
	src/codec/pickle/memo.c \
	src/codec/pickle/ops.c \
	src/codec/pickle/ops_const.c \
	src/codec/pickle/spend.c \
	src/codec/pickle/text.c \
	src/codec/pickle/value.c \
	src/codec/pickle/watch.c \
	$(NULL)

noinst_HEADERS += \
	src/codec/pickle/fold.h \
	src/codec/pickle/got.h \
	src/codec/pickle/heap.h \
	src/codec/pickle/keys.h \
	src/codec/pickle/memo.h \
	src/codec/pickle/node.h \
	src/codec/pickle/ops.def \
	src/codec/pickle/text.h \
	src/codec/pickle/vm.h \
	src/codec/pickle/watch.h \
	$(NULL)
