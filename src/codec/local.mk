# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-codec.la
libzf_codec_la_SOURCES = \
	src/codec/hf_config.c \
	src/codec/json.c \
	src/codec/pickle.c \
	src/codec/pickle_atom.c \
	src/codec/pickle_call.c \
	src/codec/pickle_do.c \
	src/codec/pickle_heap.c \
	src/codec/pickle_heap.h \
	src/codec/pickle_index.c \
	src/codec/pickle_index.h \
	src/codec/pickle_keys.c \
	src/codec/pickle_keys.h \
	src/codec/pickle_memo.c \
	src/codec/pickle_memo.h \
	src/codec/pickle_node.h \
	src/codec/pickle_ops.def \
	src/codec/pickle_text.c \
	src/codec/pickle_text.h \
	src/codec/pickle_value.c \
	src/codec/pickle_vm.h \
	src/codec/pvjson.c \
	src/codec/pvjson_form.c \
	src/codec/pvjson_form.h \
	src/codec/pvjson_out.c \
	src/codec/pvjson_out.h \
	src/codec/npy.c \
	src/codec/safetensors.c \
	src/codec/safetensors_emit.c \
	src/codec/torch.c \
	src/codec/torch_dtensor.c \
	src/codec/torch_file.h \
	src/codec/torch_flip.c \
	src/codec/torch_form.c \
	src/codec/torch_legacy.c \
	src/codec/torch_numpy.c \
	src/codec/torch_parts.c \
	src/codec/torch_sharded.c \
	src/codec/torch_store.c \
	src/codec/torch_stream.c \
	src/codec/torch_tar.c \
	src/codec/torch_tensor.c \
	src/codec/torch_zip.c \
	src/codec/torch_write.c \
	src/codec/zip.c \
	src/codec/zip_end.c \
	src/codec/zip_end.h \
	src/codec/zip_reader.c \
	src/codec/zip_reader.h \
	src/codec/zip_write.c \
	$(NULL)
libzf_codec_la_LIBADD = $(ZIP_LIBS) $(JANSSON_LIBS) $(ZLIB_LIBS)

noinst_HEADERS += \
	include/zf/codec/dtensor.h \
	include/zf/codec/hf_config.h \
	include/zf/codec/json.h \
	include/zf/codec/npy.h \
	include/zf/codec/pickle.h \
	include/zf/codec/pvjson.h \
	include/zf/codec/safetensors.h \
	include/zf/codec/torch.h \
	include/zf/codec/torch_write.h \
	include/zf/codec/zip.h \
	include/zf/codec/zip_write.h \
	$(NULL)
