# SPDX-License-Identifier: Apache-2.0
# Bytes to values and back, a folder a grammar; none knows what a checkpoint is.
noinst_LTLIBRARIES += libzf-codec.la
libzf_codec_la_SOURCES = src/codec/version.c
libzf_codec_la_LIBADD = $(JANSSON_LIBS) $(ZIP_LIBS) $(ZLIB_LIBS) $(ZSTD_LIBS) $(BLOSC_LIBS) $(LZ4_LIBS) $(YAML_LIBS)

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
	include/zf/codec/version.h \
	include/zf/codec/yaml.h \
	include/zf/codec/zarr.h \
	include/zf/codec/zip.h \
	include/zf/codec/zip_write.h \
	$(NULL)

include src/codec/json/local.mk
include src/codec/npy/local.mk
include src/codec/pickle/local.mk
include src/codec/safetensors/local.mk
include src/codec/torch/local.mk
include src/codec/yaml/local.mk
include src/codec/zarr/local.mk
include src/codec/zip/local.mk
