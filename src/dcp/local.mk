# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-dcp.la
libzf_dcp_la_SOURCES = \
	src/dcp/ask.c \
	src/dcp/bytes_items.c \
	src/dcp/composed.c \
	src/dcp/dir.c \
	src/dcp/files.c \
	src/dcp/frames.c \
	src/dcp/items.c \
	src/dcp/mcore_data.c \
	src/dcp/metadata.c \
	src/dcp/metadata_file.c \
	src/dcp/paths.c \
	src/dcp/placing.c \
	src/dcp/replicas.c \
	src/dcp/state_metadata.c \
	src/dcp/storage_data.c \
	src/dcp/tensors.c \
	src/dcp/whole.c \
	$(NULL)
libzf_dcp_la_LIBADD =

noinst_HEADERS += \
	include/zf/dcp.h \
	src/dcp/bytes_items.h \
	src/dcp/composed.h \
	src/dcp/files.h \
	src/dcp/frames.h \
	src/dcp/items.h \
	src/dcp/mcore_data.h \
	src/dcp/metadata.h \
	src/dcp/paths.h \
	src/dcp/placing.h \
	src/dcp/whole.h \
	$(NULL)
